//! Calls by tool, client or day.
//!
//! Invariant: the groups add up to the total. Latency is what the proxy measured: a transcript's
//! time holds the user's thinking about a permission.
//! Deliberately absent: the session ids themselves.

use std::collections::{BTreeMap, HashSet};

use mws_event::Timestamp;
use mws_policy::CountedCall;
use serde::Serialize;

use crate::By;
use crate::report::share;

/// One group of calls.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Group {
    /// Name of the tool or client, or the date.
    pub(crate) key: String,
    pub(crate) calls: u64,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) success_rate: Option<f64>,
    /// Calls that the proxy saw.
    pub(crate) proxied: u64,
    /// Median milliseconds; none when the proxy saw none of the calls.
    pub(crate) p50_ms: Option<u64>,
    pub(crate) p95_ms: Option<u64>,
    /// Distinct sessions with a success.
    pub(crate) sessions: u64,
    pub(crate) last_ok: Option<Timestamp>,
}

pub(crate) fn groups(calls: &[CountedCall<'_>], by: By) -> Vec<Group> {
    let mut members: BTreeMap<String, Vec<&CountedCall<'_>>> = BTreeMap::new();
    for call in calls {
        let key = match by {
            By::Tool => call.tool.to_owned(),
            By::Client => call.client.to_owned(),
            By::Day => call.ts.date(),
        };
        members.entry(key).or_default().push(call);
    }
    let mut groups: Vec<Group> =
        members.into_iter().map(|(key, calls)| group(key, &calls)).collect();
    if by != By::Day {
        groups.sort_by_key(|group| std::cmp::Reverse(group.calls));
    }
    groups
}

fn group(key: String, calls: &[&CountedCall<'_>]) -> Group {
    let total = calls.len() as u64;
    let successes = || calls.iter().filter(|call| call.ok);
    let ok = successes().count() as u64;
    let mut ms: Vec<u64> = calls.iter().filter(|call| call.proxied).map(|call| call.ms).collect();
    ms.sort_unstable();
    Group {
        proxied: ms.len() as u64,
        key,
        calls: total,
        ok,
        failed: total - ok,
        success_rate: share(ok, total),
        p50_ms: percentile(&ms, 50),
        p95_ms: percentile(&ms, 95),
        sessions: successes().map(|call| call.session).collect::<HashSet<_>>().len() as u64,
        last_ok: successes().map(|call| call.ts).max(),
    }
}

/// The smallest value that at least `percent` of `sorted` do not exceed.
pub(crate) fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let hundred: Vec<u64> = (1..=100).collect();
        for (values, percent, then) in [
            (&[][..], 50, None),
            (&[7], 50, Some(7)),
            (&[7], 95, Some(7)),
            (&[1, 2], 50, Some(1)),
            (&[1, 2, 9], 50, Some(2)),
            (&[1, 2, 9], 95, Some(9)),
            (&hundred, 50, Some(50)),
            (&hundred, 95, Some(95)),
        ] {
            assert_eq!(percentile(values, percent), then, "{percent} of {values:?}");
        }
    }
}
