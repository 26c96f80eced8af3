//! Tests of [`crate::merge`]: each story, and what is counted of it as
//! `tool: successes/sessions/failures`.

use mws_event::Via;

use crate::testing::{at, call, day, story, totals};
use crate::{Log, merge};

/// Why, the story, and its totals.
const SEEN_TWICE: [(&str, &str, &str); 10] = [
    (
        "the same call id is the same call, whatever the client is called",
        "T 10 a ok 2000 claude-code S1 toolu_00000000000000000001
             T 90000 a ok 2000 claude-code S2 toolu_00000000000000000002
             P 11 a ok 100 claude-code - toolu_00000000000000000001
             P 90001 a ok 100 node - toolu_00000000000000000002
             P 90500 a ok 100 claude-code S2 toolu_00000000000000000003",
        "a: 3/2/0",
    ),
    (
        "a success seen by either side is a success",
        "T 10 a no 2000 claude-code S1 toolu_00000000000000000001
             P 11 a ok 100 claude-code - toolu_00000000000000000001",
        "a: 1/1/0",
    ),
    (
        "without ids one to one by tool, outcome, client family and time",
        "T 100 a ok 5000 claude-code S1 toolu_00000000000000000001
             T 101 a ok 5000 claude-code S1 toolu_00000000000000000002
             T 300 b no 2000 claude-code S1 toolu_00000000000000000003
             P 101 a ok 100 Claude-Code/2.1
             P 102 a ok 100 claude-code/2.1
             P 103 a ok 100 claude-code
             P 301 b no 100 claude-code
             P 400 c ok 100 claude-code",
        "a: 3/2/0, b: 0/0/1, c: 1/1/0",
    ),
    (
        "the window is two seconds wider than the call, both ends included",
        "T 100 a ok 1000 claude-code S1 toolu_00000000000000000001
             P 98 a ok 9 claude-code
             T 200 b ok 1000 claude-code S1 toolu_00000000000000000002
             P 203 b ok 9 claude-code
             T 300 c ok 1000 claude-code S1 toolu_00000000000000000003
             P 303.001 c ok 9 claude-code
             T 400 d ok 1000 claude-code S1 toolu_00000000000000000004
             P 397.999 d ok 9 claude-code",
        "a: 1/1/0, b: 1/1/0, c: 2/2/0, d: 2/2/0",
    ),
    (
        "another tool, outcome or client is another call",
        "T 100 a ok 5000 claude-code S1 toolu_00000000000000000001
             P 101 b ok 100 claude-code
             P 101 a no 100 claude-code
             P 101 a ok 100 codex",
        "a: 2/2/1, b: 1/1/0",
    ),
    (
        "the match in time that leaves the most pairs: the short call gets the early one",
        "T 100 a ok 60000 claude-code S1 toolu_00000000000000000001
             T 100 a ok 1000 claude-code S1 toolu_00000000000000000002
             P 101 a ok 100 claude-code
             P 150 a ok 100 claude-code",
        "a: 2/1/0",
    ),
    (
        "calls that name the same session find each other first, even if another would fit",
        "T 100 a ok 1000 codex S1 call_000000000000000000001
             T 101 a ok 5000 codex S2 call_000000000000000000002
             P 101 a ok 100 codex-mcp-client S2
             P 104 a ok 100 codex-mcp-client S3",
        "a: 3/3/0",
    ),
    (
        "a transcript call that was found by its id is not found again by time",
        "T 100 a ok 5000 claude-code S1 toolu_00000000000000000001
             P 101 a ok 100 claude-code - toolu_00000000000000000001
             P 102 a ok 100 claude-code",
        "a: 2/2/0",
    ),
    (
        "a call id that no transcript has proves that no transcript has the call",
        "T 100 a ok 5000 claude-code S1 toolu_00000000000000000001
             P 101 a ok 100 claude-code S1 toolu_00000000000000000002",
        "a: 2/1/0",
    ),
    (
        "short call ids mean something within their session only",
        "T 100 a ok 5000 x S1 call_0
             T 900 a ok 5000 x S2 call_0
             P 101 a ok 100 y S1 call_0",
        "a: 2/2/0",
    ),
];

#[test]
fn every_call_counts_once_in_one_session() {
    for (why, given, then) in SEEN_TWICE {
        assert_eq!(totals(&story(given)), then, "{why}");
    }
}

/// Why, the story, and its totals.
const SEEN_BY_THE_PROXY: [(&str, &str, &str); 6] = [
    (
        "named, else by client; a gap of exactly 30 minutes does not cut, a longer one does",
        "P 0 a ok 1 x
             P 1800 a ok 1 x
             P 3600.001 a ok 1 x
             P 60 a ok 1 y
             P 200 a ok 1 x T9
             P 90000 a ok 1 x T9",
        "a: 6/4/0",
    ),
    (
        "a connection is its own group, and cut the same way",
        "P 0 a ok 1 x - - c1
             P 10 a ok 1 x - - c2
             P 20 a ok 1 y - - c1
             P 9000 a ok 1 x - - c1",
        "a: 4/3/0",
    ),
    (
        "a client with a new version is the same client",
        "P 0 a ok 1 x/1.0
             P 60 a ok 1 x/1.1",
        "a: 2/1/0",
    ),
    (
        "a failed call breaks the silence, a call of a named session does not",
        "P 0 a ok 1 x
             P 1500 a no 1 x
             P 3000 a ok 1 x
             P 4000 b ok 1 x T1
             P 5000 a ok 1 x",
        "a: 3/2/1, b: 1/1/0",
    ),
    (
        "a call that a transcript claims still shows that the client was awake",
        "P 0 a ok 1 claude-code
             P 1500 a ok 1 claude-code
             P 3000 a ok 1 claude-code
             T 1500 a ok 1 claude-code S1 toolu_00000000000000000001",
        "a: 3/2/0",
    ),
    (
        "a transcript call without a session takes the one the log knows",
        "T 10 a ok 2000 claude-code - toolu_00000000000000000001
             P 11 a ok 100 claude-code S1 toolu_00000000000000000001
             P 90000 a ok 100 claude-code S1",
        "a: 2/1/0",
    ),
];

