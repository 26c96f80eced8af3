//! Tests of the whole report on one small log.

use mws_catalog::Catalog;
use mws_event::{Event, Timestamp};
use mws_policy::WorkingSet;
use mws_state::{Damage, parse_events};
use serde_json::{Value, json};

use crate::By;
use crate::frontier::Cell;
use crate::html::page;
use crate::prometheus::prometheus;
use crate::report::{Input, Report};
use crate::text::text;
use crate::tokens::Tokenizer;

const LOG: &str = r#"
{"ts":"2026-03-01T10:00:00Z","tool":"a","via":"listed","ok":true,"ms":10,"client":"x","id":"w.1","session":"s1"}
{"ts":"2026-03-01T10:00:01Z","tool":"a","via":"listed","ok":false,"ms":30,"client":"x","id":"w.2","session":"s1"}
{"ts":"2026-03-02T10:00:00Z","tool":"a","via":"listed","ok":true,"ms":20,"client":"y","id":"w.3","session":"s2"}
{"ts":"2026-03-02T10:00:02Z","tool":"b\u001b[2J","via":"call_tool","ok":true,"ms":1500,"client":"x","id":"w.4","session":"s2"}
{"ts":"2026-03-02T11:00:00Z","tool":"a","via":"direct","ok":true,"ms":90000,"client":"x","src":"transcript","session":"s3","call_id":"toolu_00000000000000000001"}
{"ts":"2026-03-02T10:00:03Z","event":"search","bytes":5000,"results":7,"client":"x","kind":"ranked","ms":2}
{"ts":"2026-03-02T10:00:04Z","event":"search","bytes":1000,"results":1,"client":"x","id":"w.6","kind":"exact","ms":4}
{"ts":"2026-02-28T09:00:00Z","event":"list","listed":2,"catalog":2,"bytes":900,"catalog_bytes":1000,"client":"x","id":"w.7"}
{"ts":"2026-03-01T09:00:00Z","event":"list","listed":3,"catalog":2,"bytes":400,"catalog_bytes":1000,"client":"x","id":"w.8"}
{"ts":"2026-03-01T08:00:00Z","event":"working_set_published","hash":"1","tools":1,"promoted":["a"],"demoted":[],"id":"w.9"}
{"ts":"2026-03-02T08:00:00Z","event":"working_set_published","hash":"2","tools":1,"promoted":[],"demoted":[],"id":"w.10"}
{"ts":"2026-03-03T08:00:00Z","event":"working_set_published","hash":"3","tools":1,"promoted":["b"],"demoted":["a"],"id":"w.11"}
{"ts":"2026-03-03T08:00:01Z","event":"dropped","n":4,"id":"w.12"}
{"ts":"2026-03-03T08:00:02Z","event":"artifact_rejected","artifact":"working-set","id":"w.13"}
{"ts":"2026-03-03T08:00:03Z","event":"upstream_failed","op":"list","kind":"timeout","ms":5000,"id":"w.14"}
{"ts":"2026-03-03T08:00:04Z","event":"ingest_run","files":3,"read_bytes":4096,"calls":1,"open":2,"bad_lines":1,"salvaged":0,"warnings":0,"ms":9,"id":"w.15"}
{"ts":"2027-03-03T08:00:04Z","tool":"a","via":"direct","ok":true,"ms":1,"client":"x"}
not an event
"#;

