//! How a replay looks to a person: one line a day, then one line a policy.
//!
//! Invariant: names from elsewhere are made safe for a terminal.
//! Deliberately absent: days in a comparison of many policies.

use mws_cli::sanitize;
use mws_event::Timestamp;
use mws_policy::Day;

use crate::replay::{Cell, ratio};
use crate::table::{aligned, or_dash};

const DAY_HEAD: [&str; 8] =
    ["DAY", "LISTED", "TOKENS", "CALLS", "HITS", "KEPT", "PROMOTED", "DEMOTED"];

const POLICY_HEAD: [&str; 16] = [
    "POLICY",
    "SESSIONS",
    "CALLS",
    "WINDOW",
    "KEEP",
    "MAX TOKENS",
    "TOOLS",
    "TOKENS",
    "HIT RATE",
    "NOT LISTED",
    "HOPS",
    "FLAPS",
    "REGRETS",
    "LIST TOKENS",
    "SEARCH TOKENS",
    "FRONTIER",
];

/// The days, when there are any, and the policies.
pub(crate) fn lines(story: &[Day<'_>], cells: &[Cell]) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(end) = story.last() {
        let head = DAY_HEAD.map(str::to_owned).into();
        let rows = story.iter().map(|it| day(it, it.ts == end.ts));
        lines.extend(aligned(&std::iter::once(head).chain(rows).collect::<Vec<_>>()));
        lines.push(String::new());
        lines.push(format!("Listed at the end: {}", names(end.listed().iter().copied())));
        lines.push(String::new());
    }
    let head = POLICY_HEAD.map(str::to_owned).into();
    let rows = cells.iter().map(policy);
    lines.extend(aligned(&std::iter::once(head).chain(rows).collect::<Vec<_>>()));
    lines
}

fn day(day: &Day<'_>, is_end: bool) -> Vec<String> {
    vec![
        if is_end { "end".to_owned() } else { Timestamp::date(day.ts) },
        (day.promoted.len() + day.kept.len()).to_string(),
        or_dash(day.tokens),
        day.calls.to_string(),
        day.hits.to_string(),
        day.kept.len().to_string(),
        names(day.promoted.iter().map(|(tool, _)| *tool)),
        names(day.demoted.iter().copied()),
    ]
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.map(sanitize).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

fn policy(cell: &Cell) -> Vec<String> {
    let (p, f) = (&cell.policy, &cell.figures);
    let mean = |sum: Option<u64>| sum.and_then(|sum| ratio(sum, f.days)).map(|m| format!("{m:.1}"));
    let percent = |part, whole| ratio(part, whole).map(|rate| format!("{:.1} %", rate * 100.0));
    vec![
        format!("{}{}", cell.label, if cell.is_in_force { " (in force)" } else { "" }),
        p.min_sessions.to_string(),
        p.min_calls.to_string(),
        p.window_days.to_string(),
        p.keep_days.to_string(),
        or_dash(p.max_tokens),
        or_dash(mean(Some(f.tool_days))),
        or_dash(mean(f.token_days)),
        or_dash(percent(f.hits, f.calls)),
        or_dash(percent(f.hits_not_listed, f.calls_not_listed)),
        f.extra_hops().to_string(),
        f.flaps.to_string(),
        f.regrets.to_string(),
        or_dash(f.list_tokens),
        f.search_tokens.to_string(),
        if cell.is_efficient { "*" } else { "" }.to_owned(),
    ]
}
