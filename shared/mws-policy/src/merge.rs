//! One count per call, whoever saw it, and the session it belongs to.
//!
//! Invariant: a call that the proxy and a transcript saw counts once, in the transcript's session.
//! Deliberately absent: judging tools; this is also what a report counts.

use std::collections::HashMap;

use mws_event::{DAY_MS, Event, Timestamp, Via};
use serde::{Deserialize, Serialize};

use crate::fold::{Seen, fold};
use crate::join::join;
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
pub fn merge(events: &[Event], as_of: Timestamp, gap_minutes: u32) -> Merged<'_> {
    let (mut late, mut future, mut through) = (0, 0, None);
    let counted = events.iter().filter_map(|event| match event {
        Event::Call(call) if call.ts < as_of => {
            through = through.max(Some((call.ts, &call.id)));
            Some(&**call)
        }
        Event::Call(call) if call.ts <= as_of.plus_ms(DAY_MS) => {
            late += 1;
            None
        }
        Event::Call(_) => {
            future += 1;
            None
        }
        Event::Record(_) => None,
    });
    let (transcripts, proxied) = fold(counted);
    let calls = once_each(&transcripts, &proxied, i64::from(gap_minutes) * 60_000);
    let through = through.map(|(ts, id)| Through { ts, id: id.clone() });
    Merged { calls, through, late, future }
}

fn once_each<'a>(
    transcripts: &[Seen<'a>],
    proxied: &[Seen<'a>],
    gap_ms: i64,
) -> Vec<CountedCall<'a>> {
    let silence = Silence::of(transcripts.iter().chain(proxied), gap_ms);
    let mut calls: Vec<_> = transcripts.iter().map(|t| (counted(t), silence.session(t))).collect();
    let mut has_proxied = vec![false; transcripts.len()];
    for (seen, transcript) in proxied.iter().zip(join(transcripts, proxied)) {
        let Some(t) = transcript else {
            calls.push((counted(seen), silence.session(seen)));
            continue;
        };
        let (call, of) = &mut calls[t];
        call.ts = call.ts.min(seen.start);
        call.ok |= seen.ok;
        if !std::mem::replace(&mut has_proxied[t], true) {
            (call.via, call.ms, call.proxied) = (seen.call.via, seen.call.ms, true);
        }
        if transcripts[t].call.session.is_none() {
            *of = silence.session(seen);
        }
    }
    number_sessions(calls)
}

fn counted<'a>(seen: &Seen<'a>) -> CountedCall<'a> {
    let call = seen.call;
    CountedCall {
        ts: seen.start,
        tool: &call.tool,
        ok: seen.ok,
        session: 0,
        client: &call.client,
        proxied: call.src == mws_event::Source::Proxy,
        via: call.via,
        ms: call.ms,
    }
}

/// Sorts, then numbers sessions as they appear, so that numbers do not depend on line order.
fn number_sessions<'a>(mut calls: Vec<(CountedCall<'a>, Session<'_>)>) -> Vec<CountedCall<'a>> {
    calls.sort_unstable();
    let mut numbers = HashMap::new();
    let number = |(call, session)| {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        CountedCall { session: *numbers.entry(session).or_insert(next), ..call }
    };
    calls.into_iter().map(number).collect()
}
