//! The fold from what stands in transcripts to calls with an outcome.
//!
//! Invariant: the order in which files and lines are read changes nothing. A call counts once
//! however often it was copied, success wins over failure, and the earliest time is the call's.
//! Deliberately absent: I/O, and any knowledge of a client's format.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mws_event::{Call, Event, Source, Timestamp};
use xxhash_rust::xxh3::xxh3_128;

use crate::known::{Known, Pending, better, drop_oldest_orphans};
use crate::sighting::{Batch, Outcome, Sighting};
use crate::sources::SHORT_ID;

/// The fold.
#[derive(Debug)]
pub(crate) struct Calls {
    known: HashMap<u128, Known>,
    ends: HashMap<Arc<str>, Timestamp>,
    words: HashSet<Arc<str>>,
    now: Timestamp,
}

impl Calls {
    /// Goes on from what earlier runs knew.
    pub(crate) fn new(known: HashMap<u128, Known>, now: Timestamp) -> Self {
        Self { known, ends: HashMap::new(), words: HashSet::new(), now }
    }

    /// Takes in what a file of `client` shows.
    pub(crate) fn absorb(&mut self, client: &str, batch: Batch) {
        if let Some((session, ts)) = batch.end {
            let session = intern(&mut self.words, &session);
            let end = self.ends.entry(session).or_insert(ts);
            *end = ts.max(*end);
        }
        for sighting in batch.calls {
            self.call(client, sighting);
        }
        for (id, owner, outcome) in batch.results {
            self.result(key(client, &qualified(&id, &owner)), outcome);
        }
    }

    /// Keys of the calls to report, in order of time.
    pub(crate) fn ready(&self, since: Option<Timestamp>) -> Vec<u128> {
        let mut ready: Vec<(&Pending, u128)> = self
            .known
            .iter()
            .filter_map(|(key, known)| match known {
                Known::Call(call) if call.news().is_some() => Some((&**call, *key)),
                _ => None,
            })
            .filter(|(call, _)| since.is_none_or(|since| call.ts >= since))
            .collect();
        ready.sort_by_key(|(call, key)| (call.ts, *key));
        ready.into_iter().map(|(_, key)| key).collect()
    }

    /// The event of a call that is ready.
    pub(crate) fn event(&self, key: u128) -> Option<Event> {
        let Some(Known::Call(call)) = self.known.get(&key) else { return None };
        let outcome = call.news()?;
        let ms = outcome.ts.map_or(0, |ts| ts.unix_ms().saturating_sub(call.ts.unix_ms()));
        let ms = u64::try_from(ms).unwrap_or(0);
        let text = |word: &Option<Arc<str>>| word.as_deref().map(str::to_owned);
        let id = format!("{}\0{}\0{}", call.client, call.call_id, outcome.ok);
        Some(Event::Call(Box::new(Call {
            client: call.client.to_string(),
            id: Some(mws_state::hash_hex(id.as_bytes())),
            src: Source::Transcript,
            session: Some(self.owner(call).to_string()),
            call_id: Some(call.call_id.to_string()),
            client_version: text(&call.version),
            agent: text(&call.agent),
            server: Some(call.server.to_string()),
            raw: text(&call.raw),
            why: Some(outcome.why.as_str().to_owned()),
            conf: Some("explicit".to_owned()),
            ..Call::new(call.ts, &*call.tool, call.via, outcome.ok, ms)
        })))
    }

    /// How many calls wait for a result.
    pub(crate) fn open(&self) -> u64 {
        let is_open = |known: &&Known| matches!(known, Known::Call(c) if c.outcome.is_none());
        self.known.values().filter(is_open).count() as u64
    }

    /// What the next run must know, once all that is ready was reported.
    pub(crate) fn into_known(mut self) -> HashMap<u128, Known> {
        let mut known = std::mem::take(&mut self.known);
        for entry in known.values_mut() {
            if let Known::Call(call) = entry {
                let owner = self.owner(call);
                call.claims = vec![(owner, None)];
                call.settled = true;
                call.reported = call.outcome.map(|outcome| outcome.ok).or(call.reported);
            }
        }
        known.retain(|_, entry| entry.age(self.now));
        drop_oldest_orphans(&mut known);
        known
    }

