//! Protocol sessions: those that pass through, by name only, and those that the proxy opened.
//!
//! Invariant: session ids of our own cannot be guessed, and the table is bounded.
//! Deliberately absent: authentication. A session id is not one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use crate::lock::lock;
use crate::session_bridge::Talk;

/// Sessions remembered; beyond it the one that was used least recently goes.
const SESSIONS: usize = 4096;

/// How the ids of our own sessions begin.
const OWN: &str = "mws-";

/// A session that the proxy opened for a client.
#[derive(Debug)]
pub(crate) struct Own {
    /// The client's `initialize`, to be sent on when the upstream is there.
    pub(crate) initialize: String,
    /// Set for a client whose protocol the upstream does not speak.
    pub(crate) talk: OnceLock<Arc<Talk>>,
    /// The upstream's session, once opened; the inner value is its id, if it has one.
    pub(crate) upstream: tokio::sync::Mutex<Option<Option<String>>>,
}

impl Own {
    /// The session's state over the bridge.
    pub(crate) fn talk(&self) -> Arc<Talk> {
        Arc::clone(self.talk.get_or_init(|| Arc::new(Talk::of(&self.initialize))))
    }
}

#[derive(Debug, Default)]
struct Table {
    sessions: HashMap<String, Entry>,
    clock: u64,
}

#[derive(Debug)]
struct Entry {
    client: String,
    own: Option<Arc<Own>>,
    used: u64,
    /// The client ended it; what it still asks under it is refused.
    ended: bool,
}

/// All sessions known.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<Table>);

impl Sessions {
    /// Remembers the client's name of a session that the upstream opened.
    pub(crate) fn remember(&self, id: &str, client: &str) {
        self.insert(id, client, None);
    }

    /// Opens a session of our own.
    pub(crate) fn open(&self, client: &str, initialize: &str) -> String {
        let id = format!("{OWN}{:016x}{:016x}", mws_state::random_u64(), mws_state::random_u64());
        let (initialize, upstream) = (initialize.to_owned(), tokio::sync::Mutex::new(None));
        self.insert(
            &id,
            client,
            Some(Arc::new(Own { initialize, talk: OnceLock::new(), upstream })),
        );
        id
    }

    pub(crate) fn client(&self, id: &str) -> Option<String> {
        self.touch(id, |entry| Some(entry.client.clone()))
    }

    pub(crate) fn own(&self, id: &str) -> Option<Arc<Own>> {
        self.touch(id, |entry| entry.own.clone())
    }

    /// Ends a session.
    pub(crate) fn close(&self, id: &str) {
        self.insert(id, "", None);
        if let Some(entry) = self.table().sessions.get_mut(id) {
            entry.ended = true;
        }
    }

    /// True for a session that the client ended, or that was lost with an earlier run of the proxy.
    pub(crate) fn has_ended(&self, id: &str) -> bool {
        self.touch(id, |entry| Some(entry.ended)).unwrap_or_else(|| id.starts_with(OWN))
    }

    fn touch<T>(&self, id: &str, read: impl FnOnce(&Entry) -> Option<T>) -> Option<T> {
        let mut table = self.table();
        table.clock += 1;
        let clock = table.clock;
        let entry = table.sessions.get_mut(id)?;
        entry.used = clock;
        read(entry)
    }

    fn insert(&self, id: &str, client: &str, own: Option<Arc<Own>>) {
        let mut table = self.table();
        table.clock += 1;
        let used = table.clock;
        if table.sessions.len() >= SESSIONS {
            let oldest =
                table.sessions.iter().min_by_key(|(_, e)| e.used).map(|(id, _)| id.clone());
            oldest.map(|id| table.sessions.remove(&id));
        }
        table
            .sessions
            .insert(id.to_owned(), Entry { client: client.to_owned(), own, used, ended: false });
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_bounded_and_forgets_what_is_not_used() {
        let sessions = Sessions::default();
        sessions.remember("first", "a");
        sessions.remember("second", "b");
        for i in 0..SESSIONS - 1 {
            assert_eq!(sessions.client("first").as_deref(), Some("a"));
            sessions.remember(&format!("s{i}"), "c");
        }
        assert_eq!(sessions.client("second"), None);
        assert_eq!(sessions.client("first").as_deref(), Some("a"));
    }

    #[test]
    fn own_sessions_have_ids_that_differ_and_end_when_closed() {
        let sessions = Sessions::default();
        let (a, b) = (sessions.open("c", "{}"), sessions.open("c", "{}"));
        assert!(a != b && a.len() == OWN.len() + 32);
        assert!(sessions.own(&a).is_some() && !sessions.has_ended(&a));
        sessions.close(&a);
        assert!(sessions.own(&a).is_none() && sessions.has_ended(&a));
        assert!(!sessions.has_ended(&b) && !sessions.has_ended("unknown"));
    }
}
