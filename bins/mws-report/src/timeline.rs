//! What each day looked like: calls by how they were reached, and what a session cost.
//!
//! Invariant: the days add up to the totals. Deliberately absent: days on which nothing happened.

use std::collections::{BTreeMap, HashSet};

use mws_event::{Event, Kind, Timestamp, Via};
use mws_policy::CountedCall;
use serde::Serialize;

use crate::records::once_each;
use crate::tokens::Tokens;

/// One day (UTC).
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Day {
    pub(crate) date: String,
    pub(crate) listed: u64,
    pub(crate) call_tool: u64,
    pub(crate) direct: u64,
    /// Calls that only a transcript tells of.
    pub(crate) transcript_only: u64,
    pub(crate) searches: u64,
    /// Distinct sessions with a call.
    pub(crate) sessions: u64,
    /// Mean tokens of a listing plus the tokens of search replies a session; none without a
    /// listing on that day.
    pub(crate) session_tokens_estimate: Option<u64>,
    /// What the full catalog would have cost instead.
    pub(crate) catalog_tokens_estimate: Option<u64>,
}

#[derive(Default)]
struct Sums {
    day: Day,
    sessions: HashSet<u32>,
    lists: u64,
    list_bytes: u64,
    catalog_bytes: u64,
    search_bytes: u64,
}

/// The days from `since` until before `horizon` on which something happened.
pub(crate) fn days(
    calls: &[CountedCall<'_>],
    events: &[Event],
    since: Timestamp,
    horizon: Timestamp,
    tokens: &Tokens,
) -> Vec<Day> {
    let mut days: BTreeMap<i64, Sums> = BTreeMap::new();
    for call in calls {
        let sums = days.entry(call.ts.day()).or_default();
        sums.sessions.insert(call.session);
        let day = &mut sums.day;
        *match (call.proxied, call.via) {
            (false, _) => &mut day.transcript_only,
            (true, Via::Listed) => &mut day.listed,
            (true, Via::CallTool) => &mut day.call_tool,
            (true, Via::Direct) => &mut day.direct,
        } += 1;
    }
    for record in once_each(events).into_iter().filter(|r| (since..horizon).contains(&r.ts)) {
        match record.kind {
            Kind::List { bytes, catalog_bytes, .. } => {
                let sums = days.entry(record.ts.day()).or_default();
                sums.lists += 1;
                sums.list_bytes += bytes;
                sums.catalog_bytes += catalog_bytes;
            }
            Kind::Search { bytes, .. } => {
                let sums = days.entry(record.ts.day()).or_default();
                sums.day.searches += 1;
                sums.search_bytes += bytes;
            }
            _ => {}
        }
    }
    days.into_iter().map(|(day, sums)| sums.finish(day, tokens)).collect()
}

impl Sums {
    fn finish(self, number: i64, tokens: &Tokens) -> Day {
        let sessions = self.sessions.len() as u64;
        let mean = |bytes: u64| bytes.checked_div(self.lists);
        let searched = self.search_bytes / sessions.max(1);
        Day {
            date: Timestamp::from_unix_ms(number * mws_event::DAY_MS).date(),
            sessions,
            session_tokens_estimate: mean(self.list_bytes).map(|b| tokens.of_bytes(b + searched)),
            catalog_tokens_estimate: mean(self.catalog_bytes).map(|b| tokens.of_bytes(b)),
            ..self.day
        }
    }
}
