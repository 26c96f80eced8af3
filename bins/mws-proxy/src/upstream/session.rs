//! Opening a session: `initialize` and what follows, over whatever carries it.
//!
//! Invariant: the `initialize` is sent as given and its result kept as sent.
//! Deliberately absent: finding out the era; see [`crate::control`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode, Uri};

use crate::caller::SESSION_ID;
use crate::control::{Handshake, INITIALIZED};
use crate::edit::quote;
use crate::events::Events;
use crate::fault::{Fault, FaultKind};
use crate::headers;
use crate::reply::{self, Reply};
use crate::rpc::Message;
use crate::sse;
use crate::upstream::answer::answer_in;
use crate::upstream::asks::Whom;
use crate::upstream::client_info;
use crate::upstream::conn::Conn;
use crate::upstream::http::{Sender, own_headers};
use crate::upstream::mux::Notices;
use crate::upstream::post::Post;
use crate::upstream::stdio::Open;

/// For each step.
const STEP: Duration = Duration::from_secs(30);
/// For the first event of a stream.
const GREETING: Duration = Duration::from_secs(5);
const EVENT_MAX: usize = 64 * 1024;

/// An `initialize` of our own on behalf of a client with these capabilities.
pub(crate) fn initialize(version: &str, capabilities: &str) -> String {
    let (version, info) = (quote(version), client_info());
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{{\
         \"protocolVersion\":{version},\"capabilities\":{capabilities},\"clientInfo\":{info}}}}}"
    )
}

/// Opens a session over Streamable HTTP.
pub(super) async fn open(
    sender: &Sender,
    lent: Option<HeaderValue>,
    initialize: &str,
    whom: Whom,
    notices: Notices,
) -> Result<Open, Fault> {
    let headers = own_headers(initialize, None, None, lent.clone());
    let response =
        sender.send(Method::POST, headers, initialize.to_owned().into(), Some(STEP)).await?;
    let session = headers::text(response.headers(), SESSION_ID);
    let session = session.map(str::to_owned);
    let answer = tokio::time::timeout(STEP, answer_in(response, &id_of(initialize))).await;
    let shaken = shaken(&answer.map_err(|_| Fault::silent(STEP))??)?;
    let headers = own_headers(INITIALIZED, session.as_deref(), Some(&shaken.version), lent);
    let sent = sender.send(Method::POST, headers.clone(), INITIALIZED.into(), Some(STEP)).await?;
    drop(sent);
    let post = Post::new(sender.clone(), headers, session);
    Ok((Conn::over_http(post, whom, notices), Arc::new(shaken)))
}

/// Opens a session in a conversation that is there already.
pub(super) async fn greet(conn: &Conn, initialize: &str) -> Result<Handshake, Fault> {
    let answer = tokio::time::timeout(STEP, conn.ask(initialize)).await;
    let shaken = shaken(&answer.map_err(|_| Fault::silent(STEP))??)?;
    if let Ok(initialized) = Message::parse(INITIALIZED.as_bytes()) {
        conn.notify(&initialized, "own").await;
    }
    Ok(shaken)
}

/// Connects over the older transport: a stream, whose first event says where messages go.
pub(super) async fn connect_sse(
    sender: &Sender,
    whom: Whom,
    notices: &Notices,
) -> Result<Arc<Conn>, Fault> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let response = sender.send(Method::GET, headers, Bytes::new(), Some(GREETING)).await?;
    let status = response.status();
    if !status.is_success() || !reply::is_stream(response.headers()) {
        let what = format!("the upstream answered a GET with HTTP {}", status.as_u16());
        return Err(Fault::new(FaultKind::Http, format!("{what} and no event stream")));
    }
    let mut events = Events::of(response.into_body(), EVENT_MAX);
    let greeting = tokio::time::timeout(GREETING, endpoint(&mut events)).await;
    let target = greeting.map_err(|_| Fault::silent(GREETING))??;
    let sender =
        resolve(sender.uri(), &target).and_then(|uri| sender.at(uri)).ok_or_else(|| {
            Fault::new(FaultKind::Protocol, "the upstream sends messages to another host")
        })?;
    let post = Post::new(sender, HeaderMap::new(), None);
    Ok(Conn::following(post, whom, Arc::clone(notices), events))
}

/// The first event, which must be `endpoint`.
async fn endpoint(events: &mut Events) -> Result<String, Fault> {
    let unfit = || Fault::new(FaultKind::Protocol, "the upstream's stream names no endpoint");
    loop {
        let event = events.next().await.ok().flatten().ok_or_else(unfit)?;
        match (sse::field(&event, "event").as_deref(), sse::data(&event)) {
            (Some("endpoint"), Some(target)) => return Ok(target),
            (_, Some(_)) => return Err(unfit()),
            (_, None) => {}
        }
    }
}

/// The URL of `target` as seen from `base`; none on another host.
fn resolve(base: &Uri, target: &str) -> Option<Uri> {
    let target = target.trim();
    if target.contains("://") {
        let uri: Uri = target.parse().ok()?;
        let same = uri.scheme() == base.scheme() && uri.authority() == base.authority();
        return same.then_some(uri);
    }
    let path = if target.starts_with("//") {
        return None;
    } else if target.starts_with('/') {
        target.to_owned()
    } else if target.starts_with('?') {
        format!("{}{target}", base.path())
    } else {
        let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{folder}/{target}")
    };
    let mut parts = base.clone().into_parts();
    parts.path_and_query = Some(path.parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// True for the statuses of a URL that takes no POST. A refusal of the client, a limit or a
/// failure says nothing of what the upstream speaks.
pub(super) fn refuses_post(response: &Reply) -> bool {
    let said = reply::is_json(response);
    let status = response.status();
    let no_post = [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED];
    !said && no_post.contains(&status)
}

fn shaken(answer: &str) -> Result<Handshake, Fault> {
    let unfit = |why: &str| Fault::new(FaultKind::Protocol, why);
    let message = Message::parse(answer.as_bytes()).map_err(|why| unfit(&why))?;
    let result = message.result.ok_or_else(|| unfit("the upstream refused to open a session"))?;
    let shaken = Handshake::of_session(result);
    shaken.ok_or_else(|| unfit("the upstream named no protocol version"))
}

fn id_of(text: &str) -> String {
    Message::parse(text.as_bytes()).ok().and_then(|m| m.id).unwrap_or("0").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_resolved_on_the_same_host_only() {
        let base: Uri = "http://127.0.0.1:3001/a/sse?k=1".parse().expect("a URL");
        for (target, want) in [
            ("/message?sessionId=1", Some("http://127.0.0.1:3001/message?sessionId=1")),
            ("message?s=1", Some("http://127.0.0.1:3001/a/message?s=1")),
            ("?s=1", Some("http://127.0.0.1:3001/a/sse?s=1")),
            ("http://127.0.0.1:3001/m", Some("http://127.0.0.1:3001/m")),
            ("http://127.0.0.1:3002/m", None),
            ("https://127.0.0.1:3001/m", None),
            ("//evil.example/m", None),
        ] {
            let got = resolve(&base, target).map(|uri| uri.to_string());
            assert_eq!(got.as_deref(), want, "{target}");
        }
    }
}
