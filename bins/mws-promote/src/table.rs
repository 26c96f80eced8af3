//! How decisions look: an aligned table for people, JSON lines for programs.
//!
//! Invariant: one line a tool, by name; text from elsewhere is made safe for a terminal.
//! Deliberately absent: summing up; that is what `mws-report` does.

use std::collections::BTreeSet;

use mws_cli::sanitize;
use mws_event::{DAY_MS, Timestamp};
use mws_policy::{Decision, Verdict};
use serde::Serialize;

use crate::output::Outcome;

const HEAD: [&str; 7] = ["TOOL", "LISTED", "SESSIONS", "CALLS", "FAILED", "LAST SUCCESS", "WHY"];

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
    };
    // Only maps with odd keys and failing writers make serialisation fail; there are none here.
    serde_json::to_string(&row).unwrap_or_default()
}

/// The table, its head first. `listed` are the names published now.
pub(crate) fn lines(outcome: &Outcome, listed: &BTreeSet<String>) -> Vec<String> {
    let head = HEAD.map(str::to_owned);
    let rows = outcome.decisions.iter().map(|d| row(d, outcome, listed.contains(&d.tool)));
    aligned(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

fn row(d: &Decision, outcome: &Outcome, was_listed: bool) -> [String; 7] {
    let listed = match (d.verdict.is_listed(), was_listed) {
        (true, true) => "yes",
        (true, false) => "yes, new",
        (false, true) => "no more",
        (false, false) => "no",
    };
    [
        sanitize(&d.tool).into_owned(),
        listed.to_owned(),
        d.sessions.to_string(),
        d.calls.to_string(),
        d.failed.to_string(),
        d.last_ok.map_or_else(|| "never".to_owned(), Timestamp::date),
        reason(d, outcome),
    ]
}

/// The verdict with the figures that it rests on.
fn reason(d: &Decision, outcome: &Outcome) -> String {
    let t = outcome.thresholds;
    let pinned_by = sanitize(d.pinned_by.as_deref().unwrap_or_default());
    match d.verdict {
        Verdict::Pinned => format!("pinned ({pinned_by})"),
        Verdict::StalePin => {
            format!("stale pin ({pinned_by}; no success in {} days)", t.pin_decay_days)
        }
        Verdict::Promoted => format!(
            "promoted ({} sessions, {} calls in {} days)",
            d.window_sessions, d.window_calls, t.window_days
        ),
        Verdict::Kept => {
            let last = d.last_ok.unwrap_or(outcome.as_of);
            let days = (outcome.as_of.unix_ms() - last.unix_ms()) / DAY_MS;
            format!("kept (last success {days} days ago, keepDays {})", t.keep_days)
        }
        verdict => verdict.to_string(),
    }
}

fn aligned(rows: &[[String; 7]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..6).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; 7]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}  "));
        cells.collect::<String>() + &row[6]
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mws_config::Thresholds;
    use mws_event::{Call, Event, Via};
    use mws_policy::{FilePin, Pins, WorkingSet, decide, merge};

    fn day(n: i64) -> Timestamp {
        Timestamp::from_unix_ms(n * DAY_MS)
    }

    fn outcome() -> Outcome {
        let call = |n: i64, tool: &str| {
            let mut call = Call::new(day(n), tool, Via::Direct, true, 1);
            call.session = Some(format!("s{n}"));
            Event::Call(Box::new(call))
        };
        let events = [(0, "kept"), (1, "kept"), (40, "new"), (41, "new"), (41, "a\x1b[31m")];
        let events: Vec<Event> = events.map(|(n, tool)| call(n, tool)).into();
        let pins = Pins {
            config: vec!["pin".into()],
            files: vec![FilePin { tool: "stale".into(), file: "/s/SKILL.md".into() }],
        };
        let thresholds = Thresholds::default();
        let merged = merge(&events, day(50), 30);
        let decisions = decide(&merged.calls, &pins, None, &thresholds, day(50));
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
TOOL         LISTED    SESSIONS  CALLS  FAILED  LAST SUCCESS  WHY
a\\u{1b}[31m  no        1         1      0       1970-02-11    too few sessions (1 of 2 in 30 days)
kept         yes       2         2      0       1970-01-02    kept (last success 49 days ago, keepDays 60)
new          yes, new  2         2      0       1970-02-11    promoted (2 sessions, 2 calls in 30 days)
pin          yes, new  0         0      0       never         pinned (config)
stale        no more   0         0      0       never         stale pin (/s/SKILL.md; no success in 90 days)"
        );
    }

    #[test]
    fn json_lines_have_the_figures_of_all_history_and_of_the_window() {
        let rows: Vec<String> = outcome().decisions.iter().map(json_line).collect();
        assert_eq!(
            rows[1],
            r#"{"tool":"kept","listed":true,"why":"kept","sessions":2,"calls":2,"failed":0,"last_ok":"1970-01-02T00:00:00.000Z","window_sessions":0,"window_calls":0}"#
        );
        assert_eq!(
            rows[4],
            r#"{"tool":"stale","listed":false,"why":"stale pin","sessions":0,"calls":0,"failed":0,"last_ok":null,"window_sessions":0,"window_calls":0,"pinned_by":"/s/SKILL.md"}"#
        );
    }
}
