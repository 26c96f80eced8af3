//! From lines to calls: each call once per place that saw it.
//!
//! Invariant: the result does not depend on the order of lines; `ok` only ever turns true and the
//! earliest time holds. A line without any id is known by its whole content.
//! Deliberately absent: joining the proxy's calls with those of transcripts ([`crate::join`]).

use std::cmp::{Ordering, Reverse};
use std::hash::{DefaultHasher, Hash, Hasher};

use mws_event::{Source, Timestamp, Via};

use crate::log::{Line, Log};

/// One call as one place saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// The line that tells most.
    line: u32,
    /// Earliest time of all its lines.
    pub(crate) start: Timestamp,
    /// True when any of its lines says so.
    pub(crate) ok: bool,
}

impl Seen {
    pub(crate) fn line(self, log: &Log) -> &Line {
        &log.lines[self.line as usize]
    }
}

/// Folds the lines before `as_of` into the calls that transcripts hold and those that the proxy
/// saw, both by time.
pub(crate) fn fold(log: &Log, as_of: Timestamp) -> [Vec<Seen>; 2] {
    [Source::Transcript, Source::Proxy].map(|place| {
        let mut seen = once_each(log, &of_place(log, place, as_of));
        seen.sort_unstable_by(|a, b| by_time(log, *a, *b));
        seen
    })
}

/// The lines of one place with the hash of what makes them a call, equal ones side by side.
fn of_place(log: &Log, place: Source, as_of: Timestamp) -> Vec<(u64, u32)> {
    let lines = (0u32..).zip(&log.lines).filter(|(_, line)| line.src == place && line.ts < as_of);
    let hashed = lines.map(|(i, line)| {
        let mut hasher = DefaultHasher::new();
        key(log, line).hash(&mut hasher);
        (hasher.finish(), i)
    });
    let mut lines: Vec<(u64, u32)> = hashed.collect();
    lines.sort_unstable_by(|(hash_a, a), (hash_b, b)| {
        hash_a.cmp(hash_b).then_with(|| key(log, line(log, *a)).cmp(&key(log, line(log, *b))))
    });
    lines
}

fn once_each(log: &Log, lines: &[(u64, u32)]) -> Vec<Seen> {
    let same = |(hash_a, a): &(u64, u32), (hash_b, b): &(u64, u32)| {
        hash_a == hash_b && key(log, line(log, *a)) == key(log, line(log, *b))
    };
    let call = |lines: &[(u64, u32)]| {
        let mut lines = lines.iter().map(|(_, i)| *i);
        let first = seen(log, lines.next()?);
        Some(lines.fold(first, |all, i| all.with(log, seen(log, i))))
    };
    lines.chunk_by(same).filter_map(call).collect()
}

fn seen(log: &Log, i: u32) -> Seen {
    let line = line(log, i);
    Seen { line: i, start: line.ts, ok: line.ok }
}

fn line(log: &Log, i: u32) -> &Line {
    &log.lines[i as usize]
}

impl Seen {
    fn with(self, log: &Log, other: Self) -> Self {
        let is_better = rank(log, other.line(log)) < rank(log, self.line(log));
        Self {
            line: if is_better { other.line } else { self.line },
            start: self.start.min(other.start),
            ok: self.ok || other.ok,
        }
    }
}

/// What makes two lines the same call.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key<'a> {
    CallId(&'a str, &'a str),
    EventId(&'a str),
    Content(Timestamp, &'a str, Via, bool, u64, &'a str, Option<&'a str>, Option<&'a str>),
}

fn key<'a>(log: &'a Log, c: &Line) -> Key<'a> {
    match (c.call_id, c.id) {
        (Some(id), _) => Key::CallId(log.name(c.family), log.id(id)),
        (None, Some(id)) => Key::EventId(log.id(id)),
        (None, None) => Key::Content(
            c.ts,
            log.name(c.tool),
            c.via,
            c.ok,
            c.ms,
            log.name(c.client),
            c.session.map(|name| log.name(name)),
            c.conn.map(|name| log.name(name)),
        ),
    }
}

fn by_time(log: &Log, a: Seen, b: Seen) -> Ordering {
    a.start.cmp(&b.start).then_with(|| {
        let (a, b) = (a.line(log), b.line(log));
        let tool = |line: &Line| log.name(line.tool);
        tool(a).cmp(tool(b)).then_with(|| key(log, a).cmp(&key(log, b)))
    })
}

/// Smallest is the line to believe: a success, with a session, the earliest, the last written.
fn rank<'a>(log: &'a Log, c: &Line) -> impl Ord + 'a {
    let name = |name| log.name(name);
    let rest = (name(c.tool), c.via, c.ms, name(c.client), c.session.map(name), c.conn.map(name));
    (!c.ok, c.session.is_none(), c.ts, Reverse(c.id.map(|id| log.id(id))), rest)
}
