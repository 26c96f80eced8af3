//! What decisions need of a log, kept small: a million calls fit into a hundred megabytes.
//!
//! Invariant: names that repeat are kept once, ids in one text; a line has a fixed size. What is
//! read back is what was pushed.
//! Deliberately absent: everything that no decision reads (the raw name, the agent, versions).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::Arc;

use mws_event::{Call, Event, Kind, Record, Source, Timestamp, Via};

use crate::client::family;
use crate::definitions::Definitions;

/// Call ids shorter than this are counters of a local model, unique within a session only.
const SURE_ID: usize = 20;

/// The usual estimate; no tokenizer is at hand.
pub const BYTES_PER_TOKEN: u64 = 4;

/// What an answer of `search_tools` is taken to have while the log has none.
const SEARCH_BYTES: u64 = 4_000;

/// The events of a log, in the form that [`crate::merge`] reads.
#[derive(Debug, Default)]
pub struct Log {
    pub(crate) lines: Vec<Line>,
    names: Names,
    families: HashMap<Name, Name>,
    ids: String,
    searches: Vec<Search>,
    definitions: Definitions,
    events: u64,
}

/// A call as one line tells it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) ts: Timestamp,
    pub(crate) ms: u64,
    pub(crate) tool: Name,
    pub(crate) client: Name,
    /// The client without version and spelling.
    pub(crate) family: Name,
    pub(crate) session: Option<Name>,
    pub(crate) conn: Option<Name>,
    /// The client's id of the call, qualified by the session when it is short.
    pub(crate) call_id: Option<Id>,
    pub(crate) id: Option<Id>,
    pub(crate) via: Via,
    pub(crate) ok: bool,
    pub(crate) src: Source,
    /// Whether the call id proves that a call with another id is another call.
    pub(crate) has_sure_id: bool,
}

/// A name that is kept once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Name(NonZeroU32);

/// A piece of [`Log::ids`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Id {
    start: u32,
    len: NonZeroU32,
}

/// An answer of `search_tools`; `key` tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Search {
    key: u64,
    ts: Timestamp,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Names {
    texts: Vec<Arc<str>>,
    known: HashMap<Arc<str>, Name>,
}

impl Log {
    /// Takes in what an event says.
    pub fn push(&mut self, event: &Event) {
        self.events += 1;
        match event {
            Event::Call(call) => self.push_call(call),
            Event::Record(record) => self.push_record(record),
        }
    }

    /// Number of events of any kind.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// What is known of the definitions of tools.
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Number and bytes of the answers of `search_tools` before `as_of`, each once.
    fn searches(&self, as_of: Timestamp) -> (u64, u64) {
        let mut searches: Vec<Search> =
            self.searches.iter().copied().filter(|search| search.ts < as_of).collect();
        searches.sort_unstable();
        searches.dedup_by_key(|search| search.key);
        (searches.len() as u64, searches.iter().map(|search| search.bytes).sum())
    }

    /// Tokens that a search costs, by the answers before `as_of`.
    pub fn search_tokens(&self, as_of: Timestamp) -> u64 {
        let (searches, bytes) = self.searches(as_of);
        bytes.checked_div(searches).unwrap_or(SEARCH_BYTES).div_ceil(BYTES_PER_TOKEN)
    }

    pub(crate) fn name(&self, name: Name) -> &str {
        &self.names.texts[name.0.get() as usize - 1]
    }

    pub(crate) fn id(&self, id: Id) -> &str {
        let start = id.start as usize;
        &self.ids[start..start + id.len.get() as usize]
    }

    fn push_call(&mut self, call: &Call) {
        let client = self.names.add(&call.client);
        let family = match self.families.get(&client) {
            Some(family) => *family,
            None => {
                let new = self.names.add(&family(&call.client));
                *self.families.entry(client).or_insert(new)
            }
        };
        let call_id = self.qualified(call);
        let id = call.id.as_deref().and_then(|id| self.add_id(&[id]));
        self.lines.push(Line {
            ts: call.ts,
            ms: call.ms,
            tool: self.names.add(&call.tool),
            client,
            family,
            session: call.session.as_deref().map(|session| self.names.add(session)),
            conn: call.conn.as_deref().map(|conn| self.names.add(conn)),
            call_id,
            id,
            via: call.via,
            ok: call.ok,
            src: call.src,
            has_sure_id: call.call_id.as_ref().is_some_and(|id| id.len() >= SURE_ID),
        });
    }

