//! The fold from what stands in transcripts to calls with an outcome.
//!
//! Invariant: the order in which files and lines are read changes nothing. A call counts once
//! however often it was copied, success wins over failure, and the earliest time is the call's.
//! Deliberately absent: I/O, and any knowledge of a client's format.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use mws_event::{Call, Event, Source, Timestamp};
use xxhash_rust::xxh3::xxh3_128;

use crate::hashed::ByHash;
use crate::known::{Known, Pending, better, drop_oldest_orphans};
use crate::owner::{Links, owner};
use crate::sighting::{Batch, Link, Outcome, Sighting};
use crate::sources::SHORT_ID;

/// What is known from earlier runs, and in this one so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Calls and results by key.
    pub(crate) known: ByHash<Known>,
    /// When the sessions ended that could have made a call.
    pub(crate) ends: BTreeMap<Arc<str>, Timestamp>,
    /// What was reported, by client.
    pub(crate) reported: BTreeMap<Arc<str>, Reported>,
}

/// How many calls of a client were reported.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reported {
    /// All of them.
    pub(crate) calls: u64,
    /// Those whose outcome is a guess.
    pub(crate) inferred: u64,
}

/// The fold.
#[derive(Debug)]
pub(crate) struct Calls {
    kept: Kept,
    links: Links,
    words: HashSet<Arc<str>>,
    now: Timestamp,
}

impl Calls {
    /// Goes on from what earlier runs knew.
    pub(crate) fn new(kept: Kept, links: impl IntoIterator<Item = Link>, now: Timestamp) -> Self {
        let links = links.into_iter().collect();
        Self { kept, links, words: HashSet::new(), now }
    }

    /// What the next run must know.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Adds what is kept but must not keep a call from being reported, which it was by now.
    pub(crate) fn put_back(&mut self, aside: ByHash<Known>) {
        for (key, known) in aside {
            self.kept.known.entry(key).or_insert(known);
        }
    }

    /// Takes in what a file of `client` shows.
    pub(crate) fn absorb(&mut self, client: &str, batch: Batch) {
        self.links.extend(batch.links);
        if let Some((session, ts)) = batch.end {
            let session = intern(&mut self.words, &session);
            let end = self.kept.ends.entry(session).or_insert(ts);
            *end = ts.max(*end);
        }
        for sighting in batch.calls {
            self.call(client, sighting);
        }
        for (id, owner, outcome) in batch.results {
            self.result(key(client, &qualified(&id, self.links.root(&owner))), outcome);
        }
    }

    /// Keys of the calls to report, in order of time.
    pub(crate) fn ready(&self, since: Option<Timestamp>) -> Vec<u128> {
        let mut ready: Vec<(&Pending, u128)> = self
            .kept
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
        let Some(Known::Call(call)) = self.kept.known.get(&key) else { return None };
        let outcome = call.news()?;
        let between = |ts: Timestamp| ts.unix_ms().saturating_sub(call.ts.unix_ms());
        let ms = outcome.ts.and_then(|ts| u64::try_from(between(ts)).ok());
        let text = |word: &Option<Arc<str>>| word.as_deref().map(str::to_owned);
        let (session, subagent) = owner(&call.claims, &self.links, &self.kept.ends);
        Some(Event::Call(Box::new(Call {
            client: call.client.to_string(),
            id: self.id(key),
            src: Source::Transcript,
            session: Some(session.to_string()),
            call_id: Some(call.call_id.to_string()),
            client_version: text(&call.version),
            agent: text(&call.agent).or_else(|| text(&subagent)),
            server: Some(call.server.to_string()),
            raw: text(&call.raw),
            why: Some(outcome.why.as_str().to_owned()),
            conf: Some(if outcome.why.is_inferred() { "inferred" } else { "explicit" }.to_owned()),
            ..Call::new(call.ts, &*call.tool, call.via, outcome.ok, outcome.ms.or(ms).unwrap_or(0))
        })))
    }

    /// The id of that event: always the same for this call with this outcome.
    pub(crate) fn id(&self, key: u128) -> Option<String> {
        let Some(Known::Call(call)) = self.kept.known.get(&key) else { return None };
        let id = format!("{}\0{}\0{}", call.client, call.call_id, call.news()?.ok);
        Some(mws_state::hash_hex(id.as_bytes()))
    }

    /// How many calls wait for a result.
    pub(crate) fn open(&self) -> u64 {
        self.kept.known.values().filter(|known| known.is_open()).count() as u64
    }

    /// Notes that all calls of `keys` were reported.
    pub(crate) fn reported(&mut self, keys: &[u128]) {
        for key in keys {
            let Some(Known::Call(call)) = self.kept.known.get_mut(key) else { continue };
            let Some(outcome) = call.news() else { continue };
            let count = self.kept.reported.entry(Arc::clone(&call.client)).or_default();
            count.calls += u64::from(call.reported.is_none());
            count.inferred += u64::from(call.reported.is_none() && outcome.why.is_inferred());
            let (session, subagent) = owner(&call.claims, &self.links, &self.kept.ends);
            call.claims = vec![(session, None)];
            call.agent = call.agent.take().or(subagent);
            call.reported = Some(outcome.ok);
        }
    }

    /// Notes that all other calls with an outcome are not to be reported.
    pub(crate) fn pass_over(&mut self) {
        for known in self.kept.known.values_mut() {
            if let Known::Call(call) = known
                && let Some(outcome) = call.news()
            {
                call.reported = Some(outcome.ok);
            }
        }
    }

