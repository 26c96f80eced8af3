//! Tests of [`crate::decide`]: what happened on which day, and what is decided when.

use mws_config::Thresholds;
use mws_event::Event;

use crate::testing::{call, day, decisions, failure, offers, success};
use crate::{Decision, FilePin, Pins, WorkingSet, check_thresholds};

/// `tool: why` for each decision at the start of day `as_of`, `+` before the listed ones.
fn decided(given: &[Event], pins: &Pins, thresholds: &Thresholds, as_of: i64) -> String {
    let decisions = all(given, pins, thresholds, as_of);
    let text = |d: &Decision| {
        let mark = if d.verdict.is_listed() { "+" } else { "" };
        format!("{mark}{}: {}", d.tool, d.verdict)
    };
    decisions.iter().map(text).collect::<Vec<_>>().join("; ")
}

fn all(given: &[Event], pins: &Pins, t: &Thresholds, as_of: i64) -> Vec<Decision> {
    decisions(given, pins, Some(&offers(&["a", "b", "c", "d"])), t, day(as_of)).0
}

#[test]
fn a_tool_is_in_while_sessions_bring_it_in_and_use_keeps_it() {
    let two = [success(0, "a", "s1"), success(1, "a", "s2")];
    let apart = |n| [success(0, "a", "s1"), success(n, "a", "s2")];
    let back = [&two[..], &[success(80, "a", "s3")]].concat();
    let back_in = [&back[..], &[success(81, "a", "s4")]].concat();
    let just_kept = [&two[..], &[success(61, "a", "s3")]].concat();
    let long_kept = [&two[..], &[success(50, "a", "s3"), success(100, "a", "s4")]].concat();
    for (why, given, as_of, then) in [
        ("two sessions", &two[..], 2, "+a: promoted"),
        ("a call at as_of is not counted", &two, 1, "a: too few sessions (1 of 2 in 30 days)"),
        ("the window includes its first moment", &two, 30, "+a: promoted"),
        ("hysteresis: one session is left in the window", &two, 31, "+a: kept"),
        ("hysteresis: none is", &two, 32, "+a: kept"),
        ("keepDays includes its last moment", &two, 61, "+a: kept"),
        ("fell out", &two, 62, "a: fell out (last success 2026-03-02, 61 days ago, keepDays 60)"),
        (
            "one success after falling out is a new start",
            &back,
            82,
            "a: too few sessions (1 of 2 in 30 days)",
        ),
        ("two are a new promotion", &back_in, 82, "+a: promoted"),
        ("a success in the last moment of keepDays keeps", &just_kept, 62, "+a: kept"),
        ("single sessions keep a member for ever", &long_kept, 150, "+a: kept"),
        (
            "one session only",
            &[success(0, "a", "s1"), success(1, "a", "s1")],
            2,
            "a: too few sessions (1 of 2 in 30 days)",
        ),
        ("sessions exactly a window apart", &apart(30), 40, "+a: kept"),
        ("sessions further apart", &apart(31), 40, "a: too few sessions (1 of 2 in 30 days)"),
        (
            "failures earn nothing",
            &[failure(0, "a", "s1"), failure(1, "a", "s2")],
            2,
            "a: no successful call",
        ),
        (
            "a failure does not keep",
            &[&two[..], &[failure(60, "a", "s3")]].concat(),
            62,
            "a: fell out (last success 2026-03-02, 61 days ago, keepDays 60)",
        ),
        (
            "not in the catalog",
            &[success(0, "x", "s1"), success(1, "x", "s2")],
            2,
            "x: not in the catalog",
        ),
    ] {
        assert_eq!(decided(given, &Pins::default(), &Thresholds::default(), as_of), then, "{why}");
    }
}

#[test]
fn both_thresholds_must_be_met_in_one_window() {
    let three_calls = Thresholds { min_calls: 3, ..Thresholds::default() };
    let few = [success(0, "a", "s1"), success(1, "a", "s2")];
    let enough = [&few[..], &[success(2, "a", "s2")]].concat();
    let none = Pins::default();
    assert_eq!(decided(&few, &none, &three_calls, 2), "a: too few calls (2 of 3 in 30 days)");
    assert_eq!(decided(&enough, &none, &three_calls, 3), "+a: promoted");
    let late = [&few[..], &[success(31, "a", "s2")]].concat();
    assert_eq!(decided(&late, &none, &three_calls, 32), "a: too few sessions (1 of 2 in 30 days)");
    let any = Thresholds { min_sessions: 0, min_calls: 0, window_days: 0, ..three_calls };
    assert_eq!(decided(&few[..1], &none, &any, 1), "+a: promoted");
}

#[test]
fn looking_often_changes_nothing() {
    let given: Vec<Event> =
        [0, 20, 55, 56, 130, 131, 200].map(|n| success(n, "a", &format!("s{n}"))).into();
    let in_at: Vec<i64> = (0..300)
        .filter(|as_of| {
            all(&given, &Pins::default(), &Thresholds::default(), *as_of)
                .first()
                .is_some_and(|d| d.verdict.is_listed())
        })
        .collect();
    // In from the success on day 20 until 60 days after the one on day 56, and again from 131 on;
    // the one on day 200 comes too late to keep it.
    let expected: Vec<i64> = (21..=116).chain(132..=191).collect();
    assert_eq!(in_at, expected);
}

