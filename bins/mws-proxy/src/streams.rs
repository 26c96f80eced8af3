//! GET and DELETE: the streams of sessions, and their end.
//!
//! Invariant: over HTTP they are the upstream's, passed on; what an upstream process says to nobody
//! goes to every stream that is open.
//! Deliberately absent: replay after a disconnect; events here carry no ids.

use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use hyper::{HeaderMap, Method, StatusCode};
use tokio::sync::mpsc::{self, Sender, WeakSender};

use crate::body::Channel;
use crate::caller::{Caller, PROTOCOL_VERSION, SESSION_ID};
use crate::headers;
use crate::http::refuse;
use crate::lock::lock;
use crate::proxy::Proxy;
use crate::reply::{self, Reply};
use crate::rpc::{MODERN, Message};
use crate::sse;
use crate::upstream::Link;

impl Proxy {
    /// Answers a GET or a DELETE.
    pub(crate) async fn session_stream(
        self: &Arc<Self>,
        method: &Method,
        headers: &HeaderMap,
    ) -> Reply {
        let reply = self.stream_or_end(method, headers).await;
        match &self.notifier {
            // The upstream has no stream for sessions, but we have something to say.
            Some(notifier) if reply.status() == StatusCode::METHOD_NOT_ALLOWED => {
                notifier.joined(self.streams.open().0, None)
            }
            Some(notifier) => notifier.joined(reply, None),
            None => reply,
        }
    }

    async fn stream_or_end(self: &Arc<Self>, method: &Method, headers: &HeaderMap) -> Reply {
        let version = headers::text(headers, PROTOCOL_VERSION);
        if version.is_some_and(|version| version >= MODERN) {
            return refuse(StatusCode::METHOD_NOT_ALLOWED, "");
        }
        let id = headers::text(headers, SESSION_ID).unwrap_or_default();
        if self.sessions.has_ended(id) {
            return refuse(StatusCode::NOT_FOUND, "this session has ended");
        }
        let own = self.sessions.own(id);
        let nothing = Message::parse(b"{}").ok();
        let caller = nothing.map(|nothing| Caller::of(headers, &nothing, |_| None));
        if let Some(caller) = caller.as_ref().filter(|_| own.is_some()) {
            match self.bridged(caller).await {
                Ok(Some(talk)) => return self.bridged_stream(&talk, method, id),
                Ok(None) => {}
                Err(fault) => return refuse(StatusCode::BAD_GATEWAY, &fault.message),
            }
        }
        match self.upstream.link() {
            Link::Stdio(_) if own.is_none() => refuse(StatusCode::NOT_FOUND, "no such session"),
            Link::Stdio(stdio) if method == Method::DELETE => {
                self.sessions.close(id);
                stdio.owns.end(id);
                reply::empty(StatusCode::OK)
            }
            Link::Stdio(stdio) => match stdio.owns.get(id) {
                Some(own) => own.stream(),
                None => self.streams.open().0,
            },
            Link::Http(http) => {
                let mut headers = http.forwarded(headers);
                let opened = match &caller {
                    Some(caller) => self.use_upstream_session(http, caller, &mut headers).await,
                    None => Ok(None),
                };
                let sent = match opened {
                    Ok(_) => http.send(method.clone(), headers, Bytes::new()).await,
                    Err(fault) => Err(fault),
                };
                match sent {
                    Ok(response) => {
                        // A server may refuse to let clients end sessions.
                        if method == Method::DELETE && response.status().is_success() {
                            self.sessions.close(id);
                        }
                        self.watched(response)
                    }
                    Err(fault) => refuse(StatusCode::BAD_GATEWAY, &fault.message),
                }
            }
        }
    }
}

/// Events waiting for a client; one that is further behind loses its stream.
const BEHIND: usize = 256;

/// All open streams of our own.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<Vec<Sender<Bytes>>>);

impl Streams {
    /// Opens one more stream. The way to write to it alone ends with it.
    pub(crate) fn open(&self) -> (Reply, WeakSender<Bytes>) {
        let (sender, receiver) = mpsc::channel(BEHIND);
        // A first byte makes the response head leave at once.
        let _ = sender.try_send(Bytes::from_static(b": open\n\n"));
        let own = sender.downgrade();
        let mut streams = self.streams();
        streams.retain(|stream| !stream.is_closed());
        streams.push(sender);
        (reply::stream(Channel::boxed(None, receiver, |event| event)), own)
    }

    /// Sends a message to everybody.
    pub(crate) fn send(&self, text: &str) {
        let event = Bytes::from(sse::message(text));
        self.streams().retain(|stream| stream.try_send(event.clone()).is_ok());
    }

    /// Ends one stream.
    pub(crate) fn end(&self, one: &WeakSender<Bytes>) {
        if let Some(one) = one.upgrade() {
            self.streams().retain(|stream| !stream.same_channel(&one));
        }
    }

    /// Ends all streams.
    pub(crate) fn close(&self) {
        self.streams().clear();
    }

    fn streams(&self) -> MutexGuard<'_, Vec<Sender<Bytes>>> {
        lock(&self.0)
    }
}
