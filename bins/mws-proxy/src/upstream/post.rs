//! A session with the upstream over HTTP: Streamable HTTP, or the older one with its two URLs.
//!
//! Invariant: what comes in the answer to a request is told apart from what comes to nobody; a
//! stream that breaks off is taken up again where the upstream can.
//! Deliberately absent: HTTP itself; see [`super::http`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use tokio::sync::Notify;

use crate::control;
use crate::events::Events;
use crate::fault::{Fault, FaultKind};
use crate::headers;
use crate::reply::{self, Reply};
use crate::rpc::Message;
use crate::sse;
use crate::upstream::answer::{read_whole, refused_session};
use crate::upstream::http::Sender;
use crate::upstream::mux::Mux;

const BODY_MAX: usize = 64 * 1024 * 1024;
/// For the end of a session, which nobody waits for.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause before a stream is opened again.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Attempts in a row without a single event.
const ATTEMPTS: u32 = 5;

/// Where a session's messages go.
pub(crate) struct Post {
    sender: Sender,
    /// The session and its protocol version.
    headers: HeaderMap,
    session: Option<String>,
    listening: AtomicBool,
    ended: Arc<Notify>,
}

impl Post {
    pub(super) fn new(sender: Sender, headers: HeaderMap, session: Option<String>) -> Self {
        let (listening, ended) = Default::default();
        Self { sender, headers, session, listening, ended }
    }

    /// Sends one message. What comes back goes to `mux`; for the request `number` it is awaited as
    /// far as the head of the response.
    ///
    /// # Errors
    /// When the request did not reach the upstream or was refused.
    pub(super) async fn send(
        &self,
        mux: &Arc<Mux>,
        text: String,
        number: Option<u64>,
        extra: HeaderMap,
    ) -> Result<(), Fault> {
        let headers = self.headers(extra);
        let sent = self.sender.send(Method::POST, headers, text.into(), None).await?;
        let response = match refused_session(sent, self.session.as_deref()).await? {
            Ok(response) => response,
            Err(status) => {
                mux.close();
                let what = format!("the upstream dropped its session with HTTP {status}");
                return Err(Fault::new(FaultKind::Expired, what));
            }
        };
        let Some(number) = number else { return Ok(()) };
        let status = response.status();
        if reply::is_stream(response.headers()) {
            let (sender, headers) = (self.sender.clone(), self.headers.clone());
            let mux = Arc::clone(mux);
            tokio::spawn(async move { pump(response, number, &mux, &sender, &headers).await });
            return Ok(());
        }
        let body = read_whole(response.into_body(), BODY_MAX).await?;
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) || body.is_empty() {
            return self.comes_later(status);
        }
        let text = String::from_utf8_lossy(&body).into_owned();
        if Message::parse(text.as_bytes()).is_err() {
            return Err(unreadable(status));
        }
        let text = control::correlated(&number.to_string(), text);
        mux.take_in(text.as_bytes(), Some(number));
        mux.fail(number);
        Ok(())
    }

    /// Over the older transport the answer comes on the other stream.
    fn comes_later(&self, status: StatusCode) -> Result<(), Fault> {
        let listens = self.listening.load(Ordering::Relaxed);
        if status.is_success() && listens { Ok(()) } else { Err(unreadable(status)) }
    }

    /// Opens the session's own stream, once.
    pub(super) fn listen(&self, mux: &Arc<Mux>) {
        if self.listening.swap(true, Ordering::Relaxed) {
            return;
        }
        let (sender, ended) = (self.sender.clone(), Arc::clone(&self.ended));
        let headers = self.headers(HeaderMap::new());
        let mux = Arc::downgrade(mux);
        tokio::spawn(async move {
            tokio::select! {
                () = listen(mux, sender, headers) => {}
                () = ended.notified() => {}
            }
        });
    }

    /// Takes in a stream that is open already; its end is the end of the session.
    pub(super) fn follow(&self, mux: &Arc<Mux>, events: Events) {
        self.listening.store(true, Ordering::Relaxed);
        let (mux, ended) = (Arc::downgrade(mux), Arc::clone(&self.ended));
        tokio::spawn(async move {
            let mut events = events.up_to(BODY_MAX);
            let all = async {
                while let Ok(Some(event)) = events.next().await {
                    let Some(mux) = mux.upgrade() else { return };
                    if let Some(behind) = take_in(&mux, &event, None) {
                        mux.hold(behind).await;
                    }
                }
            };
            tokio::select! { () = all => {}, () = ended.notified() => {} }
            if let Some(mux) = mux.upgrade() {
                mux.close();
            }
        });
    }

    /// Closes the stream.
    pub(super) fn end(&self) {
        self.ended.notify_one();
    }

    /// Ends the session.
    pub(super) async fn delete(&self) {
        self.end();
        if self.session.is_some() {
            let headers = self.headers(HeaderMap::new());
            let _ =
                self.sender.send(Method::DELETE, headers, Bytes::new(), Some(LAST_TIMEOUT)).await;
        }
    }

    fn headers(&self, mut map: HeaderMap) -> HeaderMap {
        let mirrors: Vec<_> =
            map.keys().filter(|name| name.as_str().starts_with("mcp-")).cloned().collect();
        for name in mirrors {
            map.remove(name);
        }
        headers::set_kinds(&mut map);
        for (name, value) in &self.headers {
            // The credentials of this client, where they are passed on, go before those of another.
            if name != AUTHORIZATION || !map.contains_key(AUTHORIZATION) {
                map.insert(name.clone(), value.clone());
            }
        }
        map
    }
}