    fn qualified(&mut self, call: &Call) -> Option<Id> {
        let id = call.call_id.as_deref().filter(|id| !id.is_empty())?;
        if id.len() >= SURE_ID || id.contains('/') {
            return self.add_id(&[id]);
        }
        let session = call.root.as_deref().or(call.session.as_deref()).or(call.conn.as_deref())?;
        self.add_id(&[session, "/", id])
    }

    fn push_record(&mut self, record: &Record) {
        match &record.kind {
            Kind::Search { bytes, results, client, kind, ms, session, conn } => {
                let mut hasher = DefaultHasher::new();
                match &record.id {
                    Some(id) => id.hash(&mut hasher),
                    None => {
                        (record.ts, bytes, results, client, kind).hash(&mut hasher);
                        (ms, session, conn).hash(&mut hasher);
                    }
                }
                let key = hasher.finish();
                self.searches.push(Search { key, ts: record.ts, bytes: *bytes });
            }
            kind => self.definitions.take_in(record.ts, kind),
        }
    }

    /// Beyond four gigabytes of ids a line is known by its content.
    fn add_id(&mut self, parts: &[&str]) -> Option<Id> {
        let start = u32::try_from(self.ids.len()).ok()?;
        let len = u32::try_from(parts.iter().map(|part| part.len()).sum::<usize>()).ok()?;
        start.checked_add(len)?;
        let len = NonZeroU32::new(len)?;
        parts.iter().for_each(|part| self.ids.push_str(part));
        Some(Id { start, len })
    }
}

impl<'e> FromIterator<&'e Event> for Log {
    fn from_iter<I: IntoIterator<Item = &'e Event>>(events: I) -> Self {
        let mut log = Self::default();
        events.into_iter().for_each(|event| log.push(event));
        log
    }
}

impl Names {
    fn add(&mut self, text: &str) -> Name {
        if let Some(name) = self.known.get(text) {
            return *name;
        }
        let text: Arc<str> = Arc::from(text);
        self.texts.push(Arc::clone(&text));
        // There are fewer names than bytes of memory; the first is 1.
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        let name = Name(NonZeroU32::new(number).unwrap_or(NonZeroU32::MAX));
        self.known.insert(text, name);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_call_id_counts_within_its_session_only() {
        let mut call = Call::new(Timestamp::from_unix_ms(0), "a", Via::Direct, true, 1);
        let id_of = |call: &Call| {
            let log: Log = [&Event::Call(Box::new(call.clone()))].into_iter().collect();
            log.lines[0].call_id.map(|id| log.id(id).to_owned())
        };
        assert_eq!(id_of(&call), None);
        call.call_id = Some("call_0".into());
        assert_eq!(id_of(&call), None);
        call.session = Some("s".into());
        assert_eq!(id_of(&call).as_deref(), Some("s/call_0"));
        call.root = Some("r".into());
        assert_eq!(id_of(&call).as_deref(), Some("r/call_0"));
        call.call_id = Some("r/call_0".into());
        assert_eq!(id_of(&call).as_deref(), Some("r/call_0"));
        call.call_id = Some("toolu_01000000000000000000".into());
        assert_eq!(id_of(&call).as_deref(), Some("toolu_01000000000000000000"));
    }

    #[test]
    fn a_search_counts_once_by_its_id_or_its_content() {
        let search = |ts: i64, bytes: u64, id: Option<&str>| {
            let kind = Kind::Search {
                bytes,
                results: 1,
                client: "x".into(),
                kind: None,
                ms: None,
                session: None,
                conn: None,
            };
            let mut record = Record::new(Timestamp::from_unix_ms(ts), kind);
            record.id = id.map(str::to_owned);
            Event::Record(record)
        };
        let events = [
            search(1, 100, None),
            search(1, 100, None),
            search(2, 100, None),
            search(3, 50, Some("w.1")),
            search(3, 50, Some("w.1")),
            search(9, 50, Some("w.2")),
        ];
        let log: Log = events.iter().collect();
        assert_eq!(log.searches(Timestamp::from_unix_ms(9)), (3, 250));
    }

    #[test]
    fn a_line_is_small() {
        assert!(size_of::<Line>() <= 64, "{}", size_of::<Line>());
    }
}
