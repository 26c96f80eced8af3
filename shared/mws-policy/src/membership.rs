//! Who is in: a fold over the successes of one tool.
//!
//! Invariant: a tool enters at the success that completes both thresholds within the window that
//! ends there, and leaves `keepDays` after its last success. How often somebody looks changes
//! nothing. Both spans include their first millisecond.
//! Deliberately absent: pins and the catalog ([`crate::decide`]).

use std::collections::HashMap;

use mws_config::Thresholds;
use mws_event::{DAY_MS, Timestamp};

use crate::Success;

/// Where a tool stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its last success did not bring or keep it in.
    Outside,
    /// In.
    Member,
    /// Was in at its last success, which is too long ago.
    FellOut,
}

/// Whether the thresholds can be used together.
///
/// # Errors
/// A tool that meets the thresholds would fall out at once: `keepDays` is less than `windowDays`.
pub fn check_thresholds(thresholds: &Thresholds) -> Result<(), String> {
    let Thresholds { window_days, keep_days, .. } = thresholds;
    if keep_days < window_days {
        return Err(format!("keepDays ({keep_days}) is less than windowDays ({window_days})"));
    }
    Ok(())
}

/// Folds `successes`, which go by time and lie before `as_of`.
pub(crate) fn standing(
    successes: &[Success],
    thresholds: &Thresholds,
    as_of: Timestamp,
) -> Standing {
    let keep = days_ms(thresholds.keep_days);
    let mut window = Window::new(successes, thresholds);
    let mut member = false;
    let mut last = None;
    for success in successes {
        member &= last.is_some_and(|last: Timestamp| success.ts <= last.plus_ms(keep));
        member |= window.take_next_is_met();
        last = Some(success.ts);
    }
    match last {
        Some(last) if member && as_of <= last.plus_ms(keep) => Standing::Member,
        Some(_) if member => Standing::FellOut,
        _ => Standing::Outside,
    }
}

/// Days as milliseconds.
pub(crate) fn days_ms(days: u32) -> i64 {
    i64::from(days) * DAY_MS
}

/// The successes in the window that ends at the last one taken.
struct Window<'a> {
    successes: &'a [Success],
    thresholds: &'a Thresholds,
    from: usize,
    to: usize,
    sessions: HashMap<u32, u32>,
}

impl<'a> Window<'a> {
    fn new(successes: &'a [Success], thresholds: &'a Thresholds) -> Self {
        Self { successes, thresholds, from: 0, to: 0, sessions: HashMap::new() }
    }

    fn take_next_is_met(&mut self) -> bool {
        let Some(next) = self.successes.get(self.to) else { return false };
        self.to += 1;
        *self.sessions.entry(next.session).or_default() += 1;
        let start = next.ts.plus_ms(-days_ms(self.thresholds.window_days));
        while let Some(old) = self.successes.get(self.from).filter(|old| old.ts < start) {
            self.from += 1;
            if let Some(n) = self.sessions.get_mut(&old.session) {
                *n -= 1;
                if *n == 0 {
                    self.sessions.remove(&old.session);
                }
            }
        }
        self.sessions.len() >= self.thresholds.min_sessions as usize
            && self.to - self.from >= self.thresholds.min_calls as usize
    }
}
