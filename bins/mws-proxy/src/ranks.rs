//! What each client's last search gave: the ranks that its next calls are recorded with.
//!
//! Invariant: bounded, in memory only, and gone after a while; no query is in it.
//! Deliberately absent: judging; the report does that.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::caller::Caller;
use crate::lock::lock;

/// Clients remembered; beyond it the oldest search goes.
const CLIENTS: usize = 1024;
/// A call that comes later than this has nothing to do with the search.
const MEMORY: Duration = Duration::from_secs(30 * 60);

/// The last search of each client.
#[derive(Debug, Default)]
pub(crate) struct Ranks(Mutex<HashMap<String, Last>>);

#[derive(Debug)]
struct Last {
    at: Instant,
    /// Tools in the reply, best first.
    names: Vec<String>,
}

impl Ranks {
    /// Keeps what a search gave, in the place of the one before.
    pub(crate) fn keep(&self, caller: &Caller, names: &[String]) {
        let mut searches = self.searches();
        let who = who(caller);
        if searches.len() >= CLIENTS && !searches.contains_key(who) {
            let oldest = searches.iter().min_by_key(|(_, last)| last.at).map(|(who, _)| who);
            let oldest = oldest.cloned();
            oldest.map(|who| searches.remove(&who));
        }
        searches.insert(who.to_owned(), Last { at: Instant::now(), names: names.to_vec() });
    }

    /// At which place the tool stood in the caller's last search, from 1.
    pub(crate) fn of(&self, caller: &Caller, tool: &str) -> Option<u32> {
        let searches = self.searches();
        let last = searches.get(who(caller)).filter(|last| last.at.elapsed() <= MEMORY)?;
        let place = last.names.iter().position(|name| name == tool)?;
        u32::try_from(place + 1).ok()
    }

    fn searches(&self) -> MutexGuard<'_, HashMap<String, Last>> {
        lock(&self.0)
    }
}

fn who(caller: &Caller) -> &str {
    caller.session.as_deref().or(caller.conn.as_deref()).unwrap_or(&caller.client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::Era;

    fn caller(client: &str, session: Option<&str>) -> Caller {
        let session = session.map(str::to_owned);
        let client = client.to_owned();
        Caller { era: Era::Modern, client, session, call_id: None, conn: None, session_id: None }
    }

    #[test]
    fn the_last_search_of_the_same_client_counts() {
        let ranks = Ranks::default();
        let names = ["b", "a"].map(str::to_owned);
        ranks.keep(&caller("x", Some("1")), &names);
        assert_eq!(ranks.of(&caller("x", Some("1")), "a"), Some(2));
        for other in [caller("x", Some("2")), caller("x", None)] {
            assert_eq!(ranks.of(&other, "a"), None);
        }
        assert_eq!(ranks.of(&caller("x", Some("1")), "c"), None);
        ranks.keep(&caller("x", Some("1")), &names[..1]);
        assert_eq!(ranks.of(&caller("x", Some("1")), "a"), None);
    }

    #[test]
    fn the_table_is_bounded() {
        let ranks = Ranks::default();
        for number in 0..=CLIENTS {
            ranks.keep(&caller(&number.to_string(), None), &["a".to_owned()]);
        }
        assert_eq!(ranks.searches().len(), CLIENTS);
        assert_eq!(ranks.of(&caller("0", None), "a"), None);
        assert_eq!(ranks.of(&caller("1", None), "a"), Some(1));
    }
}
