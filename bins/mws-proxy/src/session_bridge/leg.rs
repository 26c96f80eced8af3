//! One exchange with the stateless upstream: a request on its way and what comes back for it.
//!
//! Invariant: dropping it cancels the request upstream; the last message is the answer.
//! Deliberately absent: what is done with the messages.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{HeaderMap, Method};

use crate::caller::{PROTOCOL_VERSION, SESSION_ID};
use crate::control;
use crate::events::Events;
use crate::fault::{Fault, FaultKind};
use crate::headers;
use crate::proxy::Proxy;
use crate::reply;
use crate::rpc::{Era, MODERN, Message};
use crate::sse::EVENT_MAX;
use crate::upstream::{Http, Link, Pending, ended, read_whole};

const BODY_MAX: usize = 64 * 1024 * 1024;

/// A request under way.
pub(crate) enum Leg {
    /// The answer alone.
    Whole(Option<String>),
    /// An event stream.
    Stream(Events),
    /// Lines of a process.
    Lines(Pending),
}

impl Leg {
    /// Sends a request of the client with these headers, which belongs to the session `owner`.
    pub(crate) async fn send(
        proxy: &Arc<Proxy>,
        text: &str,
        client: &HeaderMap,
        owner: &str,
    ) -> Result<Self, Fault> {
        match proxy.upstream.link() {
            Link::Http(http) => Self::post(proxy, http, text, client).await,
            Link::Stdio(stdio) => {
                let (conn, _) = stdio.conn(Era::Session).await?;
                // The stateless protocol cancels what nobody waits for.
                Ok(Self::Lines(conn.request(text, owner, Some(Era::Modern)).await?))
            }
        }
    }

    async fn post(
        proxy: &Arc<Proxy>,
        http: &Http,
        text: &str,
        client: &HeaderMap,
    ) -> Result<Self, Fault> {
        let started = std::time::Instant::now();
        let message = Message::parse(text.as_bytes());
        let message = message.map_err(|why| Fault::new(FaultKind::Protocol, why))?;
        let headers = stateless_headers(proxy, http, client, &message);
        let sent = http.send(Method::POST, headers, Bytes::copy_from_slice(text.as_bytes()));
        let response = sent.await?;
        proxy.note_refusal(&response, started);
        let (parts, body) = response.into_parts();
        if reply::is_stream(&parts.headers) && parts.status.is_success() {
            return Ok(Self::Stream(Events::of(body, EVENT_MAX)));
        }
        let body = read_whole(body, BODY_MAX).await?;
        let answer = Message::parse(&body).ok().filter(|m| m.result.is_some() || m.error.is_some());
        let answer = answer.map(|answer| answer.text.to_owned());
        let status = parts.status.as_u16();
        let none = || {
            let what = format!("the upstream answered with HTTP {status} and no JSON-RPC message");
            Fault::new(FaultKind::Http, what)
        };
        let id = message.id.unwrap_or("null");
        Ok(Self::Whole(Some(control::correlated(id, answer.ok_or_else(none)?))))
    }

    /// The next message, which a process must send within `limit`.
    pub(crate) async fn next_within(&mut self, limit: Duration) -> Result<String, Fault> {
        if !matches!(self, Self::Lines(_)) {
            return self.next().await;
        }
        tokio::time::timeout(limit, self.next()).await.map_err(|_| Fault::silent(limit))?
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Result<String, Fault> {
        let cut = || Fault::new(FaultKind::Closed, "the upstream's stream ended without an answer");
        match self {
            Self::Whole(answer) => answer.take().ok_or_else(cut),
            Self::Lines(pending) => pending.messages.recv().await.ok_or_else(ended),
            Self::Stream(events) => events.next_message().await.map_err(|_| cut())?.ok_or_else(cut),
        }
    }
}

/// The client's headers, with those that mirror the stateless body.
fn stateless_headers(
    proxy: &Proxy,
    http: &Http,
    client: &HeaderMap,
    message: &Message<'_>,
) -> HeaderMap {
    let mut map = http.forwarded(client);
    for name in [SESSION_ID, "last-event-id"] {
        map.remove(name);
    }
    headers::set_kinds(&mut map);
    headers::set(&mut map, PROTOCOL_VERSION, MODERN);
    headers::mirror(&mut map, message, proxy.shelf.last().as_ref().map(|tools| &tools.catalog));
    map
}