#[test]
fn pins_of_the_configuration_hold_always_those_of_files_while_used() {
    let pin = |tool: &str, file: &str| FilePin { tool: tool.into(), file: file.into() };
    let pins = Pins {
        config: vec!["a".into(), "x".into(), "a".into()],
        files: vec![pin("b", "z.md"), pin("b", "m.md"), pin("c", "m.md"), pin("a", "m.md")],
    };
    let given = [success(0, "b", "s1"), failure(50, "c", "s1")];
    let used = "+a: pinned; +b: pinned; c: stale pin; x: not in the catalog";
    let unused = "+a: pinned; b: stale pin; c: stale pin; x: not in the catalog";
    for (as_of, then) in [(1, used), (90, used), (91, unused)] {
        assert_eq!(decided(&given, &pins, &Thresholds::default(), as_of), then, "day {as_of}");
    }
    let by: Vec<_> = all(&given, &pins, &Thresholds::default(), 1)
        .into_iter()
        .map(|d| d.pinned_by.unwrap_or_default())
        .collect();
    assert_eq!(by, ["config", "m.md", "m.md", "config"]);
    let member = [success(0, "b", "s1"), success(1, "b", "s2")];
    let slow = Thresholds { keep_days: 200, ..Thresholds::default() };
    let then = "+a: pinned; +b: kept; c: stale pin; x: not in the catalog";
    assert_eq!(decided(&member, &pins, &slow, 150), then, "a stale pin takes nothing away");
}

#[test]
fn without_a_catalog_nothing_is_missing() {
    let given = [success(0, "x", "s1"), success(1, "x", "s2")];
    let t = Thresholds::default();
    let (decisions, _) = decisions(&given, &Pins::default(), None, &t, day(2));
    assert!(decisions.len() == 1 && decisions[0].verdict.is_listed());
}

#[test]
fn a_decision_has_the_figures_of_all_history_and_of_the_window() {
    let given = [
        success(0, "a", "s1"),
        success(40, "a", "s2"),
        call(day(40).plus_ms(5), "a", true, |c| c.session = Some("s2".into())),
        failure(41, "a", "s3"),
    ];
    let [d] = &all(&given, &Pins::default(), &Thresholds::default(), 50)[..] else {
        panic!("one tool");
    };
    assert_eq!((d.sessions, d.calls, d.failed), (2, 3, 1));
    assert_eq!((d.window_sessions, d.window_calls), (1, 2));
    assert_eq!(d.last_ok, Some(day(40).plus_ms(5)));
}

#[test]
fn thresholds_that_contradict_each_other_are_refused() {
    let ok = Thresholds { window_days: 30, keep_days: 30, ..Thresholds::default() };
    assert_eq!(check_thresholds(&ok), Ok(()));
    let bad = Thresholds { keep_days: 29, ..ok };
    assert!(check_thresholds(&bad).is_err_and(|e| e.contains("29") && e.contains("30")));
    let huge = Thresholds { window_days: u32::MAX, keep_days: u32::MAX, ..ok };
    let two = [success(0, "a", "s1"), success(1, "a", "s2")];
    assert_eq!(decided(&two, &Pins::default(), &huge, 9000), "+a: promoted");
}

#[test]
fn the_artifact_is_one_line_by_name_and_reads_back() {
    let given = [
        success(0, "b", "s1"),
        success(1, "b", "s2"),
        call(day(1), "b", true, |c| (c.id, c.session) = (Some("w.1".into()), Some("s2".into()))),
    ];
    let pins = Pins { config: vec!["a".into()], files: Vec::new() };
    let t = Thresholds::default();
    let (decisions, through) = decisions(&given, &pins, None, &t, day(2));
    let set = WorkingSet::new(&decisions, &t, through);
    let bytes = set.to_bytes();
    assert_eq!(
        std::str::from_utf8(&bytes).expect("UTF-8"),
        "{\"v\":1,\"tools\":[\
         {\"name\":\"a\",\"why\":\"pinned\",\"sessions\":0,\"calls\":0,\"last_ok\":null},\
         {\"name\":\"b\",\"why\":\"promoted\",\"sessions\":2,\"calls\":3,\"last_ok\":\"2026-03-02T00:00:00.000Z\"}],\
         \"thresholds\":{\"minSessions\":2,\"minCalls\":1,\"windowDays\":30,\"keepDays\":60,\"pinDecayDays\":90},\
         \"through\":{\"ts\":\"2026-03-02T00:00:00.000Z\",\"id\":\"w.1\"}}\n"
    );
    assert_eq!(WorkingSet::parse(&bytes), Ok(set));
}

#[test]
fn a_set_written_by_hand_is_read_and_damage_is_refused() {
    let set = WorkingSet::parse(br#"{"tools":["b",{"name":"a","new":1}],"more":{}}"#);
    assert_eq!(set.expect("a set").names().collect::<Vec<_>>(), ["b", "a"]);
    for bad in ["", "[]", "{}", r#"{"tools":[1]}"#, r#"{"tools":["a"]"#] {
        assert!(WorkingSet::parse(bad.as_bytes()).is_err(), "{bad}");
    }
}
