//! The same log in any order of lines, with lines repeated, gives the same bytes.

use mws_config::{OnChange, Thresholds};
use mws_event::{Call, Event, Source, Via};

use crate::testing::at;
use crate::{History, Log, Pins, WorkingSet, decide, merge};

/// A small generator, so that a failing seed can be named.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % n
    }

    fn maybe(&mut self, name: &str, n: u64) -> Option<String> {
        Some(self.below(n)).filter(|i| *i > 0).map(|i| format!("{name}{i}"))
    }

    /// Few values of everything, so that times, ids and sessions collide.
    fn event(&mut self) -> Event {
        let tool = ["a", "b"][self.below(2) as usize];
        let via = [Via::Direct, Via::Listed][self.below(2) as usize];
        let ts = at(self.below(4000) as f64);
        let mut call = Call::new(ts, tool, via, self.below(3) > 0, self.below(4000));
        call.client = ["claude-code", "Claude Code", "codex"][self.below(3) as usize].into();
        call.src = [Source::Proxy, Source::Transcript][self.below(2) as usize];
        call.session = self.maybe("s", 4);
        call.conn = self.maybe("c", 3);
        call.id = self.maybe("w.", 60);
        call.call_id = [self.maybe("call_", 5), self.maybe("toolu_00000000000000000", 30), None]
            [self.below(3) as usize]
            .take();
        Event::Call(Box::new(call))
    }

    fn shuffle(&mut self, events: &mut [Event]) {
        for i in (1..events.len()).rev() {
            events.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

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
