//! Responses of our own and responses passed on.
//!
//! Invariant: a failure of the upstream is a JSON-RPC error under HTTP 200, since clients take any
//! other status for a dead server.
//! Deliberately absent: deciding what to answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue,
};
use hyper::{HeaderMap, Response, StatusCode};
use tokio::sync::mpsc::{self, Receiver};

use crate::body::{self, BoxBody, Channel, Observed, Seen};
use crate::call::{CallWatch, OpenCall};
use crate::caller::SESSION_ID;
use crate::catalog::Shelf;
use crate::fault::Fault;
use crate::headers;
use crate::rpc::{self, Outcome, SERVER_ERROR};
use crate::sse;
use crate::tail::Answering;
use crate::upstream::{Pending, ended};

pub(crate) type Reply = Response<BoxBody>;

/// Events waiting for the client of one request.
const BEHIND: usize = 16;

/// A JSON body.
pub(crate) fn json(status: u16, text: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(body::full(text.into()));
    *reply.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// A status without a body.
pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(body::full(Bytes::new()));
    *reply.status_mut() = status;
    reply
}

/// What a client is told when the upstream failed.
pub(crate) fn failed(id: Option<&str>, fault: &Fault) -> Reply {
    json(200, rpc::error(id, SERVER_ERROR, &fault.message))
}

/// Adds the session id under which the client goes on.
pub(crate) fn with_session(mut reply: Reply, id: &str) -> Reply {
    headers::set(reply.headers_mut(), SESSION_ID, id);
    reply
}

/// True for a body that is an event stream.
pub(crate) fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers::text(headers, CONTENT_TYPE);
    kind.is_some_and(|kind| begins_with(kind, "text/event-stream"))
}

/// True for a client that reads event streams.
pub(crate) fn takes_streams(headers: &HeaderMap) -> bool {
    let kinds = headers::text(headers, ACCEPT);
    kinds.is_some_and(|kinds| kinds.to_ascii_lowercase().contains("text/event-stream"))
}

/// True for a JSON body.
pub(crate) fn is_json(reply: &Reply) -> bool {
    let kind = headers::text(reply.headers(), CONTENT_TYPE);
    kind.is_some_and(|kind| begins_with(kind, "application/json"))
}

/// Media types are the same in any letters.
fn begins_with(kind: &str, word: &str) -> bool {
    kind.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
}

/// The upstream's response with another body.
pub(crate) fn like(parts: &hyper::http::response::Parts, body: BoxBody) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = parts.status;
    *reply.headers_mut() = headers::answered(&parts.headers);
    if is_stream(&parts.headers) {
        unbuffered(reply.headers_mut());
    }
    reply
}

/// The upstream's response with a body whose length may differ.
pub(crate) fn edited(parts: &hyper::http::response::Parts, body: BoxBody) -> Reply {
    let mut reply = like(parts, body);
    reply.headers_mut().remove(CONTENT_LENGTH);
    reply
}

/// The upstream's response byte for byte; a call is finished by what passes, and an event stream
/// that lacks its answer by an error.
pub(crate) fn passed(
    response: Reply,
    id: &str,
    call: Option<OpenCall>,
    silence: Duration,
    shelf: &Arc<Shelf>,
) -> Reply {
    let (parts, incoming) = response.into_parts();
    // A server may compress though nobody asked it to; such a body is not looked into.
    if parts.headers.contains_key(CONTENT_ENCODING) {
        let Some(mut call) = call else { return like(&parts, incoming) };
        let watch = move |seen: Seen<'_>| {
            if matches!(seen, Seen::End) {
                call.finish(Outcome::Ok);
            }
        };
        return like(&parts, Observed::boxed(incoming, watch));
    }
    // Nobody waits for the end of what answers no request.
    if is_stream(&parts.headers) && id != "null" {
        return like(&parts, Answering::boxed(incoming, id, call, silence, Some(shelf)));
    }
    let Some(call) = call else { return like(&parts, incoming) };
    let mut watch = CallWatch::json(call);
    like(&parts, Observed::boxed(incoming, move |seen| watch.see(&seen)))
}

/// An event stream of our own.
pub(crate) fn stream(body: BoxBody) -> Reply {
    let mut reply = Response::new(body);
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    unbuffered(headers);
    reply
}

/// An event stream of one message. It has no length, so that its end comes to the client apart from
/// the message: the official Rust client forgets which headers a call needs where it sees both at once.
pub(crate) fn one_message(text: String) -> Reply {
    let (_, nothing) = mpsc::channel(1);
    messages(Some(text), nothing)
}

/// An event stream of messages as they come.
pub(crate) fn messages(first: Option<String>, rest: Receiver<String>) -> Reply {
    stream(Channel::boxed(first, rest, |text| sse::message(&text).into()))
}

/// Asks reverse proxies not to hold events back.
fn unbuffered(headers: &mut HeaderMap) {
    let name = HeaderName::from_static("x-accel-buffering");
    headers.entry(name).or_insert(HeaderValue::from_static("no"));
}

/// What an upstream process sends for one request: JSON when the response comes first, else an
/// event stream. `edit` is applied to the response.
///
/// # Errors
/// When nothing comes at all.
pub(crate) async fn from_process(
    mut pending: Pending,
    id: &str,
    mut call: Option<OpenCall>,
    silence: Duration,
    edit: impl Fn(&str) -> (u16, String) + Send + 'static,
) -> Result<Reply, Fault> {
    let first = next(&mut pending, silence).await?;
    if sse::answers(&first, id) {
        if let Some(call) = &mut call {
            call.finish_by(first.as_bytes());
        }
        let (status, text) = edit(&first);
        return Ok(json(status, text));
    }
    let (sender, receiver) = mpsc::channel(BEHIND);
    let id = id.to_owned();
    tokio::spawn(async move {
        loop {
            let next = tokio::select! {
                next = next(&mut pending, silence) => next,
                () = sender.closed() => return,
            };
            let (text, is_last) = match next {
                Ok(text) if sse::answers(&text, &id) => {
                    if let Some(call) = &mut call {
                        call.finish_by(text.as_bytes());
                    }
                    (edit(&text).1, true)
                }
                Ok(text) => (text, false),
                Err(fault) => (rpc::error(Some(&id), SERVER_ERROR, &fault.message), true),
            };
            // A client that does not read holds up its own request alone.
            let _ = sender.send(text).await;
            if is_last {
                return;
            }
        }
    });
    Ok(messages(Some(first), receiver))
}

async fn next(pending: &mut Pending, silence: Duration) -> Result<String, Fault> {
    match tokio::time::timeout(silence, pending.messages.recv()).await {
        Ok(next) => next.ok_or_else(ended),
        Err(_) => {
            pending.give_up();
            Err(Fault::silent(silence))
        }
    }
}
