//! How decisions look: an aligned table for people, JSON lines for programs.
//!
//! Invariant: one line a tool, by name; text from elsewhere is made safe for a terminal.
//! Deliberately absent: summing up; that is what `mws-report` does.

use std::collections::BTreeSet;

use mws_cli::sanitize;
use mws_config::{Rule, Thresholds};
use mws_event::{DAY_MS, Timestamp};
use mws_policy::{Decision, Reached, Verdict};
use serde::Serialize;

use crate::output::Outcome;

const HEAD: [&str; 11] = [
    "TOOL",
    "LISTED",
    "SESSIONS",
    "CALLS",
    "FAILED",
    "WHILE LISTED",
    "LAST SUCCESS",
    "DAYS LEFT",
    "TOKENS",
    "VALUE",
    "WHY",
];

#[derive(Serialize)]
struct Row<'a> {
    tool: &'a str,
    listed: bool,
    why: String,
    sessions: u64,
    calls: u64,
    failed: u64,
    last_ok: Option<Timestamp>,
    window_sessions: u64,
    window_calls: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pinned_by: Option<&'a str>,
    rule: &'static str,
    days_left: Option<i64>,
    tokens: Option<u64>,
    value: Option<f64>,
    reached: Reached,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed_to: Option<&'a str>,
}

/// One decision as a JSON object.
pub(crate) fn json_line(d: &Decision) -> String {
    let row = Row {
        tool: &d.tool,
        listed: d.verdict.is_listed(),
        why: d.verdict.to_string(),
        sessions: d.sessions,
        calls: d.calls,
        failed: d.failed,
        last_ok: d.last_ok,
        window_sessions: d.window_sessions,
        window_calls: d.window_calls,
        pinned_by: d.pinned_by.as_deref(),
        rule: d.verdict.rule(),
        days_left: d.days_left,
        tokens: d.estimate.map(|e| e.tokens),
        value: d.estimate.and_then(|e| e.per_token()).map(|v| (v * 1e4).round() / 1e4),
        reached: d.reached,
        changed_to: d.changed_to.as_deref(),
    };
    // Only maps with odd keys and failing writers make serialisation fail; there are none here.
    serde_json::to_string(&row).unwrap_or_default()
}