    fn call(&mut self, client: &str, sighting: Sighting) {
        let owner = sighting.forked_from.as_deref().unwrap_or(&sighting.session);
        let call_id = qualified(&sighting.call_id, owner).into_boxed_str();
        let key = key(client, &call_id);
        let old = match self.known.get(&key) {
            Some(Known::Done) => return,
            Some(Known::Result { outcome, reported, .. }) => Some((*outcome, *reported)),
            Some(Known::Call(_)) | None => None,
        };
        let mut word = |text: &str| intern(&mut self.words, text);
        let new = Pending {
            client: word(client),
            call_id,
            tool: word(&sighting.tool),
            raw: sighting.raw.as_deref().map(&mut word),
            via: sighting.via,
            ts: sighting.ts,
            version: sighting.version.as_deref().map(&mut word),
            agent: sighting.agent.as_deref().map(&mut word),
            server: word(&sighting.server),
            claims: vec![(word(&sighting.session), sighting.forked_from.as_deref().map(&mut word))],
            settled: false,
            outcome: old.map(|(outcome, _)| outcome),
            reported: old.and_then(|(_, reported)| reported),
            seen: self.now,
        };
        match self.known.get_mut(&key) {
            Some(Known::Call(call)) => call.merge(new),
            _ => {
                self.known.insert(key, Known::Call(Box::new(new)));
            }
        }
    }

    fn result(&mut self, key: u128, new: Outcome) {
        let fresh = Known::Result { outcome: new, reported: None, seen: self.now };
        match self.known.entry(key).or_insert(fresh) {
            Known::Done => {}
            Known::Result { outcome, .. } => *outcome = better(*outcome, new),
            Known::Call(call) => {
                call.outcome = Some(call.outcome.map_or(new, |old| better(old, new)));
            }
        }
    }

    /// The session that made a call: of marked copies the one copied from, and of the rest the
    /// one that ended first.
    fn owner(&self, call: &Pending) -> Arc<str> {
        let copied_from: HashMap<&Arc<str>, &Arc<str>> =
            call.claims.iter().filter_map(|(at, from)| Some((at, from.as_ref()?))).collect();
        let mut origins: Vec<&Arc<str>> =
            copied_from.values().copied().filter(|from| !copied_from.contains_key(from)).collect();
        if origins.is_empty() {
            origins = call.claims.iter().map(|(at, from)| from.as_ref().unwrap_or(at)).collect();
        }
        let end = |session: &Arc<str>| {
            self.ends.get(session).copied().unwrap_or(Timestamp::from_unix_ms(i64::MAX))
        };
        let first = origins.into_iter().min_by_key(|session| (end(session), Arc::clone(session)));
        first.cloned().unwrap_or_default()
    }
}

/// Sessions, tools and versions repeat; one copy of each is kept.
fn intern(words: &mut HashSet<Arc<str>>, text: &str) -> Arc<str> {
    if let Some(word) = words.get(text) {
        return Arc::clone(word);
    }
    let word: Arc<str> = text.into();
    words.insert(Arc::clone(&word));
    word
}

fn key(client: &str, call_id: &str) -> u128 {
    xxh3_128(format!("{client}\0{call_id}").as_bytes())
}

/// Short ids are counters that begin anew in each session.
fn qualified(id: &str, owner: &str) -> String {
    if id.len() < SHORT_ID { format!("{owner}/{id}") } else { id.to_owned() }
}

#[cfg(test)]
mod tests {
    use mws_event::Via;

    use super::*;
    use crate::sighting::Why;

    const ID: &str = "toolu_0000000000000000";