#[test]
fn sessions_of_the_log_are_named_or_cut_by_silence() {
    for (why, given, then) in SEEN_BY_THE_PROXY {
        assert_eq!(totals(&story(given)), then, "{why}");
    }
}

#[test]
fn repeated_lines_fold_into_one_call() {
    let same = |n: i64, ok, id: &str, call_id: &str| {
        call(day(n), "a", ok, |c| {
            c.id = Some(id.into());
            c.call_id = Some(call_id.into()).filter(|id: &String| !id.is_empty());
            c.session = Some("s".into());
        })
    };
    let id = "toolu_00000000000000000001";
    for (why, given, then) in [
        ("same event id", vec![same(0, true, "w.1", ""), same(0, true, "w.1", "")], "a: 1/1/0"),
        ("another event id", vec![same(0, true, "w.1", ""), same(0, true, "w.2", "")], "a: 2/1/0"),
        ("no id, same content", story("P 0 a ok 1 x\nP 0 a ok 1 x"), "a: 1/1/0"),
        ("no id, other content", story("P 0 a ok 1 x\nP 0 a ok 2 x"), "a: 2/1/0"),
        (
            "failed, then succeeded",
            vec![same(0, false, "w.1", id), same(1, true, "w.2", id)],
            "a: 1/1/0",
        ),
        (
            "succeeded, then failed",
            vec![same(0, true, "w.1", id), same(1, false, "w.2", id)],
            "a: 1/1/0",
        ),
    ] {
        assert_eq!(totals(&given), then, "{why}");
    }
    let given = [same(3, true, "w.2", id), same(1, false, "w.1", id)];
    let log: Log = given.iter().collect();
    let merged = merge(&log, day(9), 30);
    assert_eq!(merged.calls.iter().map(|c| (c.ts, c.ok)).collect::<Vec<_>>(), [(day(1), true)]);
}

#[test]
fn a_joined_call_has_the_transcripts_client_and_the_proxys_measurements() {
    let mut given = story("T 10 a ok 2000 claude-code S1 toolu_00000000000000000001");
    given.push(call(at(9.0), "a", true, |c| {
        c.call_id = Some("toolu_00000000000000000001".into());
        (c.via, c.ms) = (Via::Listed, 77);
    }));
    let log: Log = given.iter().collect();
    let merged = merge(&log, day(1), 30);
    let [c] = merged.calls[..] else { panic!("one call, not {:?}", merged.calls) };
    let seen = (c.client, c.via, c.ms, c.proxied, c.ts);
    assert_eq!(seen, ("claude-code", Via::Listed, 77, true, at(9.0)));
}

#[test]
fn what_lies_after_as_of_is_ignored_and_counted() {
    let given = [
        call(day(1), "a", true, |c| c.id = Some("w.9".into())),
        call(day(1), "a", true, |c| c.id = Some("w.3".into())),
        call(day(2), "a", true, |_| {}),
        call(day(3), "a", true, |_| {}),
        call(day(3).plus_ms(1), "a", true, |_| {}),
    ];
    let log: Log = given.iter().collect();
    let merged = merge(&log, day(2), 30);
    assert_eq!((merged.calls.len(), merged.late, merged.future), (2, 2, 1));
    let through = merged.through.expect("two were counted");
    assert_eq!((through.ts, through.id.as_deref()), (day(1), Some("w.9")));
    assert_eq!(merge(&log, day(1), 30).through, None);
}

#[test]
fn calls_go_by_time_whoever_saw_them() {
    let given = story("T 20 a ok 1 x S1 toolu_00000000000000000001\nP 10 b ok 1 x\nP 30 c ok 1 x");
    let log: Log = given.iter().collect();
    let tools: Vec<&str> = merge(&log, day(1), 30).calls.iter().map(|c| c.tool).collect();
    assert_eq!(tools, ["b", "a", "c"]);
}

#[test]
fn a_late_transcript_replaces_the_session_of_the_log() {
    let logged = "P 10 a ok 100 claude-code\nP 60 a ok 100 claude-code\nP 90 b ok 100 claude-code";
    assert_eq!(totals(&story(logged)), "a: 2/1/0, b: 1/1/0");
    let one = "\nT 9 a ok 3000 claude-code S1 toolu_00000000000000000001";
    assert_eq!(totals(&story(&format!("{logged}{one}"))), "a: 2/2/0, b: 1/1/0");
    let both = format!("{one}\nT 59 a ok 3000 claude-code S1 toolu_00000000000000000002");
    assert_eq!(totals(&story(&format!("{logged}{both}"))), "a: 2/1/0, b: 1/1/0");
}
