//! Which tools were never called, which fail, which are slow.
//!
//! Invariant: a tool is judged on three calls at least; fewer say nothing of it.
//! Deliberately absent: tools that the catalog no longer has, except where they were called.

use std::collections::HashSet;

use mws_catalog::Catalog;
use serde::Serialize;

use crate::groups::Group;
use crate::tokens::Tokens;

const CALLS_MIN: u64 = 3;
const SUCCESS_MIN: f64 = 0.9;
const SLOW_MS: u64 = 2_000;

/// Tools that deserve a look.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Usage {
    /// In the catalog and not called in the period, the largest first.
    pub(crate) never_called: Vec<Unused>,
    /// Fewer than 90 % of at least three calls succeeded; the most failures first.
    pub(crate) failing: Vec<Failing>,
    /// The 95th percentile of at least three calls is 2 s or more; the slowest first.
    pub(crate) slow: Vec<Slow>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Unused {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) tokens_estimate: u64,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Failing {
    pub(crate) name: String,
    pub(crate) calls: u64,
    pub(crate) failed: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Slow {
    pub(crate) name: String,
    pub(crate) p50_ms: u64,
    pub(crate) p95_ms: u64,
}

impl Usage {
    /// `by_tool`: the calls of the period.
    pub(crate) fn of(by_tool: &[Group], catalog: Option<&Catalog>, tokens: &Tokens) -> Self {
        let judged = || by_tool.iter().filter(|group| group.calls >= CALLS_MIN);
        let is_failing = |g: &&Group| g.success_rate.is_some_and(|rate| rate < SUCCESS_MIN);
        let mut failing: Vec<Failing> = judged()
            .filter(is_failing)
            .map(|g| Failing { name: g.key.clone(), calls: g.calls, failed: g.failed })
            .collect();
        failing.sort_by_key(|tool| std::cmp::Reverse(tool.failed));
        let mut slow: Vec<Slow> = judged().filter_map(slow).collect();
        slow.sort_by_key(|tool| std::cmp::Reverse(tool.p95_ms));
        Self { never_called: never_called(by_tool, catalog, tokens), failing, slow }
    }
}

fn slow(group: &Group) -> Option<Slow> {
    let (p50_ms, p95_ms) = (group.p50_ms?, group.p95_ms?);
    (group.proxied >= CALLS_MIN && p95_ms >= SLOW_MS).then(|| Slow {
        name: group.key.clone(),
        p50_ms,
        p95_ms,
    })
}

fn never_called(by_tool: &[Group], catalog: Option<&Catalog>, tokens: &Tokens) -> Vec<Unused> {
    let called: HashSet<&str> = by_tool.iter().map(|group| group.key.as_str()).collect();
    let tools = catalog.into_iter().flat_map(|catalog| catalog.tools());
    let mut unused: Vec<Unused> = tools
        .filter(|tool| !called.contains(tool.name()))
        .map(|tool| Unused {
            name: tool.name().to_owned(),
            bytes: tool.raw().len() as u64,
            tokens_estimate: tokens.of_text(tool.raw()),
        })
        .collect();
    unused.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    unused
}
