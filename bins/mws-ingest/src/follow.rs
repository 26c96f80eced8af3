//! Keeping up with transcripts that grow.
//!
//! Invariant: a call is in the log within a second of its result being in the transcript, and the
//! state within [`KEEP`] of what was read, so that little is repeated after a kill.
//! Deliberately absent: an end; it is stopped by a signal, which costs nothing.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mws_cli::Failure;

use crate::engine::Engine;
use crate::watch::Watch;

/// Passes are no closer than this,
const PAUSE: Duration = Duration::from_millis(200);
/// nor, where nothing tells of changes, farther apart,
const PAUSE_MAX: Duration = Duration::from_millis(700);
/// and in between take this small a part of the time.
const SHARE: u32 = 20;
/// What tells of changes may miss some, of another machine for example.
const PAUSE_WATCHED: Duration = Duration::from_secs(15);
/// Offsets without calls are kept this often,
const KEEP: Duration = Duration::from_secs(5);
/// and what was done is recorded this often.
const RECORD: Duration = Duration::from_secs(60);

/// Makes `pass` after pass, and appends what each found. A pass returns the directories in which
/// it looked; `roots` counts those that are there.
///
/// # Errors
/// When log or state cannot be written.
pub(crate) fn follow(
    engine: &mut Engine<'_>,
    roots: impl Fn() -> usize,
    mut pass: impl FnMut(&mut Engine<'_>) -> Result<Vec<PathBuf>, Failure>,
) -> Result<Infallible, Failure> {
    let (mut kept, mut recorded) = (Instant::now(), Instant::now());
    let mut watch = Watch::new();
    loop {
        let started = Instant::now();
        let there = roots();
        let dirs = pass(engine)?;
        let mut again = watch.add(&dirs);
        let found = engine.report(None)?;
        let spent = started.elapsed();
        loop {
            if found || kept.elapsed() >= KEEP {
                engine.keep()?;
                kept = Instant::now();
            }
            if recorded.elapsed() >= RECORD {
                engine.record()?;
                recorded = Instant::now();
            }
            std::thread::sleep((spent * SHARE).clamp(PAUSE, PAUSE_MAX));
            again |= watch.changed() || roots() != there;
            if again || watch.is_complete() && started.elapsed() >= PAUSE_WATCHED {
                break;
            }
        }
    }
}
