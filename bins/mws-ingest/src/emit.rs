//! Where events go: the log, a file, or stdout.
//!
//! Invariant: the log holds the events, synced, before the state says that they were reported.
//! Deliberately absent: a record of the run when nothing is appended to the log.

use std::collections::HashSet;
use std::path::Path;

use mws_cli::{Failure, Output};
use mws_event::{Event, Kind, Record, Source};
use mws_state::{Appender, StateDir, for_each_line, now, publish_to, writer_id};

use crate::calls::Calls;

/// Appended in one write; no segment of the log gets much longer than it should.
const BATCH: usize = 256 * 1024;

/// The ids of the calls in the log that were found in transcripts.
pub(crate) fn logged(dir: &StateDir) -> HashSet<String> {
    let mut ids = HashSet::new();
    for_each_line(dir, |line| {
        if let Ok(Event::Call(call)) = Event::parse(line)
            && call.src == Source::Transcript
        {
            ids.extend(call.id);
        }
    });
    ids
}

/// Appends the calls of `keys` to the log.
///
/// # Errors
/// When the log cannot be written; part of the calls may be in it then.
pub(crate) fn to_log(dir: &StateDir, calls: &Calls, keys: &[u128]) -> Result<(), Failure> {
    let mut log = Appender::open(dir).map_err(failed)?;
    let mut lines = Vec::new();
    for event in keys.iter().filter_map(|key| calls.event(*key)) {
        lines.extend_from_slice(&event.to_line());
        if lines.len() >= BATCH {
            log.append(&lines, now()).map_err(failed)?;
            lines.clear();
        }
    }
    log.append(&lines, now()).map_err(failed)?;
    log.sync().map_err(failed)
}

/// Appends the record of a run to the log.
///
/// # Errors
/// When the log cannot be written.
pub(crate) fn record(dir: &StateDir, run: Kind) -> Result<(), Failure> {
    let mut record = Event::Record(Record::new(now(), run));
    record.set_id(|| writer_id().next_id());
    let mut log = Appender::open(dir).map_err(failed)?;
    log.append(&record.to_line(), now()).map_err(failed)
}

fn failed(e: std::io::Error) -> Failure {
    Failure::failed(format!("cannot append to the log: {e}"))
}

/// Writes the calls of `keys` to a file, or to stdout for `-`.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn to_output(path: &Path, calls: &Calls, keys: &[u128]) -> Result<(), Failure> {
    let events = keys.iter().filter_map(|key| calls.event(*key));
    if path == Path::new("-") {
        let mut out = Output::stdout();
        for event in events {
            out.bytes(&event.to_line())?;
        }
        return Ok(out.finish()?);
    }
    let lines: Vec<u8> = events.flat_map(|event| event.to_line()).collect();
    Ok(publish_to(path, &lines)?)
}
