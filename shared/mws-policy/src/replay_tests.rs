//! Replay against a slow walk that decides anew on every day, and what no history may break.
//!
//! Invariant: the histories are random, small and crowded, so that every rule is met at its edge.
//! Deliberately absent: a history worked out by hand; the integration tests have one.

use std::collections::BTreeSet;

use mws_config::{OnChange, Rule, Thresholds};
use mws_event::{DAY_MS, Event, Timestamp};

use crate::testing::{Random, call, day, failure, offers, success};
use crate::{
    CountedCall, Definitions, Figures, FilePin, History, Log, Offers, Pins, Replay, decide,
    frontier, merge,
};

const TOOLS: [&str; 5] = ["a", "b", "c", "d", "gone"];
const DAYS: i64 = 40;

fn history(random: &mut Random) -> Vec<Event> {
    let event = |random: &mut Random| {
        let ts = day(0).plus_ms((random.below(DAYS as u64 * 8) as i64) * DAY_MS / 8);
        let tool = TOOLS[random.below(5) as usize];
        let session = format!("s{}", random.below(25));
        let way = random.below(2);
        call(ts, tool, random.below(4) > 0, |c| {
            c.session = Some(session);
            c.via = if way == 0 { mws_event::Via::Listed } else { mws_event::Via::CallTool };
        })
    };
    (0..60).map(|_| event(random)).collect()
}

fn policies() -> Vec<Thresholds> {
    let base =
        Thresholds { window_days: 5, keep_days: 8, pin_decay_days: 6, ..Thresholds::default() };
    vec![
        base,
        Thresholds { min_sessions: 1, min_calls: 3, ..base },
        Thresholds { min_sessions: 3, window_days: 8, ..base },
        Thresholds { max_tokens: Some(250), ..base },
        Thresholds { rule: Rule::Value, ..base },
        Thresholds { rule: Rule::Value, max_tokens: Some(150), cache_discount: 90, ..base },
    ]
}

fn pins() -> Pins {
    let pin = |tool: &str| FilePin { tool: tool.into(), file: "f.md".into() };
    Pins { config: vec!["d".into()], files: vec![pin("c"), pin("gone")] }
}

