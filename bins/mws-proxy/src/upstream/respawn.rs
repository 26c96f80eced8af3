//! How often a process that keeps ending is started.
//!
//! Invariant: at most 12 starts in the first ten minutes of a crash loop, whoever asks for them.
//! Deliberately absent: starting.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::fault::{Fault, FaultKind};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A process that ran this long starts with a clean record.
const HEALTHY: Duration = Duration::from_secs(60);
/// So many ends within [`HEALTHY`] are a loop.
const LOOP: usize = 5;
/// The pause of a process that ends in a loop.
const PARK: Duration = Duration::from_secs(120);

/// The record of one command.
#[derive(Default)]
pub(crate) struct Respawn {
    ends: VecDeque<Instant>,
    pause: Duration,
    failures: u32,
    parked: bool,
    fault: Option<Fault>,
}

impl Respawn {
    /// Ends in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether it may be started now; a fault while it rests.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let Some(last) = self.ends.back() else { return Ok(()) };
        let left = self.pause.saturating_sub(last.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        let why = self.fault.as_ref().map_or("the upstream process ended", |f| &f.message);
        let what = format!(
            "{why}; it failed {} times and is started again in {} s at the earliest",
            self.failures,
            left.as_secs() + 1
        );
        Err(Fault::new(self.fault.as_ref().map_or(FaultKind::Closed, |f| f.kind), what))
    }

    /// A process that lived so long has ended, or did not come to serve.
    pub(crate) fn ended(&mut self, lived: Duration, fault: Option<&Fault>) {
        if lived >= HEALTHY {
            *self = Self::default();
        }
        let now = Instant::now();
        self.ends.push_back(now);
        if self.ends.len() > LOOP {
            self.ends.pop_front();
        }
        let in_loop = self.ends.front().is_some_and(|first| now - *first <= HEALTHY);
        self.parked |= in_loop && self.ends.len() == LOOP;
        let doubled = FIRST_PAUSE * 2u32.saturating_pow(self.failures.min(8));
        self.pause = if self.parked { PARK } else { doubled.min(LONGEST_PAUSE) };
        self.failures += 1;
        self.fault = fault.cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts within a time, by callers that ask ten times a second, of a process that lives so long.
    async fn starts(within: u64, lives: Duration) -> u32 {
        let (mut respawn, begun, mut starts) = (Respawn::default(), Instant::now(), 0);
        while begun.elapsed() < Duration::from_secs(within) {
            if respawn.check().is_ok() {
                starts += 1;
                tokio::time::advance(lives).await;
                respawn.ended(lives, None);
            }
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        starts
    }

    #[tokio::test(start_paused = true)]
    async fn a_crash_loop_is_parked_and_a_healthy_process_comes_back_at_once() {
        let loops = starts(600, Duration::ZERO).await;
        assert!((8..=12).contains(&loops), "{loops} starts in ten minutes");
        let day = starts(24 * 60 * 60, Duration::ZERO).await;
        assert!((700..=730).contains(&day), "{day} starts in a day, one in two minutes");
        let healthy = starts(6100, Duration::from_secs(61)).await;
        assert!(healthy >= 98, "{healthy} starts of a process that lives a minute");
    }

    #[test]
    fn who_has_to_wait_is_told_why_and_how_long() {
        let mut respawn = Respawn::default();
        let fault = Fault::new(FaultKind::Closed, "it ended; its last words: no licence");
        for _ in 0..LOOP {
            respawn.ended(Duration::ZERO, Some(&fault));
        }
        let told = respawn.check().expect_err("parked").message;
        assert!(told.contains("no licence") && told.contains("5 times"), "{told}");
        assert!(told.contains("120 s") || told.contains("119 s"), "{told}");
    }
}
