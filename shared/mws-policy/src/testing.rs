//! Given/when/then for the tests of this package: short notation for events and times.
//!
//! Invariant: a test reads as a table. Deliberately absent: anything the software itself uses.

use mws_config::{OnChange, Thresholds};
use mws_event::{Call, DAY_MS, Event, Source, Timestamp, Via};

use crate::{Decision, History, Log, Offer, Offers, Pins, Through, decide, merge};

/// Day 0 of every story.
pub(crate) const EPOCH: i64 = 1_772_323_200_000; // 2026-03-01T00:00:00Z

pub(crate) fn at(seconds: f64) -> Timestamp {
    Timestamp::from_unix_ms(EPOCH + (seconds * 1000.0) as i64)
}

pub(crate) fn day(n: i64) -> Timestamp {
    Timestamp::from_unix_ms(EPOCH + n * DAY_MS)
}

/// A call that took 100 ms, by client `cc`; changed by `with`.
pub(crate) fn call(ts: Timestamp, tool: &str, ok: bool, with: impl FnOnce(&mut Call)) -> Event {
    let mut call = Call::new(ts, tool, Via::Direct, ok, 100);
    call.client = "cc".into();
    with(&mut call);
    Event::Call(Box::new(call))
}

/// A success of `tool` on day `n` in `session`.
pub(crate) fn success(n: i64, tool: &str, session: &str) -> Event {
    call(day(n), tool, true, |c| c.session = Some(session.into()))
}

pub(crate) fn failure(n: i64, tool: &str, session: &str) -> Event {
    call(day(n), tool, false, |c| c.session = Some(session.into()))
}

/// `src ts tool ok ms client session call_id conn`, one call a line; `-` for none, times in seconds.
pub(crate) fn story(text: &str) -> Vec<Event> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(told).collect()
}

fn told(line: &str) -> Event {
    let w: Vec<&str> = line.split_whitespace().collect();
    let some = |i: usize| w.get(i).filter(|w| **w != "-").map(|w| (*w).to_owned());
    call(at(w[1].parse().expect("seconds")), w[2], w[3] == "ok", |c| {
        c.src = if w[0] == "T" { Source::Transcript } else { Source::Proxy };
        c.ms = w[4].parse().expect("milliseconds");
        c.client = w[5].into();
        (c.session, c.call_id, c.conn) = (some(6), some(7), some(8));
    })
}

/// `tool: successes/sessions/failures` for each tool, counted with a gap of 30 minutes.
pub(crate) fn totals(events: &[Event]) -> String {
    let log: Log = events.iter().collect();
    let merged = merge(&log, day(10_000), 30);
    let pins = crate::Pins::default();
    let history = History::of(&merged.calls, &pins, None, 0, day(10_000));
    let totals = history
        .tools
        .iter()
        .map(|t| format!("{}: {}/{}/{}", t.name, t.successes.len(), t.sessions, t.failed));
    totals.collect::<Vec<_>>().join(", ")
}

/// What is decided at the start of day `as_of`, and how far the log was read.
pub(crate) fn decisions(
    given: &[Event],
    pins: &Pins,
    catalog: Option<&Offers>,
    thresholds: &Thresholds,
    as_of: Timestamp,
) -> (Vec<Decision>, Option<Through>) {
    let log: Log = given.iter().collect();
    let merged = merge(&log, as_of, 30);
    let history = History::of(&merged.calls, pins, catalog, 1000, as_of);
    (decide(&history, log.definitions(), OnChange::Warn, thresholds), merged.through)
}

/// Tools of 100 tokens each.
pub(crate) fn offers(names: &[&str]) -> Offers {
    let offer =
        |name: &&str| ((*name).to_owned(), Offer { tokens: 100, hash: format!("of {name}") });
    names.iter().map(offer).collect()
}

/// A small generator, so that a failing seed can be named.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % n
    }

    fn maybe(&mut self, name: &str, n: u64) -> Option<String> {
        Some(self.below(n)).filter(|i| *i > 0).map(|i| format!("{name}{i}"))
    }

    /// Few values of everything, so that times, ids and sessions collide.
    pub(crate) fn event(&mut self) -> Event {
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

    pub(crate) fn shuffle(&mut self, events: &mut [Event]) {
        for i in (1..events.len()).rev() {
            events.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}