fn unreadable(status: StatusCode) -> Fault {
    let status = status.as_u16();
    let what = format!("the upstream answered with HTTP {status} and no JSON-RPC message");
    Fault::new(FaultKind::Http, what)
}

fn take_in(mux: &Arc<Mux>, event: &[u8], origin: Option<u64>) -> Option<u64> {
    let text = sse::data(event).filter(|text| !text.is_empty())?;
    mux.take_in(text.as_bytes(), origin)
}

/// Where a stream can be taken up again.
#[derive(Default)]
struct Place {
    last: Option<String>,
    pause: Option<Duration>,
}

impl Place {
    fn see(&mut self, event: &[u8]) {
        if let Some(id) = sse::field(event, "id") {
            self.last = Some(id);
        }
        let retry = sse::field(event, "retry").and_then(|ms| ms.parse().ok());
        self.pause = retry.map(Duration::from_millis).or(self.pause);
    }

    fn pause(&self) -> Duration {
        self.pause.unwrap_or(PAUSE).min(LONGEST_PAUSE)
    }

    fn headers(&self, own: &HeaderMap) -> HeaderMap {
        let mut map = own.clone();
        map.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(Ok(id)) = self.last.as_deref().map(HeaderValue::from_str) {
            map.insert("last-event-id", id);
        }
        map
    }
}

/// Takes in the answer to one request, until the response is there or nobody waits for it.
async fn pump(first: Reply, number: u64, mux: &Arc<Mux>, sender: &Sender, own: &HeaderMap) {
    let mut events = Events::of(first.into_body(), BODY_MAX);
    let (mut place, mut failures) = (Place::default(), 0);
    while mux.is_waiting(number) {
        let event = tokio::select! {
            event = events.next() => event,
            () = mux.given_up(number) => return,
        };
        if let Ok(Some(event)) = event {
            failures = 0;
            place.see(&event);
            mux.room(number).await;
            take_in(mux, &event, Some(number));
            continue;
        }
        failures += 1;
        if place.last.is_none() || failures > ATTEMPTS {
            break;
        }
        tokio::time::sleep(place.pause()).await;
        let headers = place.headers(own);
        match sender.send(Method::GET, headers, Bytes::new(), None).await {
            Ok(response) if reply::is_stream(response.headers()) => {
                events = Events::of(response.into_body(), BODY_MAX);
            }
            Ok(_) => break,
            Err(_) => {}
        }
    }
    mux.fail(number);
}

/// Takes in a session's own stream for as long as the upstream offers one.
async fn listen(mux: Weak<Mux>, sender: Sender, own: HeaderMap) {
    let (mut place, mut failures) = (Place::default(), 0);
    while failures <= ATTEMPTS {
        let headers = place.headers(&own);
        match sender.send(Method::GET, headers, Bytes::new(), None).await {
            Ok(response) if reply::is_stream(response.headers()) => {
                let mut events = Events::of(response.into_body(), BODY_MAX);
                while let Ok(Some(event)) = events.next().await {
                    failures = 0;
                    place.see(&event);
                    let Some(mux) = mux.upgrade() else { return };
                    take_in(&mux, &event, None);
                }
            }
            Ok(response) if response.status() == StatusCode::NOT_FOUND => {
                if let Some(mux) = mux.upgrade() {
                    mux.close();
                }
                return;
            }
            // The upstream has no such stream.
            Ok(response) if response.status().is_client_error() => return,
            Ok(_) | Err(_) => {}
        }
        failures += 1;
        tokio::time::sleep(place.pause()).await;
    }
}
