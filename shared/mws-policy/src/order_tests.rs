//! The same log in any order of lines, with lines repeated, gives the same bytes.

use mws_config::{OnChange, Rule, Thresholds};
use mws_event::{Event, Kind, Record};

use crate::testing::{Random, at, offers};
use crate::{History, Log, Pins, Replay, WorkingSet, decide, merge};

/// Everything that comes out of a log: the artifact, the counted calls, the figures of a replay.
fn bytes(events: &[Event]) -> Vec<u8> {
    let (end, pins, catalog) = (at(3900.0), Pins::default(), offers(&["a", "b"]));
    let tight = Thresholds { max_tokens: Some(100), ..Thresholds::default() };
    let log: Log = events.iter().collect();
    let merged = merge(&log, end, 1);
    let price = log.search_tokens(end);
    let history = History::of(&merged.calls, &pins, Some(&catalog), price, end);
    let mut bytes = format!("{price} {:?}", merged.calls).into_bytes();
    for policy in [tight, Thresholds { rule: Rule::Value, ..tight }] {
        let decisions = decide(&history, log.definitions(), OnChange::Unlist, &policy);
        bytes.extend(WorkingSet::new(&decisions, &policy, merged.through.clone()).to_bytes());
        let replay = Replay::of(&history, log.definitions(), OnChange::Unlist);
        bytes.extend(format!("{:?}", replay.figures(&replay.walk(&policy))).into_bytes());
    }
    bytes
}

/// Searches, with and without an id, and definitions that were accepted.
fn record(random: &mut Random) -> Event {
    let ts = at(random.below(3000) as f64);
    let kind = match random.below(4) {
        0 => Kind::DefinitionPinned {
            tool: "a".into(),
            hash: format!("of {}", ["a", "b"][random.below(2) as usize]),
        },
        _ => Kind::Search {
            bytes: 1000 * random.below(5),
            results: 3,
            client: "x".into(),
            kind: None,
            ms: None,
            session: None,
            conn: None,
        },
    };
    let mut record = Record::new(ts, kind);
    record.id = (random.below(2) > 0).then(|| format!("r.{}", random.below(1_000_000)));
    Event::Record(record)
}

#[test]
fn order_and_repetition_change_nothing() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let mut events: Vec<Event> = (0..110).map(|_| random.event()).collect();
        events.extend((0..10).map(|_| record(&mut random)));
        let first = bytes(&events);
        for _ in 0..3 {
            let again = events[random.below(120) as usize].clone();
            events.push(again);
            random.shuffle(&mut events);
            assert_eq!(bytes(&events), first, "seed {seed}");
        }
    }
}
