//! What became of the searches: whether a call followed, and at which rank its tool had stood.
//!
//! Invariant: a search has one outcome; it is settled by what the same session did next within
//! the time below. Deliberately absent: query texts, which the log does not have.

use std::collections::{BTreeMap, HashMap, HashSet};

use mws_event::{Call, Event, Kind, Source, Timestamp};
use serde::Serialize;

use crate::records::{known_by, once_each};

/// A call later than this has another cause.
const MEMORY_MS: i64 = 10 * 60 * 1_000;

/// Counts of outcomes, and of ranks.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Outcome {
    pub(crate) then_called: u64,
    pub(crate) then_searched: u64,
    pub(crate) then_nothing: u64,
    /// How many of the called tools stood at each rank of the search before, from 1.
    pub(crate) ranks: BTreeMap<u32, u64>,
    /// Mean of 1 / rank over the calls that have one.
    pub(crate) mean_reciprocal_rank: Option<f64>,
}

enum Step<'a> {
    Search,
    Call(&'a Call),
}

impl Outcome {
    pub(crate) fn of(events: &[Event], since: Timestamp, horizon: Timestamp) -> Self {
        let mut outcome = Self::default();
        let mut open: HashMap<&str, Timestamp> = HashMap::new();
        for (ts, who, step) in steps(events, since, horizon) {
            let searched = open.remove(who);
            let is_recent = searched.is_some_and(|at| ts.unix_ms() - at.unix_ms() <= MEMORY_MS);
            match (&step, is_recent) {
                (Step::Search, true) => outcome.then_searched += 1,
                (Step::Call(_), true) => outcome.then_called += 1,
                (_, false) => outcome.then_nothing += u64::from(searched.is_some()),
            }
            match step {
                Step::Search => drop(open.insert(who, ts)),
                Step::Call(call) => {
                    if let Some(rank) = call.rank {
                        *outcome.ranks.entry(rank).or_default() += 1;
                    }
                }
            }
        }
        outcome.then_nothing += open.len() as u64;
        outcome.mean_reciprocal_rank = mean_reciprocal(&outcome.ranks);
        outcome
    }
}

/// Searches, and calls that the proxy saw, by time, each once, with who made them.
fn steps(
    events: &[Event],
    since: Timestamp,
    horizon: Timestamp,
) -> Vec<(Timestamp, &str, Step<'_>)> {
    let mut steps = Vec::new();
    for record in once_each(events) {
        if let Kind::Search { session, conn, client, .. } = &record.kind {
            steps.push((record.ts, who(session, conn, client), record.id.as_deref(), Step::Search));
        }
    }
    let mut seen = HashSet::new();
    for event in events {
        let Event::Call(call) = event else { continue };
        if call.src == Source::Proxy && seen.insert(known_by(call.id.as_deref(), call)) {
            let who = who(&call.session, &call.conn, &call.client);
            steps.push((call.ts, who, call.id.as_deref(), Step::Call(call)));
        }
    }
    steps.retain(|(ts, ..)| (since..horizon).contains(ts));
    steps.sort_by_key(|&(ts, who, id, _)| (ts, id, who));
    steps.into_iter().map(|(ts, who, _, step)| (ts, who, step)).collect()
}

fn who<'a>(session: &'a Option<String>, conn: &'a Option<String>, client: &'a str) -> &'a str {
    session.as_deref().or(conn.as_deref()).unwrap_or(client)
}

fn mean_reciprocal(ranks: &BTreeMap<u32, u64>) -> Option<f64> {
    let n: u64 = ranks.values().sum();
    let sum: f64 = ranks.iter().map(|(&rank, &n)| n as f64 / f64::from(rank.max(1))).sum();
    (n > 0).then(|| (sum / n as f64 * 10_000.0).round() / 10_000.0)
}
