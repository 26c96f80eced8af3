//! The same log in any order of lines, with lines repeated, gives the same bytes.

use mws_config::{OnChange, Thresholds};
use mws_event::Event;

use crate::testing::{Random, at};
use crate::{History, Log, Pins, WorkingSet, decide, merge};

fn bytes(events: &[Event]) -> Vec<u8> {
    let (end, thresholds, pins) = (at(3900.0), Thresholds::default(), Pins::default());
    let log: Log = events.iter().collect();
    let merged = merge(&log, end, 1);
    let history = History::of(&merged.calls, &pins, None, 0, end);
    let decisions = decide(&history, log.definitions(), OnChange::Warn, &thresholds);
    let figures = format!("{:?}", merged.calls);
    let set = WorkingSet::new(&decisions, &thresholds, merged.through);
    [set.to_bytes(), figures.into_bytes()].concat()
}

#[test]
fn order_and_repetition_change_nothing() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let mut events: Vec<Event> = (0..120).map(|_| random.event()).collect();
        let first = bytes(&events);
        for _ in 0..3 {
            let again = events[random.below(120) as usize].clone();
            events.push(again);
            random.shuffle(&mut events);
            assert_eq!(bytes(&events), first, "seed {seed}");
        }
    }
}
