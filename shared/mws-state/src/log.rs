//! Reading the log: all segments in order, or following its end.
//!
//! Invariant: only lines that end with a newline are handed out, so a record that is being
//! written is never seen half; a damaged line costs itself only and is counted.
//! Deliberately absent: an index over the log. A million lines fold in seconds.

use std::io::{self, Read, Seek, SeekFrom};
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
    let dir = state.events_dir();
    let numbers = segment_numbers(&dir).unwrap_or_default();
    let calls = Some(state.calls()).filter(|path| path.exists());
    calls.into_iter().chain(numbers.into_iter().map(|n| dir.join(segment_name(n)))).collect()
}

/// Hands every whole line of the log, without its newline, to `each`.
pub fn for_each_line(state: &StateDir, mut each: impl FnMut(&[u8])) -> Damage {
    let mut damage = Damage::default();
    for path in segments(state) {
        let whole = open_regular(&path)
            .and_then(|file| lines_of(file, false, &mut each).map_err(ReadError::from));
        if let Err(e) = whole {
            damage.unreadable += 1;
            tracing::warn!("Cannot read {}: {e}.", path.display());
        }
    }
    damage
}

/// Reads every event of the log.
pub fn read_events(state: &StateDir) -> (Vec<Event>, Damage) {
    let mut events = Vec::new();
    let mut damage = Damage::default();
    let unreadable =
        for_each_line(state, |line| parse_line(line, &mut events, &mut damage)).unreadable;
    damage.unreadable = unreadable;
    (events, damage)
}

/// Reads events from any reader; a last line without newline counts when it is whole.
///
/// # Errors
/// When the reader fails.
pub fn parse_events(
    reader: impl Read,
    events: &mut Vec<Event>,
    damage: &mut Damage,
) -> io::Result<()> {
    lines_of(reader, true, &mut |line| parse_line(line, events, damage))
}

fn parse_line(line: &[u8], events: &mut Vec<Event>, damage: &mut Damage) {
    if line.trim_ascii().is_empty() {
        return;
    }
    match Event::parse(line) {
        Ok(event) => events.push(event),
        Err(ParseError::Newer(_)) => damage.newer += 1,
        Err(ParseError::Damaged(_)) => damage.bad_lines += 1,
    }
}

fn lines_of(
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

/// Reads what is added to the log, across segments.
#[derive(Debug)]
pub struct Follower {
    dir: PathBuf,
    number: u64,
    offset: u64,
    pending: Vec<u8>,
}

impl Follower {
    /// Starts behind what the log holds now.
    pub fn at_end(state: &StateDir) -> Self {
        let dir = state.events_dir();
        let number = segment_numbers(&dir).unwrap_or_default().last().copied().unwrap_or(1);
        let offset = std::fs::metadata(dir.join(segment_name(number))).map_or(0, |m| m.len());
        Self { dir, number, offset, pending: Vec::new() }
    }

    /// Hands out every line there is, the earlier version's first, and continues behind them.
    ///
    /// # Errors
    /// When a file of the log cannot be read.
    pub fn from_start(state: &StateDir, mut each: impl FnMut(&[u8])) -> io::Result<Self> {
        match open_regular(&state.calls()) {
            Ok(file) => lines_of(file, false, &mut each)?,
            Err(ReadError::Missing) => {}
            Err(e) => return Err(io::Error::other(e.to_string())),
        }
        let dir = state.events_dir();
        let number = segment_numbers(&dir)?.first().copied().unwrap_or(1);
        let mut follower = Self { dir, number, offset: 0, pending: Vec::new() };
        follower.poll(each)?;
        Ok(follower)
    }

    /// Hands out the lines added since the last call.
    ///
    /// # Errors
    /// When a segment cannot be read.
    pub fn poll(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        loop {
            // Listed before reading: a segment is left only when a newer one was there already,
            // so nothing that is still being appended to the older one is missed.
            let next = segment_numbers(&self.dir)?.into_iter().find(|n| *n > self.number);
            self.read_on(&mut each)?;
            match next {
                Some(next) => (self.number, self.offset) = (next, 0),
                None => return Ok(()),
            }
            self.pending.clear();
        }
    }

    fn read_on(&mut self, each: &mut impl FnMut(&[u8])) -> io::Result<()> {
        let mut file = match open_regular(&self.dir.join(segment_name(self.number))) {
            Ok(file) => file,
            Err(ReadError::Missing) => return Ok(()),
            Err(e) => return Err(io::Error::other(e.to_string())),
        };
        file.seek(SeekFrom::Start(self.offset))?;
        let mut buffer = vec![0; BUFFER];
        loop {
            let n = file.read(&mut buffer)?;
            if n == 0 {
                return Ok(());
            }
            self.offset += n as u64;
            split_lines(&mut self.pending, &buffer[..n], each);
        }
    }
}

pub(crate) fn segment_name(number: u64) -> String {
    format!("events-{number:06}.jsonl")
}

/// Numbers of the segments in `dir`, ascending; none when the directory is missing.
pub(crate) fn segment_numbers(dir: &Path) -> io::Result<Vec<u64>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
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
        parse_events(CALL.as_bytes(), &mut events, &mut damage).expect("read");
        assert_eq!((events.len(), damage.is_none()), (1, true));
    }

    #[test]
    fn a_follower_from_the_start_hands_out_all_and_goes_on() {
        let (_tmp, state) = lab();
        crate::publish(&state.calls(), b"old\n").expect("written");
        let mut log = Appender::open(&state).expect("opened");
        log.append(b"1\n", now()).expect("appended");
        log.append(b"2\n", now().plus_ms(mws_event::DAY_MS)).expect("appended");
        let mut seen = Vec::new();
        let mut follower =
            Follower::from_start(&state, |line| seen.push(line.to_vec())).expect("read");
        log.append(b"3\n", now().plus_ms(mws_event::DAY_MS)).expect("appended");
        follower.poll(|line| seen.push(line.to_vec())).expect("polled");
        assert_eq!(seen, [&b"old"[..], b"1", b"2", b"3"]);
    }

    #[test]
    fn a_follower_sees_each_new_line_once_across_segments() {
        let (_tmp, state) = lab();
        let mut log = Appender::open(&state).expect("opened");
        log.append(b"0\n", now()).expect("appended");
        let mut follower = Follower::at_end(&state);
        let mut seen = Vec::new();
        for day in 0..3 {
            let line = format!("{}\n", day + 1);
            let then = now().plus_ms(day * mws_event::DAY_MS);
            log.append(line.as_bytes(), then).expect("appended");
            if day != 1 {
                follower.poll(|line| seen.push(line.to_vec())).expect("polled");
            }
        }
        assert_eq!(seen, [b"1", b"2", b"3"]);
    }
}
