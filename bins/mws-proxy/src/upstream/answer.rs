//! Reading what an HTTP upstream answers to a request of our own.
//!
//! Invariant: sizes are bounded, and a refusal is told apart from an answer.
//! Deliberately absent: streams that only pass; see [`crate::body`].

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;
use hyper::{Response, StatusCode};

use crate::body::{self, BoxBody};
use crate::edit::Object;
use crate::events::{Events, Unread};
use crate::fault::{Fault, FaultKind};
use crate::reply::{self, Reply};
use crate::rpc::Message;
use crate::sse;

/// Largest answer to a request of our own, in bytes.
const OWN_MAX: usize = 64 * 1024 * 1024;

/// No page or error is this large, in bytes.
const LARGE: usize = 64 * 1024;

/// The response to request `id`, out of a JSON body or an event stream.
pub(crate) async fn answer_in(response: Reply, id: &str) -> Result<String, Fault> {
    let status = response.status();
    if reply::is_stream(response.headers()) && status.is_success() {
        return from_stream(response.into_body(), id).await;
    }
    let body = read_whole(response.into_body(), OWN_MAX).await?;
    // Who asked reads a large answer anyway.
    let is_message = (status.is_success() && body.len() > LARGE && body.starts_with(b"{"))
        || Message::parse(&body).is_ok_and(|m| m.result.is_some() || m.error.is_some());
    if is_message && (status.is_success() || status.is_client_error()) && !is_refusal(status) {
        return String::from_utf8(body.into())
            .map_err(|_| Fault::new(FaultKind::Protocol, "the upstream's answer is not UTF-8"));
    }
    // A server of the session era that never heard of the method may answer in plain HTTP.
    if matches!(status.as_u16(), 400 | 404 | 405 | 406 | 415) {
        let text = format!("HTTP {}", status.as_u16());
        return Ok(crate::rpc::error(Some(id), crate::rpc::SERVER_ERROR, &text));
    }
    let what = if status.is_success() { "no JSON-RPC message" } else { "an error" };
    let message = format!("the upstream answered with HTTP {} and {what}", status.as_u16());
    Err(Fault::new(FaultKind::Http, message))
}

/// Refusals say nothing about the protocol.
fn is_refusal(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 403 | 407 | 429)
}

async fn from_stream(body: BoxBody, id: &str) -> Result<String, Fault> {
    let cut = || Fault::new(FaultKind::Closed, "the upstream's stream ended without an answer");
    let mut events = Events::of(body, OWN_MAX);
    loop {
        let event = events.next().await.map_err(|unread| match unread {
            Unread::Cut => cut(),
            Unread::TooLong => too_large(OWN_MAX),
        })?;
        let text = sse::data(&event.ok_or_else(cut)?);
        if let Some(text) = text.filter(|text| is_answer(text, id)) {
            return Ok(text);
        }
    }
}

/// Also an error under a foreign id: one POST has one answer.
fn is_answer(text: &str, id: &str) -> bool {
    sse::answers(text, id) || Message::parse(text.as_bytes()).is_ok_and(|m| m.error.is_some())
}

/// Reads a body of at most `max` bytes.
pub(crate) async fn read_whole(mut body: BoxBody, max: usize) -> Result<Bytes, Fault> {
    // What is announced is still not believed beyond a limit before it comes.
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(0);
    let mut whole = Vec::with_capacity(announced.min(max).min(4 * 1024 * 1024));
    while let Some(frame) = body.frame().await {
        let cut = |_| Fault::new(FaultKind::Closed, "the upstream's answer was cut off");
        let frame = frame.map_err(cut)?;
        whole.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        if whole.len() > max {
            return Err(too_large(max));
        }
    }
    Ok(whole.into())
}

fn too_large(max: usize) -> Fault {
    let mib = max / 1024 / 1024;
    Fault::new(FaultKind::Protocol, format!("the upstream's answer is larger than {mib} MiB"))
}

/// The status, when the upstream refused our session, which proves that the request was not carried
/// out: 404, or 400 with words about the session.
pub(crate) async fn refused_session(
    response: Reply,
    session: Option<&str>,
) -> Result<Result<Reply, u16>, Fault> {
    let status = response.status();
    let (parts, incoming) = response.into_parts();
    if session.is_none() || !matches!(status.as_u16(), 400 | 404) {
        return Ok(Ok(Response::from_parts(parts, incoming)));
    }
    let body = read_whole(incoming, OWN_MAX).await?;
    let words = String::from_utf8_lossy(&body).to_ascii_lowercase();
    let message = Message::parse(&body).ok();
    // An answer to the request itself may come of its having been carried out.
    let answers = message.as_ref().is_some_and(|m| m.id.is_some_and(|id| id != "null"));
    let code = message.and_then(|m| Object::of(m.error).get("code").map(|c| c.trim().to_owned()));
    let is_lost = match (status, code.as_deref()) {
        (_, Some("-32601")) => false,
        (StatusCode::NOT_FOUND, code) => !answers || code.is_some_and(|code| code == "-32001"),
        _ => !answers && words.contains("session"),
    };
    if is_lost {
        return Ok(Err(status.as_u16()));
    }
    Ok(Ok(Response::from_parts(parts, body::full(body))))
}
