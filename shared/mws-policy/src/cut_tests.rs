//! Logs without their beginning.
//!
//! Invariant: a cut is made as `mws-promote` makes it: a whole beginning in the order of lines, with
//! nothing in it that the thresholds look back on, and only where the rest decides alike.
//! Deliberately absent: segments and files; a beginning is a number of lines.

use mws_config::{OnChange, Thresholds};
use mws_event::{Event, Kind, Record, Timestamp};

use crate::testing::{Random, call, day, offers, success};
use crate::{History, Log, Pins, decide, decides_alike, lost_pins, merge};

const LOOK_BACK: i64 = 9;
const END: i64 = 40;

fn thresholds() -> Thresholds {
    let (window_days, keep_days, pin_decay_days) = (4, 8, 9);
    Thresholds { window_days, keep_days, pin_decay_days, ..Thresholds::default() }
}

/// What is listed and why, until when, and whether anything ever was.
fn told(events: &[Event], as_of: Timestamp) -> (Vec<String>, bool) {
    let log: Log = events.iter().collect();
    let (merged, pins, catalog) = (merge(&log, as_of, 30), Pins::default(), offers(&["a", "b"]));
    let history = History::of(&merged.calls, &pins, Some(&catalog), 1000, as_of);
    let decisions = decide(&history, log.definitions(), OnChange::Unlist, &thresholds());
    let cold = !decisions.iter().any(|d| d.was_promoted);
    let listed = decisions.iter().filter(|d| d.verdict.is_listed());
    let line = |d: &crate::Decision| format!("{} {} {:?}", d.tool, d.verdict, d.days_left);
    (listed.map(line).collect(), cold)
}

fn alike(whole: &[Event], kept: &[Event], as_of: Timestamp) -> bool {
    let (whole, kept): (Log, Log) = (whole.iter().collect(), kept.iter().collect());
    let (pins, catalog) = (Pins::default(), offers(&["a", "b"]));
    let [all, rest] = [&whole, &kept].map(|log| merge(log, as_of, 30));
    let [all, rest] =
        [&all, &rest].map(|m| History::of(&m.calls, &pins, Some(&catalog), 1000, as_of));
    let (all, rest) = ((&all, whole.definitions()), (&rest, kept.definitions()));
    decides_alike(all, rest, OnChange::Unlist, &thresholds())
}

/// Lines in the order of writing: mostly by time, some written late, as from a transcript.
fn random_log(random: &mut Random, days: std::ops::Range<i64>) -> Vec<Event> {
    let mut lines = Vec::new();
    for n in days {
        for _ in 0..random.below(3) {
            let ts =
                day(n - (random.below(8) == 0) as i64 * 3).plus_ms(random.below(86_000) as i64);
            let tool = ["a", "b", "gone"][random.below(3) as usize];
            let session = format!("s{}", n / 2 + random.below(2) as i64);
            let ok = random.below(4) > 0;
            let session = Some(session).filter(|_| random.below(5) > 0);
            lines.push(call(ts, tool, ok, |c| c.session = session));
        }
    }
    lines
}

#[test]
fn a_log_that_was_cut_decides_alike_then_and_later() {
    let (mut cuts, mut refused, mut listed) = (0, 0, 0);
    for seed in 0..400 {
        let mut random = Random(seed);
        let mut whole = random_log(&mut random, 0..END);
        let young = |e: &Event| e.ts() >= day(END - LOOK_BACK);
        let may_go = whole.iter().position(young).unwrap_or(whole.len());
        let n = random.below(may_go as u64 + 1) as usize;
        if !alike(&whole, &whole[n..], day(END)) {
            refused += 1;
            continue;
        }
        cuts += 1;
        whole.extend(random_log(&mut random, END..END + 20));
        for later in END..END + 40 {
            let (before, after) = (told(&whole, day(later)), told(&whole[n..], day(later)));
            listed += before.0.len();
            assert_eq!(before, after, "seed {seed}, {n} lines cut, day {later}");
        }
    }
    assert!(cuts > 100 && refused > 10 && listed > 1000, "{cuts} {refused} {listed}");
}

#[test]
fn a_tool_kept_by_rare_use_holds_the_calls_that_brought_it_in() {
    let mut whole = vec![success(0, "a", "s1"), success(1, "a", "s2")];
    whole.extend((1..6).map(|n| success(1 + n * 7, "a", &format!("t{n}"))));
    assert!(!told(&whole, day(END)).0.is_empty());
    assert!(told(&whole[2..], day(END)).0.is_empty());
    assert!(!alike(&whole, &whole[2..], day(END)));
    whole.extend([success(37, "a", "u1"), success(38, "a", "u2")]);
    assert!(alike(&whole, &whole[2..], day(END)), "it came in anew by younger calls");
}

#[test]
fn an_accepted_definition_is_noted_again_when_its_line_goes() {
    let kind =
        |tool: &str, hash: &str| Kind::DefinitionPinned { tool: tool.into(), hash: hash.into() };
    let pin = |n, tool, hash| Event::Record(Record::new(day(n), kind(tool, hash)));
    let whole = [pin(0, "a", "old"), pin(1, "a", "new"), pin(2, "b", "x"), pin(3, "b", "y")];
    let (log, kept): (Log, Log) = (whole.iter().collect(), whole[3..].iter().collect());
    let again = lost_pins(log.definitions(), kept.definitions());
    assert_eq!(again, [kind("a", "new")]);
}
