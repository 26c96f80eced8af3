//! Which call of the proxy's log is which call of a transcript.
//!
//! Invariant: a transcript call takes part in at most one match by time, and as many pairs match
//! as can. Deliberately absent: what a match means for session and outcome ([`crate::merge`]).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use mws_event::Timestamp;

use crate::fold::Seen;
use crate::log::{Log, Name};

/// How far the two clocks, and the ways to and from the proxy, may set the times apart.
const SLACK_MS: i64 = 2_000;

/// For each call of `proxied`, the index of the same call in `transcripts`.
pub(crate) fn join(log: &Log, transcripts: &[Seen], proxied: &[Seen]) -> Vec<Option<u32>> {
    let mut joined = by_call_id(log, transcripts, proxied);
    for with_session in [true, false] {
        for (t, p) in candidates(log, transcripts, proxied, &joined, with_session).into_values() {
            match_by_time(log, (transcripts, &t), (proxied, &p), &mut joined);
        }
    }
    joined
}

/// By the client's id of the call, whatever the client calls itself.
fn by_call_id(log: &Log, transcripts: &[Seen], proxied: &[Seen]) -> Vec<Option<u32>> {
    let hashed = |seen: &Seen| {
        let id = log.id(seen.line(log).call_id?);
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        Some((hasher.finish(), id))
    };
    let numbered = (0u32..).zip(transcripts);
    let mut ids: Vec<(u64, u32)> =
        numbered.filter_map(|(i, seen)| Some((hashed(seen)?.0, i))).collect();
    ids.sort_unstable();
    let find = |seen: &Seen| {
        let (hash, id) = hashed(seen)?;
        let from = ids.partition_point(|(h, _)| *h < hash);
        let same_hash = ids[from..].iter().take_while(|(h, _)| *h == hash).map(|(_, t)| *t);
        let other = |t: u32| transcripts[t as usize].line(log);
        let same_id = |t: &u32| other(*t).call_id.is_some_and(|own| log.id(own) == id);
        let mut same_family =
            same_hash.clone().filter(|t| other(*t).family == seen.line(log).family);
        same_family.find(same_id).or_else(|| same_hash.clone().find(same_id))
    };
    proxied.iter().map(find).collect()
}

/// Family, tool, outcome and, in the first round, session.
type Likeness = (Name, Name, bool, Option<Name>);

/// The calls without a partner that could be each other's, as indices by time.
fn candidates(
    log: &Log,
    transcripts: &[Seen],
    proxied: &[Seen],
    joined: &[Option<u32>],
    with_session: bool,
) -> HashMap<Likeness, (Vec<u32>, Vec<u32>)> {
    let mut taken = vec![false; transcripts.len()];
    for t in joined.iter().flatten() {
        taken[*t as usize] = true;
    }
    let mut alike: HashMap<_, (Vec<u32>, Vec<u32>)> = HashMap::new();
    for ((i, seen), joined) in (0u32..).zip(proxied).zip(joined) {
        if let Some(like) = likeness(log, seen, with_session)
            && joined.is_none()
            && !seen.line(log).has_sure_id
        {
            alike.entry(like).or_default().1.push(i);
        }
    }
    for ((i, seen), taken) in (0u32..).zip(transcripts).zip(taken) {
        if let Some(like) = likeness(log, seen, with_session)
            && !taken
            && let Some((t, _)) = alike.get_mut(&like)
        {
            t.push(i);
        }
    }
    alike
}

fn likeness(log: &Log, seen: &Seen, with_session: bool) -> Option<Likeness> {
    let line = seen.line(log);
    let session = line.session.filter(|_| with_session);
    let is_alike = session.is_some() || !with_session;
    is_alike.then_some((line.family, line.tool, seen.ok, session))
}

/// Points in intervals: going by time, each point takes the open interval that ends first, which
/// leaves the most for the points to come.
fn match_by_time(
    log: &Log,
    (transcripts, t): (&[Seen], &[u32]),
    (proxied, p): (&[Seen], &[u32]),
    joined: &mut [Option<u32>],
) {
    let transcript = |t: u32| transcripts[t as usize];
    let mut waiting = t.iter().copied().peekable();
    let mut open = BinaryHeap::new();
    for p in p.iter().map(|p| *p as usize) {
        let at = proxied[p].start;
        while let Some(t) = waiting.next_if(|t| transcript(*t).start.plus_ms(-SLACK_MS) <= at) {
            open.push(Reverse((end(log, transcript(t)), t)));
        }
        while open.peek().is_some_and(|Reverse((end, _))| *end < at) {
            open.pop();
        }
        joined[p] = open.pop().map(|Reverse((_, t))| t);
    }
}

fn end(log: &Log, seen: Seen) -> Timestamp {
    let line = seen.line(log);
    let ms = i64::try_from(line.ms).unwrap_or(i64::MAX);
    line.ts.plus_ms(ms).plus_ms(SLACK_MS)
}
