//! Keeping up with transcripts that grow.
//!
//! Invariant: a call is in the log within a second of its result being in the transcript, and the
//! state within [`KEEP`] of what was read, so that little is repeated after a kill.
//! Deliberately absent: an end; it is stopped by a signal, which costs nothing.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use mws_cli::Failure;

use crate::engine::Engine;

/// Passes are no closer than this,
const PAUSE: Duration = Duration::from_millis(200);
/// nor farther apart,
const PAUSE_MAX: Duration = Duration::from_millis(700);
/// and in between take this small a part of the time.
const SHARE: u32 = 50;
/// Offsets without calls are kept this often,
const KEEP: Duration = Duration::from_secs(5);
/// and what was done is recorded this often.
const RECORD: Duration = Duration::from_secs(60);

/// Makes `pass` after pass, and appends what each found.
///
/// # Errors
/// When log or state cannot be written.
pub(crate) fn follow(
    engine: &mut Engine<'_>,
    mut pass: impl FnMut(&mut Engine<'_>) -> Result<(), Failure>,
) -> Result<Infallible, Failure> {
    let (mut kept, mut recorded) = (Instant::now(), Instant::now());
    loop {
        let started = Instant::now();
        pass(engine)?;
        let found = engine.report(None)?;
        if found || kept.elapsed() >= KEEP && engine.changed() {
            engine.keep()?;
            kept = Instant::now();
        }
        if recorded.elapsed() >= RECORD {
            engine.record()?;
            recorded = Instant::now();
        }
        std::thread::sleep((started.elapsed() * SHARE).clamp(PAUSE, PAUSE_MAX));
    }
}