    fn sighting(session: &str, from: Option<&str>, at: i64) -> Batch {
        let sighting = Sighting {
            call_id: ID.into(),
            session: session.into(),
            forked_from: from.map(str::to_owned),
            tool: "mail".into(),
            raw: None,
            via: Via::Direct,
            ts: Timestamp::from_unix_ms(at),
            version: None,
            agent: None,
            server: "toolbox".into(),
        };
        let end = Some((session.to_owned(), Timestamp::from_unix_ms(at + 10)));
        Batch { calls: vec![sighting], end, ..Batch::default() }
    }

    fn result(ok: bool, at: i64) -> Batch {
        let ts = Some(Timestamp::from_unix_ms(at));
        let why = if ok { Why::Result } else { Why::IsError };
        let outcome = Outcome { ok, why, ts };
        Batch { results: vec![(ID.into(), "A".into(), outcome)], ..Batch::default() }
    }

    /// The only event after the batches were read in the order of `order`.
    fn event(batches: &[fn() -> Batch], order: &[usize]) -> Event {
        let mut calls = Calls::new(HashMap::new(), Timestamp::from_unix_ms(0));
        for &i in order {
            calls.absorb("claude-code", batches[i]());
        }
        let [key] = calls.ready(None)[..] else { panic!("one call is ready") };
        calls.event(key).expect("an event")
    }

    fn orders(n: usize) -> Vec<Vec<usize>> {
        if n == 0 {
            return vec![Vec::new()];
        }
        let put = |order: &Vec<usize>, at: usize| {
            let mut order = order.clone();
            order.insert(at, n - 1);
            order
        };
        orders(n - 1).iter().flat_map(|order| (0..n).map(move |at| put(order, at))).collect()
    }

    fn always(batches: &[fn() -> Batch], session: &str, ts: i64, ok: bool, ms: u64) {
        for order in orders(batches.len()) {
            let Event::Call(call) = event(batches, &order) else { panic!("a call") };
            assert_eq!(call.session.as_deref(), Some(session), "{order:?}");
            assert_eq!((call.ts.unix_ms(), call.ok, call.ms), (ts, ok, ms), "{order:?}");
        }
    }

    #[test]
    fn the_order_of_reading_changes_nothing() {
        // An unmarked copy belongs to the session that ended first.
        let copies: &[fn() -> Batch] = &[
            || sighting("A", None, 5),
            || sighting("B", None, 5),
            || Batch { end: Some(("A".into(), Timestamp::from_unix_ms(99))), ..Batch::default() },
            || result(false, 7),
            || result(true, 9),
        ];
        always(copies, "B", 5, true, 4);
        // A fork of a fork belongs to the first of them, whether its file is there or not.
        let forks: &[fn() -> Batch] = &[
            || sighting("C", Some("B"), 5),
            || sighting("B", Some("A"), 5),
            || sighting("Z", None, 3),
            || result(false, 1),
        ];
        always(forks, "A", 3, false, 0);
    }

    #[test]
    fn what_waited_for_a_week_is_forgotten_but_for_its_key() {
        let later = Timestamp::from_unix_ms(8 * mws_event::DAY_MS);
        let mut calls = Calls::new(HashMap::new(), Timestamp::from_unix_ms(0));
        calls.absorb("c", sighting("A", None, 1));
        assert_eq!(calls.open(), 1);
        let known = calls.into_known();
        assert_eq!(known.len(), 1);
        assert!(Calls::new(known, later).into_known().is_empty(), "an open call");

        let mut calls = Calls::new(HashMap::new(), Timestamp::from_unix_ms(0));
        calls.absorb("c", sighting("A", None, 1));
        calls.absorb("c", result(false, 2));
        let known = Calls::new(calls.into_known(), later).into_known();
        assert!(matches!(known.values().next(), Some(Known::Result { reported: Some(false), .. })));
        let mut calls = Calls::new(known, later);
        calls.absorb("c", sighting("A", None, 1));
        calls.absorb("c", result(false, 2));
        assert!(calls.ready(None).is_empty(), "a failure that is in the log");
        calls.absorb("c", result(true, 3));
        assert_eq!(calls.ready(None).len(), 1, "its success");
    }
}
