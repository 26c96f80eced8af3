//! Who is in: a fold over the successes of one tool.
//!
//! Invariant: a tool enters at the success that completes both thresholds within the window that
//! ends there, and leaves `keepDays` after its last success. How often somebody looks changes
//! nothing. Both spans include their first millisecond.
//! Deliberately absent: pins and the catalog ([`crate::decide`]).

use mws_config::Thresholds;
use mws_event::{DAY_MS, Timestamp};

use crate::{Success, Track};

/// A time in: after `enter`, up to and with `leave`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// The success that brought the tool in.
    pub(crate) enter: Timestamp,
    /// The last moment in.
    pub(crate) leave: Timestamp,
}

impl Span {
    pub(crate) fn holds_at(self, t: Timestamp) -> bool {
        self.enter < t && t <= self.leave
    }
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

/// All times in, by the sessions and calls of a tool.
pub(crate) fn member_spans(track: &Track<'_>, thresholds: &Thresholds) -> Vec<Span> {
    let keep = days_ms(thresholds.keep_days);
    let mut window = Window::new(track, thresholds);
    let mut spans: Vec<Span> = Vec::new();
    for success in &track.successes {
        let meets = window.take_next_is_met();
        let leave = success.ts.plus_ms(keep);
        match spans.last_mut() {
            Some(span) if success.ts <= span.leave => span.leave = leave,
            _ if meets => spans.push(Span { enter: success.ts, leave }),
            _ => {}
        }
    }
    spans
}

/// All times in which each success keeps a tool for `days`.
pub(crate) fn used_spans(successes: &[Success], days: u32) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for success in successes {
        let leave = success.ts.plus_ms(days_ms(days));
        match spans.last_mut() {
            Some(span) if success.ts <= span.leave => span.leave = leave,
            _ => spans.push(Span { enter: success.ts, leave }),
        }
    }
    spans
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
    /// Successes in the window, by session.
    counts: Vec<u32>,
    sessions: usize,
}

impl<'a> Window<'a> {
    fn new(track: &'a Track<'_>, thresholds: &'a Thresholds) -> Self {
        let counts = vec![0; track.sessions as usize];
        Self { successes: &track.successes, thresholds, from: 0, to: 0, counts, sessions: 0 }
    }

    fn take_next_is_met(&mut self) -> bool {
        let Some(next) = self.successes.get(self.to) else { return false };
        self.to += 1;
        let count = &mut self.counts[next.session as usize];
        *count += 1;
        self.sessions += usize::from(*count == 1);
        let start = next.ts.plus_ms(-days_ms(self.thresholds.window_days));
        while let Some(old) = self.successes.get(self.from).filter(|old| old.ts < start) {
            self.from += 1;
            let count = &mut self.counts[old.session as usize];
            *count -= 1;
            self.sessions -= usize::from(*count == 0);
        }
        self.sessions >= self.thresholds.min_sessions as usize
            && self.to - self.from >= self.thresholds.min_calls as usize
    }
}
