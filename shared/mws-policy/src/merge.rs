//! One count per call, whoever saw it, and the session it belongs to.
//!
//! Invariant: a call that the proxy and a transcript saw counts once, in the transcript's session.
//! Deliberately absent: judging tools; this is also what a report counts.

use std::collections::{HashMap, HashSet};

use mws_event::{DAY_MS, Source, Timestamp, Via};
use serde::{Deserialize, Serialize};

use crate::fold::{Seen, fold};
use crate::join::join;
use crate::log::Log;
use crate::silence::{Session, Silence};

/// The calls of a log, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged<'a> {
    /// The calls, by time.
    pub calls: Vec<CountedCall<'a>>,
    /// The largest (time, id) among the lines that were counted.
    pub through: Option<Through>,
    /// Lines of calls at or after `as_of`, ignored.
    pub late: u64,
    /// Lines of calls more than 24 h after `as_of`, ignored; not among `late`.
    pub future: u64,
}

/// A call that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountedCall<'a> {
    /// When it began.
    pub ts: Timestamp,
    /// Upstream name of the tool.
    pub tool: &'a str,
    /// Whether it succeeded.
    pub ok: bool,
    /// Which session it belongs to; a number that means something within one merge only.
    pub session: u32,
    /// Client, as the transcript names it, else as it named itself.
    pub client: &'a str,
    /// Whether the proxy saw it.
    pub proxied: bool,
    /// How the tool was reached, as the proxy saw it if it did.
    pub via: Via,
    /// Milliseconds to the result, as the proxy measured them if it did.
    pub ms: u64,
}

/// How far into the log a fold went.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Through {
    /// Time of the line.
    pub ts: Timestamp,
    /// Its event id, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Counts the calls before `as_of`; `gap_minutes` of silence end a session that has no name.
pub fn merge(log: &Log, as_of: Timestamp, gap_minutes: u32) -> Merged<'_> {
    let (mut late, mut future, mut through) = (0, 0, None);
    for line in &log.lines {
        if line.ts < as_of {
            through = through.max(Some((line.ts, line.id.map(|id| log.id(id)))));
        } else if line.ts <= as_of.plus_ms(DAY_MS) {
            late += 1;
        } else {
            future += 1;
        }
    }
    let [transcripts, proxied] = fold(log, as_of);
    let calls = once_each(log, &transcripts, &proxied, i64::from(gap_minutes) * 60_000);
    let through = through.map(|(ts, id)| Through { ts, id: id.map(str::to_owned) });
    Merged { calls, through, late, future }
}

fn once_each<'a>(
    log: &'a Log,
    transcripts: &[Seen],
    proxied: &[Seen],
    gap_ms: i64,
) -> Vec<CountedCall<'a>> {
    let silence = Silence::of(log, transcripts.iter().chain(proxied), gap_ms);
    let sessions = Sessions::of(transcripts.iter().chain(proxied).map(|s| silence.session(s)));
    let number = |seen: &Seen| sessions.number(silence.session(seen));
    let joined = join(log, transcripts, proxied);
    let alone = joined.iter().filter(|joined| joined.is_none()).count();
    let mut calls = Vec::with_capacity(transcripts.len() + alone);
    calls.extend(transcripts.iter().map(|seen| counted(log, seen, number(seen))));
    for (seen, transcript) in proxied.iter().zip(joined) {
        let Some(t) = transcript.map(|t| t as usize) else {
            calls.push(counted(log, seen, number(seen)));
            continue;
        };
        let (call, line) = (&mut calls[t], seen.line(log));
        call.ts = call.ts.min(seen.start);
        call.ok |= seen.ok;
        if !std::mem::replace(&mut call.proxied, true) {
            (call.via, call.ms) = (line.via, line.ms);
        }
        if transcripts[t].line(log).session.is_none() {
            call.session = number(seen);
        }
    }
    calls.sort_unstable();
    calls
}

fn counted<'a>(log: &'a Log, seen: &Seen, session: u32) -> CountedCall<'a> {
    let line = seen.line(log);
    CountedCall {
        ts: seen.start,
        tool: log.name(line.tool),
        ok: seen.ok,
        session,
        client: log.name(line.client),
        proxied: line.src == Source::Proxy,
        via: line.via,
        ms: line.ms,
    }
}

/// Sessions numbered by what tells them apart, so that numbers do not depend on line order.
struct Sessions<'s>(HashMap<Session<'s>, u32>);

impl<'s> Sessions<'s> {
    fn of(sessions: impl Iterator<Item = Session<'s>>) -> Self {
        let different: HashSet<Session<'s>> = sessions.collect();
        let mut sorted: Vec<Session<'s>> = different.into_iter().collect();
        sorted.sort_unstable();
        Self(sorted.into_iter().zip(0..).collect())
    }

    fn number(&self, session: Session<'s>) -> u32 {
        self.0.get(&session).copied().unwrap_or(u32::MAX)
    }
}
