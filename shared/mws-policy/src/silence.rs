//! Which session a call belongs to: the one it names, else its connection or client, cut where
//! that was silent.
//!
//! Invariant: every call of the group is a sign of life, also a failed one and one that a
//! transcript claims later, so a late transcript never splits what was one session.
//! Deliberately absent: calls that name their session; they say nothing about the others.

use std::collections::HashMap;

use mws_event::Timestamp;

use crate::fold::Seen;

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
    starts: HashMap<Session<'s>, Vec<Timestamp>>,
}

impl<'s> Silence<'s> {
    /// Cuts where more than `gap_ms` lie between two calls of a group.
    pub(crate) fn of<'a: 's>(calls: impl Iterator<Item = &'s Seen<'a>>, gap_ms: i64) -> Self {
        let mut starts: HashMap<Session<'s>, Vec<Timestamp>> = HashMap::new();
        for seen in calls.filter(|seen| seen.call.session.is_none()) {
            starts.entry(group(seen, 0)).or_default().push(seen.start);
        }
        for times in starts.values_mut() {
            times.sort_unstable();
            let mut last = None;
            times.retain(|t| last.replace(*t).is_none_or(|last| *t > last.plus_ms(gap_ms)));
        }
        Self { starts }
    }

    /// The session of `seen`.
    pub(crate) fn session(&self, seen: &'s Seen<'_>) -> Session<'s> {
        if let Some(name) = &seen.call.session {
            return Session::Named(name);
        }
        let starts = self.starts.get(&group(seen, 0)).map_or(&[][..], Vec::as_slice);
        group(seen, starts.partition_point(|start| *start <= seen.start))
    }
}

fn group<'s>(seen: &'s Seen<'_>, n: usize) -> Session<'s> {
    match &seen.call.conn {
        Some(conn) => Session::OfConn(conn, n),
        None => Session::OfClient(&seen.family, n),
    }
}
