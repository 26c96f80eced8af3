//! Where events go: the log, a file, or stdout.
//!
//! Invariant: the log holds the events, synced, before the state says that they were reported.
//! Deliberately absent: a record of the run when nothing is appended to the log.

use std::path::Path;

use mws_cli::{Failure, Output};
use mws_event::{Event, Kind, Record};
use mws_state::{Appender, StateDir, now, publish_to, writer_id};

use crate::calls::Calls;

/// Appended in one write; no segment of the log gets much longer than it should.
const BATCH: usize = 256 * 1024;

/// Appends the calls of `keys` and the record of the run to the log.
///
/// # Errors
/// When the log cannot be written; part of the calls may be in it then.
pub(crate) fn to_log(
    dir: &StateDir,
    calls: &Calls,
    keys: &[u128],
    run: Kind,
) -> Result<(), Failure> {
    let why = |e| Failure::failed(format!("cannot append to the log: {e}"));
    let mut log = Appender::open(dir).map_err(why)?;
    let mut lines = Vec::new();
    for event in keys.iter().filter_map(|key| calls.event(*key)) {
        lines.extend_from_slice(&event.to_line());
        if lines.len() >= BATCH {
            log.append(&lines, now()).map_err(why)?;
            lines.clear();
        }
    }
    let mut record = Event::Record(Record::new(now(), run));
    record.set_id(|| writer_id().next_id());
    lines.extend_from_slice(&record.to_line());
    log.append(&lines, now()).map_err(why)?;
    log.sync().map_err(why)
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