fn report(log: &str, since: Option<&str>, by: By) -> Report {
    let (mut events, mut damage): (Vec<Event>, _) = (Vec::new(), Damage::default());
    parse_events(log.as_bytes(), |event| events.push(event), &mut damage).expect("read");
    let time = |text: &str| text.parse::<Timestamp>().expect("a time");
    Report::of(&Input {
        events: &events,
        damage,
        is_whole_log: true,
        working_set: WorkingSet::parse(br#"{"tools":[{"name":"a","why":"kept"},"gone"]}"#).ok(),
        catalog: Catalog::parse(br#"{"tools":[{"name":"a"},{"name":"b"}]}"#).map(|(c, _)| c).ok(),
        since: since.map(time),
        now: time("2026-03-04T00:00:00Z"),
        by,
        gap_minutes: 30,
        tokenizer: Tokenizer::Bytes,
    })
}

fn json_of(report: &Report) -> Value {
    serde_json::to_value(report).expect("JSON")
}

#[test]
fn every_figure_is_in_the_json() {
    let got = json_of(&report(LOG, None, By::Tool));
    let expected = json!({
        "v": 1, "since": null, "until": "2026-03-04T00:00:00.000Z", "by": "tool",
        "working_set": [
            {"name": "a", "why": "kept", "bytes": 12, "tokens_estimate": 3},
            {"name": "gone", "why": "", "bytes": null, "tokens_estimate": null},
        ],
        "sizes": {
            "listed_at": "2026-03-01T09:00:00.000Z",
            "listed_tools": 3, "listed_bytes": 400, "listed_tokens_estimate": 100,
            "catalog_tools": 2, "catalog_bytes": 27, "catalog_tokens_estimate": 6,
            "tokens_by": "bytes / 4",
            "saved": -13.8148,
        },
        "calls": {
            "total": 5, "ok": 4, "failed": 1,
            "proxied": 4, "listed": 3, "call_tool": 1, "direct": 0, "served_directly": 0.75,
        },
        "groups": [
            {"key": "a", "calls": 4, "ok": 3, "failed": 1, "success_rate": 0.75, "proxied": 3, "p50_ms": 20,
             "p95_ms": 30, "sessions": 3, "last_ok": "2026-03-02T11:00:00.000Z"},
            {"key": "b\u{1b}[2J", "calls": 1, "ok": 1, "failed": 0, "success_rate": 1.0,
             "proxied": 1, "p50_ms": 1500, "p95_ms": 1500, "sessions": 1, "last_ok": "2026-03-02T10:00:02.000Z"},
        ],
        "searches": {"count": 2, "bytes": 6000, "results": 8, "kinds": {"exact": 1, "ranked": 1},
                     "p50_ms": 2, "p95_ms": 4,
                     "then_called": 0, "then_searched": 1, "then_nothing": 1,
                     "ranks": {}, "mean_reciprocal_rank": null},
        "usage": {
            "never_called": [{"name": "b", "bytes": 12, "tokens_estimate": 3}],
            "failing": [{"name": "a", "calls": 4, "failed": 1}],
            "slow": [],
        },
        "days": [
            {"date": "2026-02-28", "listed": 0, "call_tool": 0, "direct": 0, "transcript_only": 0,
             "searches": 0, "sessions": 0, "session_tokens_estimate": 225,
             "catalog_tokens_estimate": 250},
            {"date": "2026-03-01", "listed": 2, "call_tool": 0, "direct": 0, "transcript_only": 0,
             "searches": 0, "sessions": 1, "session_tokens_estimate": 100,
             "catalog_tokens_estimate": 250},
            {"date": "2026-03-02", "listed": 1, "call_tool": 1, "direct": 0, "transcript_only": 1,
             "searches": 2, "sessions": 2, "session_tokens_estimate": null,
             "catalog_tokens_estimate": null},
        ],
        "catalog_changes": [],
        "changes": [
            {"ts": "2026-03-03T08:00:00.000Z", "tools": 1, "promoted": ["b"], "demoted": ["a"]},
            {"ts": "2026-03-01T08:00:00.000Z", "tools": 1, "promoted": ["a"], "demoted": []},
        ],
        "health": {
            "damaged_lines": 1, "newer_lines": 0, "unreadable_files": 0, "missing_events": 0,
            "future_calls": 1,
            "dropped_events": 4, "rejected_artifacts": {"working-set": 1},
            "upstream_failures": {"list: timeout": 1},
        },
        "ingest": {"runs": 1, "last": "2026-03-03T08:00:04.000Z", "files": 3, "read_bytes": 4096,
                   "calls": 1, "bad_lines": 1, "salvaged": 0, "warnings": 0, "open_calls": 2},
    });
    assert_eq!(got, expected);
}

#[test]
fn repeated_lines_and_their_order_change_nothing_but_the_damage() {
    let once = json_of(&report(LOG, None, By::Tool));
    let backwards: Vec<&str> = LOG.lines().rev().chain(LOG.lines()).collect();
    let mut twice = json_of(&report(&backwards.join("\n"), None, By::Tool));
    assert_eq!(twice["health"]["damaged_lines"], 2);
    twice["health"]["damaged_lines"] = json!(1);
    assert_eq!(twice, once);
}

#[test]
fn events_missing_between_others_are_told_of_the_log_alone() {
    let id = |n: u32| format!("\"id\":\"18bcfe56800abcdef.{n}\"");
    let log = LOG.replace("\"id\":\"w.3\"", &id(3)).replace("\"id\":\"w.4\"", &id(9));
    let whole = report(&log, Some("2026-03-03T00:00:00Z"), By::Tool);
    assert_eq!(whole.health.missing_events, 5);
    assert!(text(&whole, false).contains("  events missing from the log: 5\n"));
    assert_eq!(report(LOG, None, By::Tool).health.missing_events, 0);
}

#[test]
fn since_cuts_what_happened_but_not_what_is() {
    let got = json_of(&report(LOG, Some("2026-03-02T10:00:04Z"), By::Tool));
    assert_eq!(got["calls"]["total"], 1);
    assert_eq!(got["calls"]["served_directly"], Value::Null);
    assert_eq!(got["groups"][0]["p50_ms"], Value::Null);
    assert_eq!(got["searches"]["kinds"], json!({"exact": 1}));
    assert_eq!(got["changes"].as_array().map(Vec::len), Some(1));
    assert_eq!(got["sizes"]["listed_bytes"], 400);
}

#[test]
fn calls_are_grouped_by_what_was_asked() {
    for (by, then) in [
        (By::Tool, vec![("a", 4), ("b\u{1b}[2J", 1)]),
        (By::Client, vec![("x", 4), ("y", 1)]),
        (By::Day, vec![("2026-03-01", 2), ("2026-03-02", 3)]),
    ] {
        let groups = report(LOG, None, by).groups;
        let got: Vec<_> = groups.iter().map(|g| (g.key.as_str(), g.calls)).collect();
        assert_eq!(got, then);
    }
}

#[test]
fn the_text_is_aligned_and_safe() {
    let text = text(&report(LOG, Some("2026-03-01T00:00:00Z"), By::Tool), false);
    for line in [
        "  to a client       3    400    ~100",
        "  full catalog      2     27      ~6",
        "  a     kept  12                      ~3",
        "  gone        not in the catalog       -",
        "Calls since 2026-03-01T00:00:00.000Z",
        "  through the proxy 4: 75.0% served directly by the working set; 3 listed, 1 by call_tool, 0 by name though not listed",
        "  TOOL        CALLS  FAILED  SUCCESS  MEDIAN MS  P95 MS  SESSIONS  LAST SUCCESS",
        "  a               4       1    75.0%         20      30         3    2026-03-02",
        "  b\\u{1b}[2J      1       0   100.0%      1,500   1,500         1    2026-03-02",
        "  2 searches (1 exact, 1 ranked), 6,000 bytes of replies, 3,000 on average",
        "  2026-03-03T08:00:00.000Z  1 tools  +b -a",
        "  damaged lines in the log: 1",
        "  events dropped by the proxy: 4",
        "  kept the last good one instead of a damaged working-set: 1",
        "  upstream failed at list: timeout: 1",
    ] {
        assert!(text.lines().any(|l| l == line), "no line {line:?} in\n{text}");
    }
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn what_is_saved_is_an_estimate_and_says_so() {
    let mut report = report(LOG, None, By::Tool);
    assert!(text(&report, false).contains("saved: nothing"));
    (report.sizes.saved, report.sizes.catalog_tokens_estimate) = (Some(0.9), 1100);
    let line =
        "saved: 90.0% of the bytes, ~1,000 tokens in each session (tokens by estimate: bytes / 4)";
    assert!(text(&report, false).contains(line));
}

#[test]
fn an_empty_state_is_a_short_report() {
    let report = Report::of(&Input {
        events: &[],
        damage: Damage::default(),
        is_whole_log: true,
        working_set: None,
        catalog: None,
        since: None,
        now: Timestamp::from_unix_ms(0),
        by: By::Tool,
        gap_minutes: 30,
        tokenizer: Tokenizer::Bytes,
    });
    let got = json_of(&report);
    assert_eq!((&got["calls"]["total"], &got["sizes"]["saved"]), (&json!(0), &Value::Null));
    let text = text(&report, false);
    assert!(text.contains("no catalog yet") && !text.contains("Trouble"), "{text}");
}

const SEARCHES: &str = r#"
{"ts":"2026-03-02T10:00:00Z","event":"search","bytes":1,"results":1,"conn":"c1","id":"w.1"}
{"ts":"2026-03-02T10:00:00Z","event":"search","bytes":1,"results":1,"conn":"c2","id":"w.2"}
{"ts":"2026-03-02T10:05:00Z","tool":"a","via":"call_tool","ok":true,"ms":1,"conn":"c1","id":"w.3","rank":3}
{"ts":"2026-03-02T10:06:00Z","tool":"a","via":"call_tool","ok":true,"ms":1,"conn":"c1","id":"w.4"}
{"ts":"2026-03-02T10:10:01Z","tool":"a","via":"call_tool","ok":true,"ms":1,"conn":"c2","id":"w.5"}
{"ts":"2026-03-02T11:00:00Z","event":"search","bytes":1,"results":1,"conn":"c1","id":"w.6"}
{"ts":"2026-03-02T11:01:00Z","event":"search","bytes":1,"results":1,"conn":"c1","id":"w.7"}
{"ts":"2026-03-02T11:02:00Z","tool":"b","via":"direct","ok":false,"ms":1,"conn":"c1","id":"w.8","rank":1}
{"ts":"2026-03-02T12:00:00Z","event":"search","bytes":1,"results":1,"conn":"c1","id":"w.9"}
"#;

#[test]
fn a_search_is_settled_by_what_its_session_did_next() {
    let got = json_of(&report(SEARCHES, None, By::Tool));
    let searches = &got["searches"];
    let outcome = ["then_called", "then_searched", "then_nothing"].map(|key| &searches[key]);
    // c2 called after more than ten minutes; the last search of c1 is the end.
    assert_eq!(outcome, [&json!(2), &json!(1), &json!(2)]);
    assert_eq!(searches["ranks"], json!({"1": 1, "3": 1}));
    assert_eq!(searches["mean_reciprocal_rank"], json!(0.6667));
    let text = text(&report(SEARCHES, None, By::Tool), false);
    assert!(text.contains("of 2 called tools that the search before had found, 1 stood first"));
}

#[test]
fn slow_and_failing_tools_are_named_on_three_calls() {
    let call = |id: u32, tool: &str, ok: bool, ms: u32| {
        let ts = format!("2026-03-02T10:00:{id:02}Z");
        format!("{{\"ts\":\"{ts}\",\"tool\":\"{tool}\",\"ok\":{ok},\"ms\":{ms},\"id\":\"w.{id}\"}}")
    };
    let few = (0..2).map(|n| call(n, "few", false, 9_000));
    let slow = (2..5).map(|n| call(n, "slow", true, 2_000 + n));
    let fails = (5..9).map(|n| call(n, "fails", n > 6, 10));
    let log: Vec<String> = few.chain(slow).chain(fails).collect();
    let usage = json_of(&report(&log.join("\n"), None, By::Day))["usage"].clone();
    assert_eq!(usage["slow"], json!([{"name": "slow", "p50_ms": 2003, "p95_ms": 2004}]));
    assert_eq!(usage["failing"], json!([{"name": "fails", "calls": 4, "failed": 2}]));
    let unused: Vec<_> = usage["never_called"].as_array().into_iter().flatten().collect();
    assert_eq!(unused.iter().map(|tool| &tool["name"]).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn the_page_is_whole_safe_and_reaches_for_nothing() {
    let report = report(&LOG.replace(r"\u001b[2J", "<img src=x>"), None, By::Tool);
    let cell = |mean_tokens, hit_rate, frontier| Cell {
        policy: "minSessions=2&".to_owned(),
        mean_tokens,
        hit_rate,
        frontier,
    };
    let without = page(&report, &[]);
    let page = page(&report, &[cell(900.0, 0.5, true), cell(1_200.0, 0.4, false)]);
    assert_eq!((without.matches("<svg").count(), page.matches("<svg").count()), (2, 3));
    assert!(page.contains("minSessions=2&amp;: 50.0 % of later calls listed, 900 tokens"));
    assert!(page.contains("b&lt;img src=x&gt;") && !page.contains("<img"));
    for outside in ["http", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    for tag in ["section", "table", "figure", "svg", "div"] {
        let (opened, closed) = (format!("<{tag}"), format!("</{tag}>"));
        assert_eq!(page.matches(&opened).count(), page.matches(&closed).count(), "{tag}");
    }
}

#[test]
fn gauges_are_those_of_the_report() {
    let log = LOG.replace("timeout", "time\\\"out");
    let text = prometheus(&report(&log, None, By::Tool));
    for line in [
        "# TYPE mws_listed_tools gauge",
        "mws_listed_tools 3",
        "mws_calls{via=\"listed\"} 3",
        "mws_calls{via=\"call_tool\"} 1",
        "mws_hit_ratio 0.75",
        "mws_upstream_failures{failure=\"list: time\\\"out\"} 1",
        "mws_artifacts_rejected{artifact=\"working-set\"} 1",
        "mws_ingest_timestamp_seconds 1772524804",
    ] {
        assert!(text.lines().any(|l| l == line), "no line {line:?} in\n{text}");
    }
    let is_sample = |line: &&str| !line.starts_with('#');
    assert!(text.lines().filter(is_sample).all(|line| line.starts_with("mws_")));
}