/// The table, its head first. `listed` are the names published now.
pub(crate) fn lines(outcome: &Outcome, listed: &BTreeSet<String>) -> Vec<String> {
    let head = HEAD.map(str::to_owned).into();
    let rows = outcome.decisions.iter().map(|d| row(d, outcome, listed.contains(&d.tool)));
    aligned(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

fn row(d: &Decision, outcome: &Outcome, was_listed: bool) -> Vec<String> {
    let listed = match (d.verdict.is_listed(), was_listed) {
        (true, true) => "yes",
        (true, false) => "yes, new",
        (false, true) => "no more",
        (false, false) => "no",
    };
    let known = d.reached.listed + d.reached.call_tool + d.reached.direct;
    vec![
        sanitize(&d.tool).into_owned(),
        listed.to_owned(),
        d.sessions.to_string(),
        d.calls.to_string(),
        d.failed.to_string(),
        if known > 0 { format!("{} of {known}", d.reached.listed) } else { "-".to_owned() },
        d.last_ok.map_or_else(|| "never".to_owned(), Timestamp::date),
        or_dash(d.days_left),
        or_dash(d.estimate.map(|e| e.tokens)),
        or_dash(d.estimate.and_then(|e| e.per_token()).map(|value| format!("{value:.2}"))),
        reason(d, outcome.as_of, &outcome.thresholds),
    ]
}

/// `-` where there is nothing to say.
pub(crate) fn or_dash(value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// The verdict with the figures that it rests on.
pub(crate) fn reason(d: &Decision, as_of: Timestamp, t: &Thresholds) -> String {
    let pinned_by = sanitize(d.pinned_by.as_deref().unwrap_or_default());
    match (d.verdict, d.estimate.filter(|_| t.rule == Rule::Value)) {
        (Verdict::Pinned, _) => format!("pinned ({pinned_by})"),
        (Verdict::StalePin, _) => {
            format!("stale pin ({pinned_by}; no success in {} days)", t.pin_decay_days)
        }
        (Verdict::Promoted, Some(e)) => format!(
            "promoted (saves {} tokens, costs {} in {} days)",
            e.saved, e.cost, t.window_days
        ),
        (Verdict::Promoted, None) => format!(
            "promoted ({} sessions, {} calls in {} days)",
            d.window_sessions, d.window_calls, t.window_days
        ),
        (Verdict::Kept, _) => {
            let last = d.last_ok.unwrap_or(as_of);
            let days = (as_of.unix_ms() - last.unix_ms()) / DAY_MS;
            format!("kept (last success {days} days ago, keepDays {})", t.keep_days)
        }
        (verdict, _) => verdict.to_string(),
    }
}

/// Columns side by side, the last one as long as it is.
pub(crate) fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (1..columns).map(|next| width(next - 1).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}  "));
        cells.collect::<String>() + row.last().map_or("", String::as_str)
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mws_config::OnChange;
    use mws_event::{Call, Event, Via};
    use mws_policy::{FilePin, History, Log, Offer, Offers, Pins, WorkingSet, decide, merge};

    fn day(n: i64) -> Timestamp {
        Timestamp::from_unix_ms(n * DAY_MS)
    }

    fn outcome() -> Outcome {
        let call = |n: i64, tool: &str| {
            let mut call = Call::new(day(n), tool, Via::Listed, true, 1);
            call.session = Some(format!("s{n}"));
            Event::Call(Box::new(call))
        };
        let events = [(0, "kept"), (1, "kept"), (40, "new"), (41, "new"), (41, "a\x1b[31m")];
        let events: Vec<Event> = events.map(|(n, tool)| call(n, tool)).into();
        let pins = Pins {
            config: vec!["pin".into()],
            files: vec![FilePin { tool: "stale".into(), file: "/s/SKILL.md".into() }],
        };
        let offer = |name: &str| (name.to_owned(), Offer { tokens: 250, hash: "h".into() });
        let offers: Offers = ["kept", "new", "pin", "stale", "a\x1b[31m"].map(offer).into();
        let thresholds = Thresholds::default();
        let log: Log = events.iter().collect();
        let merged = merge(&log, day(50), 30);
        let history = History::of(&merged.calls, &pins, Some(&offers), 1000, day(50));
        let decisions = decide(&history, log.definitions(), OnChange::Warn, &thresholds);
        let set = WorkingSet::new(&decisions, &thresholds, None);
        Outcome { decisions, set, thresholds, as_of: day(50) }
    }

    #[test]
    fn the_table_is_aligned_and_says_why_and_what_is_new() {
        let listed = BTreeSet::from(["kept".to_owned(), "stale".to_owned()]);
        let text = lines(&outcome(), &listed).join("\n");
        assert_eq!(
            text,
            "\
TOOL         LISTED    SESSIONS  CALLS  FAILED  WHILE LISTED  LAST SUCCESS  DAYS LEFT  TOKENS  VALUE  WHY
a\\u{1b}[31m  no        1         1      0       1 of 1        1970-02-11    -          250     2.00   too few sessions (1 of 2 in 30 days)
kept         yes       2         2      0       2 of 2        1970-01-02    11         250     0.00   kept (last success 49 days ago, keepDays 60)
new          yes, new  2         2      0       2 of 2        1970-02-11    51         250     4.00   promoted (2 sessions, 2 calls in 30 days)
pin          yes, new  0         0      0       -             never         -          250     0.00   pinned (config)
stale        no more   0         0      0       -             never         -          250     0.00   stale pin (/s/SKILL.md; no success in 90 days)"
        );
    }

    #[test]
    fn json_lines_have_the_figures_of_all_history_and_of_the_window() {
        let rows: Vec<String> = outcome().decisions.iter().map(json_line).collect();
        assert_eq!(
            rows[1],
            r#"{"tool":"kept","listed":true,"why":"kept","sessions":2,"calls":2,"failed":0,"last_ok":"1970-01-02T00:00:00.000Z","window_sessions":0,"window_calls":0,"rule":"kept","days_left":11,"tokens":250,"value":0.0,"reached":{"listed":2,"call_tool":0,"direct":0,"unknown":0}}"#
        );
        assert_eq!(
            rows[4],
            r#"{"tool":"stale","listed":false,"why":"stale pin","sessions":0,"calls":0,"failed":0,"last_ok":null,"window_sessions":0,"window_calls":0,"pinned_by":"/s/SKILL.md","rule":"stale_pin","days_left":null,"tokens":250,"value":0.0,"reached":{"listed":0,"call_tool":0,"direct":0,"unknown":0}}"#
        );
    }
}
