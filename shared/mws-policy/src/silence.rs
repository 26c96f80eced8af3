//! Which session a call belongs to: the one it names, else its connection or client, cut where
//! that was silent.
//!
//! Invariant: every call of the group is a sign of life, also a failed one and one that a
//! transcript claims later, so a late transcript never splits what was one session.
//! Deliberately absent: calls that name their session; they say nothing about the others.

use std::collections::HashMap;

use mws_event::Timestamp;

use crate::fold::Seen;
use crate::log::{Line, Log};

/// What tells sessions apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Session<'s> {
    /// By its name, whatever the client calls itself.
    Named(&'s str),
    /// The n-th of a connection.
    OfConn(&'s str, usize),
    /// The n-th of a client.
    OfClient(&'s str, usize),
}

/// When each connection and client woke from a silence.
#[derive(Debug)]
pub(crate) struct Silence<'s> {
    log: &'s Log,
    starts: HashMap<Session<'s>, Vec<Timestamp>>,
}

impl<'s> Silence<'s> {
    /// Cuts where more than `gap_ms` lie between two calls of a group.
    pub(crate) fn of<'a>(log: &'s Log, calls: impl Iterator<Item = &'a Seen>, gap_ms: i64) -> Self {
        let mut starts: HashMap<Session<'s>, Vec<Timestamp>> = HashMap::new();
        for seen in calls {
            let line = seen.line(log);
            if line.session.is_none() {
                starts.entry(group(log, line, 0)).or_default().push(seen.start);
            }
        }
        for times in starts.values_mut() {
            times.sort_unstable();
            let mut last = None;
            times.retain(|t| last.replace(*t).is_none_or(|last| *t > last.plus_ms(gap_ms)));
            times.shrink_to_fit();
        }
        Self { log, starts }
    }

    /// The session of `seen`.
    pub(crate) fn session(&self, seen: &Seen) -> Session<'s> {
        let line = seen.line(self.log);
        if let Some(name) = line.session {
            return Session::Named(self.log.name(name));
        }
        let starts = self.starts.get(&group(self.log, line, 0)).map_or(&[][..], Vec::as_slice);
        group(self.log, line, starts.partition_point(|start| *start <= seen.start))
    }
}

fn group<'s>(log: &'s Log, line: &Line, n: usize) -> Session<'s> {
    match line.conn {
        Some(conn) => Session::OfConn(log.name(conn), n),
        None => Session::OfClient(log.name(line.family), n),
    }
}
