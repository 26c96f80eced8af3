//! Requests of the upstream to a client, both ways.
//!
//! Invariant: a request goes to one client that is sure to be meant or to none, under an id that no
//! other request of any conversation has; an answer is taken from nobody else.
//! Deliberately absent: what a client is asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mws_catalog::json;

use crate::edit::Edits;
use crate::lock::lock;
use crate::rpc::{self, METHOD_NOT_FOUND, Message};
use crate::upstream::mux::{Mux, Waiting};

/// How long a request waits for the moment when only one client can be meant.
const UNCLEAR: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(25);

/// Ids of all requests that go to clients.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Who may be asked in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whom {
    /// Nobody: clients share it that cannot be told apart.
    Nobody,
    /// The one session that it belongs to.
    Session,
    /// The stateless client whose request is under way.
    Caller,
}

/// Requests of the upstream that wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct Asked(Mutex<HashMap<u64, Ask>>);

#[derive(Debug)]
struct Ask {
    /// The id as the upstream wrote it.
    id: String,
    /// The client's request in which it is asked.
    number: Option<u64>,
}

impl Asked {
    fn take(&self, id: &str) -> Option<Ask> {
        lock(&self.0).remove(&id.parse().ok()?)
    }
}

impl Mux {
    /// Takes in a request of the upstream.
    pub(super) fn ask(
        self: &Arc<Self>,
        method: &str,
        id: &str,
        message: &Message<'_>,
        origin: Option<u64>,
    ) {
        let refused = match self.whom {
            _ if method == "ping" => return self.write_now(rpc::result(id, "{}")),
            Whom::Nobody => "no client of this connection can be asked",
            Whom::Session => return self.ask_session(id, message),
            Whom::Caller => match self.meant(origin) {
                Some(number) if self.hand(number, id, message) => return,
                None if self.count() > 1 && origin.is_none() => {
                    return self.ask_later(message.text.to_owned(), id.to_owned());
                }
                _ => "no client can be asked now",
            },
        };
        self.write_now(rpc::error(Some(id), METHOD_NOT_FOUND, refused));
    }

    /// Passes a client's answer on; false when nothing was asked under this id.
    pub(super) fn answered(&self, message: &Message<'_>) -> Option<String> {
        let ask = self.asked.take(message.id?)?;
        Some(message.with_id(&ask.id))
    }

    /// The upstream does not want to know any more.
    pub(super) fn withdraw(&self, message: &Message<'_>) {
        let params = message.params();
        let Some(id) = json::get(params, "requestId") else { return };
        // It may end a request of ours, as it does with subscriptions: no more comes for it.
        let decoded = json::string(id).unwrap_or(id.into());
        if decoded.parse().is_ok_and(|number: u64| self.waiting().remove(&number).is_some()) {
            return;
        }
        let gone = {
            let mut asked = lock(&self.asked.0);
            let found = asked.iter().find(|(_, ask)| ask.id == id).map(|(own, _)| *own);
            found.and_then(|own| Some((own, asked.remove(&own)?)))
        };
        let Some((own, ask)) = gone.filter(|_| self.whom == Whom::Session) else { return };
        let mut edits = Edits::of(message.text);
        edits.replace(id, own.to_string());
        let text = edits.apply();
        let waiting = self.waiting();
        match ask.number.and_then(|number| waiting.get(&number)) {
            Some(waiting) => drop(waiting.tell(text)),
            None => (self.notices)(&text),
        }
    }

    /// The client's request is over; what was asked in it gets no answer.
    pub(super) fn forget_asks(&self, number: u64) {
        lock(&self.asked.0).retain(|_, ask| ask.number != Some(number));
    }

    /// Every request under way is the session's, so any of their streams will do.
    fn ask_session(&self, id: &str, message: &Message<'_>) {
        let numbers: Vec<u64> = self.waiting().keys().copied().collect();
        let newest = numbers.into_iter().max();
        if newest.is_some_and(|number| self.hand(number, id, message)) {
            return;
        }
        let own = self.note(id, None);
        (self.notices)(&message.with_id(&own.to_string()));
    }

    /// The request that is meant: the one in whose answer it came, else the only one.
    fn meant(&self, origin: Option<u64>) -> Option<u64> {
        let waiting = self.waiting();
        if let Some(number) = origin {
            return waiting.get(&number).filter(|w| w.may_be_asked()).map(|_| number);
        }
        let mut all = waiting.iter().filter(|(_, w)| w.may_be_asked()).map(|(number, _)| *number);
        all.next().filter(|_| all.next().is_none())
    }

    fn count(&self) -> usize {
        self.waiting().values().filter(|w| w.may_be_asked()).count()
    }

    /// Tries again until the other requests have ended.
    fn ask_later(self: &Arc<Self>, text: String, id: String) {
        let mux = Arc::clone(self);
        tokio::spawn(async move {
            let end = Instant::now() + UNCLEAR;
            while mux.count() > 1 && Instant::now() < end {
                tokio::time::sleep(LOOK).await;
            }
            let Ok(message) = Message::parse(text.as_bytes()) else { return };
            let meant = mux.meant(None);
            if !meant.is_some_and(|number| mux.hand(number, &id, &message)) {
                let why =
                    "several requests are under way, and it is not clear whose client is meant";
                mux.write_now(rpc::error(Some(&id), rpc::SERVER_ERROR, why));
            }
        });
    }

    /// Puts the request among the messages of a client's request.
    fn hand(&self, number: u64, id: &str, message: &Message<'_>) -> bool {
        let own = self.note(id, Some(number));
        let text = message.with_id(&own.to_string());
        let told = self.waiting().get(&number).is_some_and(|w: &Waiting| w.tell(text));
        if !told {
            lock(&self.asked.0).remove(&own);
        }
        told
    }

    fn note(&self, id: &str, number: Option<u64>) -> u64 {
        let own = NEXT.fetch_add(1, Ordering::Relaxed);
        lock(&self.asked.0).insert(own, Ask { id: id.to_owned(), number });
        own
    }
}
