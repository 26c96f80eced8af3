//! One session client in front of a stateless upstream: what the session protocol keeps and the
//! stateless one does not.
//!
//! Invariant: nothing here is shared between two sessions, so neither an answer nor a notification
//! can reach another client.
//! Deliberately absent: the traffic itself.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::mpsc::WeakSender;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use crate::lock::lock;
use crate::reply::Reply;
use crate::rpc::Message;
use crate::session_bridge::Heard;
use crate::session_bridge::wire::Identity;
use crate::severity::Severity;
use crate::sse;
use crate::streams::Streams;

/// Notifications kept for a client that has not opened its stream yet.
const KEPT: usize = 64;

/// The state of one session.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) client: Identity,
    /// The level of `logging/setLevel`.
    pub(crate) log_level: Mutex<Option<Severity>>,
    /// URIs of `resources/subscribe`.
    pub(crate) uris: watch::Sender<BTreeSet<String>>,
    pub(crate) outbox: Arc<Outbox>,
    /// What listens to the upstream for this session.
    pub(crate) listener: Mutex<Option<AbortHandle>>,
    pub(crate) heard: watch::Sender<Heard>,
    /// Requests under way, by the client's id.
    running: Mutex<HashMap<String, AbortHandle>>,
    /// Questions to the client, by the proxy's id.
    asked: Mutex<HashMap<u64, oneshot::Sender<String>>>,
    next: AtomicU64,
}

impl Talk {
    pub(crate) fn new(client: Identity) -> Self {
        let (listener, running, asked, log_level, outbox) = Default::default();
        let (uris, heard) = (watch::Sender::default(), watch::Sender::default());
        let next = AtomicU64::new(1);
        Self { client, log_level, uris, outbox, listener, heard, running, asked, next }
    }

    /// The session of the client that sent this `initialize`.
    pub(crate) fn of(initialize: &str) -> Self {
        let client = Message::parse(initialize.as_bytes()).ok();
        Self::new(client.map_or_else(Identity::unknown, |message| Identity::of(&message)))
    }

    /// A client without a session.
    pub(crate) fn unknown() -> Arc<Self> {
        Arc::new(Self::new(Identity::unknown()))
    }

    /// Notes a request, so that the client can cancel it.
    pub(crate) fn started(&self, id: &str, handle: AbortHandle) {
        lock(&self.running).insert(id.to_owned(), handle);
    }

    pub(crate) fn finished(&self, id: &str) {
        lock(&self.running).remove(id);
    }

    /// Gives up a request: its upstream exchange is closed.
    pub(crate) fn cancel(&self, id: &str) {
        if let Some(running) = lock(&self.running).remove(id) {
            running.abort();
        }
    }

    /// A place for the answer to a question, and the id to ask it under.
    pub(crate) fn expect(&self) -> (u64, oneshot::Receiver<String>) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        lock(&self.asked).insert(id, sender);
        (id, receiver)
    }

    /// Takes a question back; false when it was answered.
    pub(crate) fn withdraw(&self, id: u64) -> bool {
        lock(&self.asked).remove(&id).is_some()
    }

    /// Takes in the client's answer to a question.
    pub(crate) fn answer(&self, message: &Message<'_>) {
        let asked = message.id.and_then(|id| id.parse().ok());
        if let Some(waiting) = asked.and_then(|id: u64| lock(&self.asked).remove(&id)) {
            let _ = waiting.send(message.text.to_owned());
        }
    }

    /// Ends everything that goes on for the session.
    pub(crate) fn end(&self, streams: &Streams) {
        for (_, running) in lock(&self.running).drain() {
            running.abort();
        }
        if let Some(listener) = lock(&self.listener).take() {
            listener.abort();
        }
        self.outbox.end(streams);
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        if let Some(listener) = lock(&self.listener).take() {
            listener.abort();
        }
    }
}

/// The way to the client for what belongs to the session and to no request.
#[derive(Debug, Default)]
pub(crate) struct Outbox(Mutex<Slot>);

#[derive(Debug, Default)]
struct Slot {
    stream: Option<WeakSender<Bytes>>,
    kept: VecDeque<Bytes>,
}

impl Outbox {
    /// Opens the client's stream. A client has one: an older stream ends.
    pub(crate) fn open(&self, streams: &Streams) -> Reply {
        let (reply, stream) = streams.open();
        let mut slot = lock(&self.0);
        if let Some(sender) = stream.upgrade() {
            for event in slot.kept.drain(..) {
                let _ = sender.try_send(event);
            }
        }
        if let Some(older) = slot.stream.replace(stream) {
            streams.end(&older);
        }
        reply
    }

    /// Sends a message, or keeps it until there is a stream.
    pub(crate) fn send(&self, text: &str) {
        let event = Bytes::from(sse::message(text));
        let mut slot = lock(&self.0);
        let stream = slot.stream.as_ref().and_then(WeakSender::upgrade);
        let sent = stream.is_some_and(|stream| stream.try_send(event.clone()).is_ok());
        if !sent {
            slot.kept.push_back(event);
            if slot.kept.len() > KEPT {
                slot.kept.pop_front();
            }
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        let stream = lock(&self.0).stream.as_ref().and_then(WeakSender::upgrade);
        stream.is_some_and(|stream| !stream.is_closed())
    }

    fn end(&self, streams: &Streams) {
        if let Some(stream) = lock(&self.0).stream.take() {
            streams.end(&stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_reaches_the_question_with_its_id_once() {
        let talk = Talk::new(Identity::unknown());
        let ((one, mut first), (two, mut second)) = (talk.expect(), talk.expect());
        let text = format!(r#"{{"id":{two},"result":{{"n":1e2}}}}"#);
        let answer = Message::parse(text.as_bytes()).expect("a message");
        talk.answer(&answer);
        talk.answer(&answer);
        assert_eq!(second.try_recv().ok(), Some(text.clone()));
        assert!(first.try_recv().is_err());
        assert!(talk.withdraw(one) && !talk.withdraw(two));
    }

    #[tokio::test]
    async fn a_client_s_new_stream_gets_what_was_kept_and_ends_the_older_one() {
        use http_body_util::BodyExt;
        let (streams, outbox) = (Streams::default(), Outbox::default());
        outbox.send("{\"kept\":1}");
        assert!(!outbox.is_open());
        let older = outbox.open(&streams);
        let newer = outbox.open(&streams);
        outbox.send("{\"new\":1}");
        let older = older.into_body().collect().await.expect("it ends").to_bytes();
        let older = String::from_utf8_lossy(&older).into_owned();
        assert!(older.contains("kept") && !older.contains("new"), "{older}");
        assert!(outbox.is_open());
        streams.close();
        let newer = newer.into_body().collect().await.expect("it ends").to_bytes();
        assert!(String::from_utf8_lossy(&newer).contains("{\"new\":1}"));
        assert!(!outbox.is_open());
    }
}