    /// Forgets what waited long enough, and what is only needed for what was reported.
    pub(crate) fn forget(&mut self, now: Timestamp) {
        self.now = now;
        self.kept.known.retain(|_, entry| entry.age(now));
        drop_oldest_orphans(&mut self.kept.known);
        let mut claimed: HashSet<&str> = HashSet::new();
        for known in self.kept.known.values() {
            if let Known::Call(call) = known
                && call.reported.is_none()
            {
                let names = call.claims.iter().flat_map(|(at, from)| [Some(at), from.as_ref()]);
                claimed.extend(names.flatten().map(|name| &**name));
            }
        }
        self.kept.ends.retain(|session, _| claimed.contains(&**session));
    }

    fn call(&mut self, client: &str, sighting: Sighting) {
        let owner = sighting.forked_from.as_deref().unwrap_or(&sighting.session);
        let call_id = qualified(&sighting.call_id, self.links.root(owner)).into_boxed_str();
        let key = key(client, &call_id);
        let old = match self.kept.known.get(&key) {
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
            ts_of_end: sighting.end_event,
            name_of_end: sighting.end_event,
            outcome: old.map(|(outcome, _)| outcome),
            reported: old.and_then(|(_, reported)| reported),
            seen: self.now,
        };
        match self.kept.known.get_mut(&key) {
            Some(Known::Call(call)) => call.merge(new),
            _ => {
                self.kept.known.insert(key, Known::Call(Box::new(new)));
            }
        }
    }

    fn result(&mut self, key: u128, new: Outcome) {
        let fresh = Known::Result { outcome: new, reported: None, seen: self.now };
        match self.kept.known.entry(key).or_insert(fresh) {
            Known::Done => {}
            Known::Result { outcome, .. } => *outcome = better(*outcome, new),
            Known::Call(call) => {
                call.outcome = Some(call.outcome.map_or(new, |old| better(old, new)));
            }
        }
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
            end_event: false,
        };
        let end = Some((session.to_owned(), Timestamp::from_unix_ms(at + 10)));
        Batch { calls: vec![sighting], end, ..Batch::default() }
    }

    fn result(ok: bool, at: i64) -> Batch {
        let ts = Some(Timestamp::from_unix_ms(at));
        let why = if ok { Why::Result } else { Why::IsError };
        let outcome = Outcome { ok, why, ts, ms: None };
        Batch { results: vec![(ID.into(), "A".into(), outcome)], ..Batch::default() }
    }

    /// The only event after the batches were read in the order of `order`.
    fn event(batches: &[fn() -> Batch], order: &[usize]) -> Event {
        let mut calls = fresh();
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

    fn fresh() -> Calls {
        Calls::new(Kept::default(), [], Timestamp::from_unix_ms(0))
    }

    /// What is left after a run at the time `now`.
    fn kept(mut calls: Calls, now: Timestamp) -> Kept {
        let keys = calls.ready(None);
        calls.reported(&keys);
        calls.forget(now);
        calls.kept
    }

    #[test]
    fn what_waited_for_a_week_is_forgotten_but_for_its_key() {
        let (now, later) =
            (Timestamp::from_unix_ms(0), Timestamp::from_unix_ms(8 * mws_event::DAY_MS));
        let mut calls = fresh();
        calls.absorb("c", sighting("A", None, 1));
        assert_eq!(calls.open(), 1);
        let open = kept(calls, now);
        assert_eq!((open.known.len(), open.ends.len()), (1, 1));
        let gone = kept(Calls::new(open, [], later), later);
        assert_eq!((gone.known.len(), gone.ends.len()), (0, 0), "an open call");

        let mut calls = fresh();
        calls.absorb("c", sighting("A", None, 1));
        calls.absorb("c", result(false, 2));
        let old = kept(Calls::new(kept(calls, now), [], later), later);
        let known = old.known.values().next();
        assert!(matches!(known, Some(Known::Result { reported: Some(false), .. })));
        let mut calls = Calls::new(old, [], later);
        calls.absorb("c", sighting("A", None, 1));
        calls.absorb("c", result(false, 2));
        assert!(calls.ready(None).is_empty(), "a failure that is in the log");
        calls.absorb("c", result(true, 3));
        assert_eq!(calls.ready(None).len(), 1, "its success");
    }

    #[test]
    fn an_end_event_has_the_name_and_the_call_the_time() {
        let called = || Batch { end: None, ..sighting("T", None, 5) };
        let ended = || {
            let mut batch = sighting("T", None, 5);
            for call in &mut batch.calls {
                (call.ts, call.end_event) = (Timestamp::from_unix_ms(3), true);
                "mail.send".clone_into(&mut call.tool);
            }
            batch
        };
        let guessed = || {
            let outcome = Outcome {
                ok: true,
                why: Why::Text,
                ts: Some(Timestamp::from_unix_ms(6)),
                ms: None,
            };
            Batch { results: vec![(ID.into(), "T".into(), outcome)], ..Batch::default() }
        };
        let batches: &[fn() -> Batch] = &[called, ended, guessed, || result(false, 9)];
        for order in orders(batches.len()) {
            let Event::Call(call) = event(batches, &order) else { panic!("a call") };
            assert_eq!((call.ts.unix_ms(), call.tool.as_str()), (5, "mail.send"), "{order:?}");
            assert_eq!((call.ok, call.conf.as_deref()), (false, Some("explicit")), "{order:?}");
        }
        let Event::Call(call) = event(batches, &[0, 2]) else { panic!("a call") };
        assert_eq!((call.ok, call.conf.as_deref()), (true, Some("inferred")));
    }
}
