//! Reading the log: all segments in order.
//!
//! Invariant: only lines that end with a newline are handed out, so a record that is being
//! written is never seen half; a damaged line costs itself only and is counted.
//! Deliberately absent: following its end ([`crate::Follower`]), and an index over the log: a
//! million lines fold in seconds.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use mws_event::{Event, ParseError};

use crate::StateDir;
use crate::fs::{ReadError, open_regular};

const BUFFER: usize = 256 * 1024;

/// What could not be used while reading events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Damage {
    /// Lines that are no event.
    pub bad_lines: u64,
    /// Lines of a later format version.
    pub newer: u64,
    /// Files that could not be opened or read to the end.
    pub unreadable: u64,
}

impl Damage {
    /// True when nothing was lost.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The files of the log, oldest first; `calls.jsonl` of the earlier version leads.
pub fn segments(state: &StateDir) -> Vec<PathBuf> {
    segments_after(state, 0)
}

fn segments_after(state: &StateDir, after: u64) -> Vec<PathBuf> {
    let dir = state.events_dir();
    let numbers = segment_numbers(&dir).unwrap_or_default().into_iter().filter(|n| *n > after);
    let calls = Some(state.calls()).filter(|path| path.exists());
    calls.into_iter().chain(numbers.map(|n| dir.join(segment_name(n)))).collect()
}

/// Hands every whole line of the log, without its newline, to `each`.
pub fn for_each_line(state: &StateDir, each: impl FnMut(&[u8])) -> Damage {
    lines_of_files(&segments(state), each)
}

fn lines_of_files(paths: &[PathBuf], mut each: impl FnMut(&[u8])) -> Damage {
    let mut damage = Damage::default();
    for path in paths {
        let whole = open_regular(path)
            .and_then(|file| lines_of(file, false, &mut each).map_err(ReadError::from));
        match whole {
            // Removed since it was listed, because it was too old.
            Ok(()) | Err(ReadError::Missing) => {}
            Err(e) => {
                damage.unreadable += 1;
                tracing::warn!("Cannot read {}: {e}.", path.display());
            }
        }
    }
    damage
}

/// Reads every event of the log.
pub fn read_events(state: &StateDir) -> (Vec<Event>, Damage) {
    let mut events = Vec::new();
    let damage = for_each_event(state, |event| events.push(event));
    (events, damage)
}

/// Hands every event of the log to `each`.
pub fn for_each_event(state: &StateDir, each: impl FnMut(Event)) -> Damage {
    for_each_event_after(state, 0, each)
}

/// As [`for_each_event`], as if the segments up to and with this number were not there.
pub fn for_each_event_after(state: &StateDir, number: u64, mut each: impl FnMut(Event)) -> Damage {
    let mut damage = Damage::default();
    let paths = segments_after(state, number);
    let unreadable =
        lines_of_files(&paths, |line| parse_line(line, &mut each, &mut damage)).unreadable;
    Damage { unreadable, ..damage }
}

/// Hands the events of any reader to `each`; a last line without newline counts when it is whole.
///
/// # Errors
/// When the reader fails.
pub fn parse_events(
    reader: impl Read,
    mut each: impl FnMut(Event),
    damage: &mut Damage,
) -> io::Result<()> {
    lines_of(reader, true, &mut |line| parse_line(line, &mut each, damage))
}

fn parse_line(line: &[u8], each: &mut impl FnMut(Event), damage: &mut Damage) {
    if line.trim_ascii().is_empty() {
        return;
    }
    match Event::parse(line) {
        Ok(event) => each(event),
        Err(ParseError::Newer(_)) => damage.newer += 1,
        Err(ParseError::Damaged(_)) => damage.bad_lines += 1,
    }
}

pub(crate) fn lines_of(
    mut reader: impl Read,
    take_last: bool,
    each: &mut impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut pending = Vec::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        let n = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        split_lines(&mut pending, &buffer[..n], each);
    }
    if take_last && !pending.is_empty() {
        each(&pending);
    }
    Ok(())
}

/// Hands out the lines that `chunk` completes; the rest waits in `pending`.
fn split_lines(pending: &mut Vec<u8>, chunk: &[u8], each: &mut impl FnMut(&[u8])) {
    let mut rest = chunk;
    while let Some(end) = rest.iter().position(|b| *b == b'\n') {
        if pending.is_empty() {
            each(&rest[..end]);
        } else {
            pending.extend_from_slice(&rest[..end]);
            each(pending);
            pending.clear();
        }
        rest = &rest[end + 1..];
    }
    pending.extend_from_slice(rest);
}

pub(crate) fn segment_name(number: u64) -> String {
    format!("events-{number:06}.jsonl")
}

/// Numbers of the segments in `dir`, ascending; none when the directory is missing.
///
/// # Errors
/// When the directory cannot be listed; the message names it.
pub(crate) fn segment_numbers(dir: &Path) -> io::Result<Vec<u64>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => {
            return Err(io::Error::new(e.kind(), format!("cannot list {}: {e}", dir.display())));
        }
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| {
            name.strip_prefix("events-")?.strip_suffix(".jsonl")?.parse::<u64>().ok()
        });
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Appender, now};

    const CALL: &str = r#"{"ts":"2026-03-01T00:00:11.000Z","tool":"a","ok":true}"#;

    fn lab() -> (tempfile::TempDir, StateDir) {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::at(tmp.path());
        (tmp, state)
    }

    #[test]
    fn the_earlier_log_leads_and_damage_is_counted() {
        let (_tmp, state) = lab();
        let old = CALL.replace("\"a\"", "\"old\"");
        crate::publish(&state.calls(), format!("{old}\nnot json\n").as_bytes()).expect("written");
        let mut log = Appender::open(&state).expect("opened");
        let torn = &CALL[..20];
        log.append(format!("{CALL}\n{{\"v\":9}}\n\n{torn}").as_bytes(), now()).expect("appended");
        let (events, damage) = read_events(&state);
        let tools: Vec<_> = events
            .iter()
            .map(|e| match e {
                Event::Call(c) => c.tool.as_str(),
                Event::Record(_) => "",
            })
            .collect();
        assert_eq!(tools, ["old", "a"]);
        assert_eq!(damage, Damage { bad_lines: 1, newer: 1, unreadable: 0 });
    }

    #[test]
    fn a_missing_state_directory_is_an_empty_log() {
        let (events, damage) = read_events(&StateDir::at("/nonexistent/state"));
        assert!(events.is_empty() && damage.is_none());
    }

    #[test]
    fn a_stream_may_end_without_a_newline() {
        let (mut events, mut damage) = (Vec::new(), Damage::default());
        parse_events(CALL.as_bytes(), |event| events.push(event), &mut damage).expect("read");
        assert_eq!((events.len(), damage.is_none()), (1, true));
    }
}
