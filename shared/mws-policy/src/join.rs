//! Which call of the proxy's log is which call of a transcript.
//!
//! Invariant: a transcript call takes part in at most one match by time, and as many pairs match
//! as can. Deliberately absent: what a match means for session and outcome ([`crate::merge`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use mws_event::Timestamp;

use crate::fold::Seen;

/// How far the two clocks, and the ways to and from the proxy, may set the times apart.
const SLACK_MS: i64 = 2_000;

/// For each call of `proxied`, the index of the same call in `transcripts`.
pub(crate) fn join(transcripts: &[Seen<'_>], proxied: &[Seen<'_>]) -> Vec<Option<usize>> {
    let mut joined = by_call_id(transcripts, proxied);
    for with_session in [true, false] {
        for (t, p) in candidates(transcripts, proxied, &joined, with_session).into_values() {
            match_by_time(transcripts, proxied, &t, &p, &mut joined);
        }
    }
    joined
}

/// By the client's id of the call, whatever the client calls itself.
fn by_call_id(transcripts: &[Seen<'_>], proxied: &[Seen<'_>]) -> Vec<Option<usize>> {
    let mut ids: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, seen) in transcripts.iter().enumerate() {
        if let Some(id) = &seen.call_id {
            ids.entry(id).or_default().push(i);
        }
    }
    let find = |seen: &Seen<'_>| {
        let same_id = ids.get(seen.call_id.as_deref()?)?;
        let same_family = same_id.iter().find(|i| transcripts[**i].family == seen.family);
        same_family.or_else(|| same_id.first()).copied()
    };
    proxied.iter().map(find).collect()
}

/// Family, tool, outcome and, in the first round, session.
type Likeness<'s> = (&'s str, &'s str, bool, Option<&'s str>);

/// The calls without a partner that could be each other's, as indices by time.
fn candidates<'s>(
    transcripts: &'s [Seen<'_>],
    proxied: &'s [Seen<'_>],
    joined: &[Option<usize>],
    with_session: bool,
) -> BTreeMap<Likeness<'s>, (Vec<usize>, Vec<usize>)> {
    let mut taken = vec![false; transcripts.len()];
    for t in joined.iter().flatten() {
        taken[*t] = true;
    }
    let mut alike: BTreeMap<_, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (i, seen) in proxied.iter().enumerate() {
        if let Some(like) = likeness(seen, with_session)
            && joined[i].is_none()
            && !seen.has_sure_id()
        {
            alike.entry(like).or_default().1.push(i);
        }
    }
    for (i, seen) in transcripts.iter().enumerate() {
        if let Some(like) = likeness(seen, with_session)
            && !taken[i]
            && let Some((t, _)) = alike.get_mut(&like)
        {
            t.push(i);
        }
    }
    alike
}

fn likeness<'s>(seen: &'s Seen<'_>, with_session: bool) -> Option<Likeness<'s>> {
    let session = seen.call.session.as_deref().filter(|_| with_session);
    let is_alike = session.is_some() || !with_session;
    is_alike.then_some((&*seen.family, seen.call.tool.as_str(), seen.ok, session))
}

/// Points in intervals: going by time, each point takes the open interval that ends first, which
/// leaves the most for the points to come.
fn match_by_time(
    transcripts: &[Seen<'_>],
    proxied: &[Seen<'_>],
    t: &[usize],
    p: &[usize],
    joined: &mut [Option<usize>],
) {
    let mut waiting = t.iter().copied().peekable();
    let mut open = BinaryHeap::new();
    for p in p.iter().copied() {
        let at = proxied[p].start;
        while let Some(t) = waiting.next_if(|t| transcripts[*t].start.plus_ms(-SLACK_MS) <= at) {
            open.push(Reverse((end(&transcripts[t]), t)));
        }
        while open.peek().is_some_and(|Reverse((end, _))| *end < at) {
            open.pop();
        }
        joined[p] = open.pop().map(|Reverse((_, t))| t);
    }
}

fn end(seen: &Seen<'_>) -> Timestamp {
    let ms = i64::try_from(seen.call.ms).unwrap_or(i64::MAX);
    seen.call.ts.plus_ms(ms).plus_ms(SLACK_MS)
}