/// The set at `moment` by a decision on what came before.
fn set_at(
    calls: &[CountedCall<'_>],
    pins: &Pins,
    catalog: &Offers,
    policy: &Thresholds,
    moment: Timestamp,
) -> BTreeSet<String> {
    let before = &calls[..calls.partition_point(|call| call.ts < moment)];
    let history = History::of(before, pins, Some(catalog), 1000, moment);
    let decisions = decide(&history, &Definitions::default(), OnChange::Warn, policy);
    decisions.into_iter().filter(|d| d.verdict.is_listed()).map(|d| d.tool).collect()
}

#[test]
fn every_day_is_judged_by_what_a_decision_on_its_eve_would_list() {
    let (pins, catalog) = (pins(), offers(&["a", "b", "c", "d"]));
    for seed in 0..40 {
        let log: Log = history(&mut Random(seed)).iter().collect();
        let as_of = day(DAYS).plus_ms(DAY_MS / 3);
        let merged = merge(&log, as_of, 30);
        let history = History::of(&merged.calls, &pins, Some(&catalog), 1000, as_of);
        let replay = Replay::of(&history, log.definitions(), OnChange::Warn);
        for policy in policies() {
            let walk = replay.walk(&policy);
            let mut hits = 0;
            for day in replay.story(&walk) {
                let set = set_at(&merged.calls, &pins, &catalog, &policy, day.ts);
                let listed: BTreeSet<String> =
                    day.listed().iter().map(|name| (*name).to_owned()).collect();
                assert_eq!(listed, set, "seed {seed}, {policy:?}, {}", day.ts);
                let next = if day.ts == as_of { as_of } else { day.ts.plus_ms(DAY_MS) };
                let on_day = |call: &&CountedCall<'_>| day.ts <= call.ts && call.ts < next;
                let calls = merged.calls.iter().filter(on_day);
                hits += calls.filter(|call| set.contains(call.tool)).count() as u64;
            }
            assert_eq!(replay.figures(&walk).hits, hits, "seed {seed}, {policy:?}");
        }
    }
}

#[test]
fn figures_are_the_sums_of_the_days() {
    let (pins, catalog) = (pins(), offers(&["a", "b", "c", "d"]));
    for seed in 0..20 {
        let log: Log = history(&mut Random(seed)).iter().collect();
        let merged = merge(&log, day(DAYS), 30);
        let history = History::of(&merged.calls, &pins, Some(&catalog), 1000, day(DAYS));
        let replay = Replay::of(&history, log.definitions(), OnChange::Warn);
        for policy in policies() {
            let walk = replay.walk(&policy);
            let (story, f) = (replay.story(&walk), replay.figures(&walk));
            let (end, days) = story.split_last().expect("an end");
            let sum = |of: &dyn Fn(&crate::Day<'_>) -> u64| days.iter().map(of).sum::<u64>();
            assert_eq!(f.calls, sum(&|day| day.calls));
            assert_eq!(f.tool_days, sum(&|day| day.listed().len() as u64));
            assert_eq!(f.token_days, Some(sum(&|day| day.tokens.unwrap_or_default())));
            let ins = |day: &crate::Day<'_>| day.promoted.len() as u64;
            let outs = |day: &crate::Day<'_>| day.demoted.len() as u64;
            assert_eq!(f.promoted, sum(&ins) + ins(end));
            assert_eq!(f.demoted, sum(&outs) + outs(end));
            assert_eq!(f.extra_hops(), f.calls - f.hits);
            assert!(f.searches <= f.extra_hops() && f.flaps <= f.regrets, "{f:?}");
        }
    }
}

#[test]
fn a_tool_never_goes_out_within_keep_days_of_a_success() {
    let none = Pins::default();
    for seed in 0..60 {
        let log: Log = history(&mut Random(seed)).iter().collect();
        let merged = merge(&log, day(DAYS), 30);
        let history = History::of(&merged.calls, &none, None, 1000, day(DAYS));
        let replay = Replay::of(&history, log.definitions(), OnChange::Warn);
        let policy = policies()[0];
        for out in replay.story(&replay.walk(&policy)) {
            let from = out.ts.plus_ms(-i64::from(policy.keep_days) * DAY_MS);
            for tool in out.demoted {
                // On its last day it may have gone out, and been used again without coming in.
                let day = out.ts.plus_ms(-DAY_MS);
                let used = |call: &CountedCall<'_>| {
                    call.tool == tool && call.ok && from <= call.ts && call.ts < day
                };
                assert!(!merged.calls.iter().any(used), "seed {seed}: {tool} on {}", out.ts);
            }
        }
    }
}

#[test]
fn a_failed_call_more_never_promotes() {
    let catalog = offers(&TOOLS);
    for seed in 0..300 {
        let mut random = Random(seed);
        let mut events: Vec<Event> = match seed % 2 {
            0 => history(&mut random),
            _ => (0..80).map(|_| random.event()).collect(),
        };
        let policy = Thresholds { window_days: 5, keep_days: 8, ..Thresholds::default() };
        let listed = |events: &[Event]| {
            let log: Log = events.iter().collect();
            let as_of = if seed % 2 == 0 { day(DAYS) } else { day(1) };
            let merged = merge(&log, as_of, 1);
            set_at(&merged.calls, &Pins::default(), &catalog, &policy, as_of)
        };
        let before = listed(&events);
        for (n, tool) in TOOLS.iter().enumerate() {
            let mut failed = match seed % 2 {
                0 => failure(random.below(40) as i64, tool, &format!("s{}", random.below(30))),
                _ => random.event(),
            };
            if let Event::Call(call) = &mut failed {
                call.ok = false;
                call.id = Some(format!("new.{n}"));
                call.call_id = None;
            }
            events.push(failed);
            let after = listed(&events);
            assert!(after.is_subset(&before), "seed {seed}: {before:?}, then {after:?}");
        }
    }
}

#[test]
fn a_changed_definition_is_out_at_the_end_and_not_before() {
    let pinned = mws_event::Kind::DefinitionPinned { tool: "a".into(), hash: "old".into() };
    let record = mws_event::Record::new(day(3), pinned);
    let events = [success(0, "a", "s1"), success(1, "a", "s2"), Event::Record(record)];
    let log: Log = events.iter().collect();
    let merged = merge(&log, day(5), 30);
    let (pins, catalog) = (Pins::default(), offers(&["a"]));
    let history = History::of(&merged.calls, &pins, Some(&catalog), 1000, day(5));
    for (on_change, at_end) in
        [(OnChange::Warn, true), (OnChange::Unlist, false), (OnChange::Block, false)]
    {
        let policy = Thresholds::default();
        let [d] = &decide(&history, log.definitions(), on_change, &policy)[..] else {
            panic!("one tool");
        };
        assert_eq!((d.verdict.is_listed(), d.changed_to.as_deref()), (at_end, Some("of a")));
        let hash = if at_end { "of a" } else { "old" };
        assert_eq!(d.hash.as_deref(), Some(hash), "{on_change:?}");
        let replay = Replay::of(&history, log.definitions(), on_change);
        let story = replay.story(&replay.walk(&policy));
        let listed: Vec<usize> = story.iter().map(|day| day.listed().len()).collect();
        assert_eq!(listed, [0, 0, 1, 1, 1, usize::from(at_end)], "{on_change:?}");
    }
}

#[test]
fn nothing_on_the_frontier_is_beaten_and_everything_off_it_is() {
    let mut random = Random(7);
    for _ in 0..50 {
        let cell = |random: &mut Random| Figures {
            hits: random.below(12),
            token_days: Some(random.below(12)),
            ..Figures::default()
        };
        let cells: Vec<Figures> = (0..30).map(|_| cell(&mut random)).collect();
        let beaten = |f: &Figures| {
            cells.iter().any(|o| {
                (o.hits > f.hits && o.token_days <= f.token_days)
                    || (o.hits >= f.hits && o.token_days < f.token_days)
            })
        };
        for (cell, is_on) in cells.iter().zip(frontier(&cells)) {
            assert_eq!(is_on, !beaten(cell), "{cell:?}");
        }
    }
}
