//! How far a long run is, on a terminal.
//!
//! Invariant: a line of its own, on stderr, only on a terminal, and gone at the end.
//! Deliberately absent: guesses of the time left.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shorter runs say nothing, and longer ones no more often.
const EVERY: Duration = Duration::from_millis(250);

/// The line.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    last: Option<Instant>,
    files: (u64, u64),
    bytes: (u64, u64),
}

impl Progress {
    /// Shows progress when somebody may want to see it.
    pub(crate) fn on_terminal(quiet: bool) -> Self {
        let last = (!quiet && std::io::stderr().is_terminal()).then(Instant::now);
        Self { shown: false, last, files: (0, 0), bytes: (0, 0) }
    }

    /// Shows nothing.
    pub(crate) fn hidden() -> Self {
        Self { shown: false, last: None, files: (0, 0), bytes: (0, 0) }
    }

    /// Files of these sizes are to be read.
    pub(crate) fn start(&mut self, sizes: impl Iterator<Item = u64>) {
        for size in sizes {
            self.files.1 += 1;
            self.bytes.1 += size;
        }
    }

    /// One of them was read.
    pub(crate) fn step(&mut self, size: u64) {
        self.files.0 += 1;
        self.bytes.0 += size;
        if self.last.is_some_and(|last| last.elapsed() >= EVERY) {
            self.last = Some(Instant::now());
            self.shown = true;
            say(&self.line());
        }
    }

    fn line(&self) -> String {
        let mb = |bytes: u64| bytes / 1_000_000;
        let (files, bytes) = (self.files, self.bytes);
        format!(
            "\rReading transcripts: {} of {} MB, {} of {} files ",
            mb(bytes.0),
            mb(bytes.1),
            files.0,
            files.1
        )
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            say(&format!("\r{:1$}\r", "", self.line().len()));
        }
    }
}

fn say(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_counts_what_was_read() {
        let mut progress = Progress::hidden();
        progress.start([3_000_000, 1_000_000].into_iter());
        progress.step(3_000_000);
        assert_eq!(progress.line(), "\rReading transcripts: 3 of 4 MB, 1 of 2 files ");
        assert!(!progress.shown);
    }
}
