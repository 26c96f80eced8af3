//! The ways to the upstream: same era as it is, or over the bridge.
//!
//! Invariant: a request leaves here with an answer, an error that says why, or a stream.
//! Deliberately absent: reading results, except for the outcome of a call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Method, StatusCode};
use mws_catalog::json;
use mws_event::Kind;

use crate::body::{Observed, Seen};
use crate::bridge;
use crate::call::OpenCall;
use crate::caller::{Caller, SESSION_ID};
use crate::control::NAME;
use crate::edit::{Edits, quote};
use crate::fault::{Fault, FaultKind};
use crate::handshake::{Opened, open_late};
use crate::headers;
use crate::proxy::{Proxy, accepted};
use crate::reply::{self, Reply};
use crate::rpc::{self, Era, META_CLIENT, Message};
use crate::session_bridge::told_over_session_bridge;
use crate::sessions::Own;
use crate::sse::{self, Splitter};
use crate::tail;
use crate::upstream::{Http, Link, Stdio, refused_session};

/// A request on its way.
pub(crate) struct Outgoing {
    pub(crate) text: String,
    pub(crate) id: String,
    pub(crate) method: String,
    /// The client's headers.
    pub(crate) headers: HeaderMap,
    pub(crate) caller: Caller,
}

impl Outgoing {
    pub(crate) fn of(message: &Message<'_>, headers: HeaderMap, caller: Caller) -> Self {
        Self {
            text: message.text.to_owned(),
            id: message.id.unwrap_or("null").to_owned(),
            method: message.method.as_deref().unwrap_or_default().to_owned(),
            headers,
            caller,
        }
    }

    /// Takes the text, with the client named as reached through this proxy.
    pub(crate) fn take_named(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        if self.caller.era == Era::Session {
            return text;
        }
        named(&text).unwrap_or(text)
    }
}

/// The text with another `clientInfo.name`, if it has one.
fn named(text: &str) -> Option<String> {
    let message = Message::parse(text.as_bytes()).ok()?;
    let meta = message.meta();
    let info = json::members(json::get(&meta, META_CLIENT)?)?;
    let name = json::get(&info, "name")?;
    let mut edits = Edits::of(text);
    edits.replace(name, quote(&format!("{NAME}/{}", json::string(name)?)));
    Some(edits.apply())
}

impl Proxy {
    /// Sends a request on and passes its response back.
    pub(crate) async fn forward(
        self: &Arc<Self>,
        mut out: Outgoing,
        call: Option<OpenCall>,
    ) -> Reply {
        let started = std::time::Instant::now();
        let era = match self.bridged(&out.caller).await {
            Err(fault) => Err(fault),
            Ok(Some(talk)) => return self.over_session_bridge(talk, out, call).await,
            Ok(None) => self.upstream.era_for(out.caller.era).await,
        };
        let sent = match era {
            Err(fault) => Err(fault),
            Ok(era) => match (self.upstream.link(), out.caller.era, era) {
                (_, Era::Modern, Era::Session) => self.cross(&out, call).await,
                (Link::Http(http), ..) => self.to_http(http, &mut out, call).await,
                (Link::Stdio(stdio), client, _) => to_process(stdio, &mut out, client, call).await,
            },
        };
        match sent {
            Ok(reply) => {
                if reply.status().is_success() {
                    self.shelf.upstream_answered();
                }
                reply
            }
            Err(fault) => {
                self.upstream_failed("forward", &fault, started);
                reply::failed(Some(&out.id), &fault)
            }
        }
    }

    /// Sends on what nobody waits for: a notification, or an answer to a request of the upstream.
    pub(crate) async fn tell(
        self: &Arc<Self>,
        headers: HeaderMap,
        message: &Message<'_>,
        caller: &Caller,
    ) -> Reply {
        if let Ok(Some(talk)) = self.bridged(caller).await {
            told_over_session_bridge(&talk, message);
            return accepted();
        }
        match self.upstream.link() {
            Link::Http(http) => self.tell_http(http, headers, message, caller).await,
            Link::Stdio(stdio) => {
                // The handshake with a process is the proxy's own.
                let passes = message.method.as_deref() != Some("notifications/initialized");
                let own = caller.session_id.as_deref().and_then(|id| stdio.owns.get(id));
                let conn = match own {
                    Some(own) => own.open(stdio).await,
                    None => stdio.any_conn(caller.era).await,
                };
                if passes && let Ok((conn, _)) = conn {
                    conn.notify(message, owner(caller)).await;
                }
                accepted()
            }
        }
    }

    async fn tell_http(
        self: &Arc<Self>,
        http: &Http,
        headers: HeaderMap,
        message: &Message<'_>,
        caller: &Caller,
    ) -> Reply {
        let started = std::time::Instant::now();
        let bridged = caller.era == Era::Modern
            && http.handshake().await.is_ok_and(|shaken| shaken.era == Era::Session);
        if bridged {
            return accepted();
        }
        let own = caller.session_id.as_deref().and_then(|id| self.sessions.own(id));
        if own.is_some() && message.method.as_deref() == Some("notifications/initialized") {
            return accepted();
        }
        let mut out = Outgoing::of(message, headers, caller.clone());
        let sent = self.to_http(http, &mut out, None).await;
        sent.unwrap_or_else(|fault| {
            self.upstream_failed("forward", &fault, started);
            reply::empty(StatusCode::BAD_GATEWAY)
        })
    }

    /// Same era over HTTP: bytes out, bytes back.
    pub(crate) async fn to_http(
        self: &Arc<Self>,
        http: &Http,
        out: &mut Outgoing,
        call: Option<OpenCall>,
    ) -> Result<Reply, Fault> {
        let started = std::time::Instant::now();
        let body = Bytes::from(out.take_named());
        for attempt in 0..2 {
            let mut headers = http.forwarded(&out.headers);
            let own = self.use_upstream_session(http, &out.caller, &mut headers).await?;
            let response = http.send(Method::POST, headers, body.clone()).await?;
            let response = match &own {
                None => response,
                // The client cannot know that the session behind ours was lost.
                Some((own, id)) => match refused_session(response, id.as_deref()).await? {
                    Ok(response) => response,
                    Err(_) if attempt == 0 => {
                        *own.upstream.lock().await = None;
                        continue;
                    }
                    Err(status) => return Err(refused(status)),
                },
            };
            self.note_refusal(&response, started);
            let response = tail::settled(no_page(response, out)?).await?;
            let silence = silence(&out.method, http.timeout());
            return Ok(reply::passed(response, &out.id, call, silence, &self.shelf));
        }
        Err(Fault::new(FaultKind::Http, "the upstream dropped its session twice"))
    }

    /// Records an answer that says more of the upstream's state than of the request.
    pub(crate) fn note_refusal(&self, response: &Reply, since: std::time::Instant) {
        let status = response.status();
        if status.is_server_error() || matches!(status.as_u16(), 401 | 403) {
            let what = format!("the upstream answered with HTTP {}", status.as_u16());
            self.upstream_failed("forward", &Fault::new(FaultKind::Http, what), since);
        }
    }

    /// Puts the upstream's session in the place of one that the proxy opened for the client.
    pub(crate) async fn use_upstream_session(
        self: &Arc<Self>,
        http: &Http,
        caller: &Caller,
        headers: &mut HeaderMap,
    ) -> Result<Option<(Arc<Own>, Option<String>)>, Fault> {
        let own = caller.session_id.as_deref().and_then(|id| self.sessions.own(id));
        let Some(own) = own else { return Ok(None) };
        let id = {
            let mut upstream = own.upstream.lock().await;
            match &*upstream {
                Some(id) => id.clone(),
                None => match open_late(http, &own.initialize).await? {
                    Opened::Session(opened) => upstream.insert(opened).clone(),
                    Opened::Refused(fault) => return Err(fault),
                },
            }
        };
        headers.remove(SESSION_ID);
        if let Some(id) = &id {
            headers::set(headers, SESSION_ID, id);
        }
        Ok(Some((own, id)))
    }

    pub(crate) fn upstream_failed(&self, op: &str, fault: &Fault, since: std::time::Instant) {
        tracing::warn!("The upstream failed: {fault}.");
        let ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.record(Kind::UpstreamFailed { op: op.into(), kind: fault.kind.word().into(), ms });
    }

    /// A session's own stream, passed on; the upstream may say there that its tools changed.
    pub(crate) fn watched(self: &Arc<Self>, response: Reply) -> Reply {
        let (parts, incoming) = response.into_parts();
        if !reply::is_stream(&parts.headers) {
            return reply::like(&parts, incoming);
        }
        let shelf = Arc::clone(&self.shelf);
        let mut splitter = Splitter::default();
        let watch = move |seen: Seen<'_>| {
            let Seen::Data(data) = seen else { return };
            splitter.each(data, |event| {
                if sse::data(&event).is_some_and(|text| rpc::says_tools_changed(&text)) {
                    shelf.mark_stale();
                }
            });
        };
        reply::like(&parts, Observed::boxed(incoming, watch))
    }
}

/// Over a process's pipe, in the client's era.
async fn to_process(
    stdio: &Arc<Stdio>,
    out: &mut Outgoing,
    client: Era,
    call: Option<OpenCall>,
) -> Result<Reply, Fault> {
    let (conn, _) = stdio.conn_for(out.caller.session_id.as_deref(), client).await?;
    let text = out.take_named();
    let pending = conn.request(&text, owner(&out.caller), Some(client)).await?;
    let edit = move |text: &str| match client {
        Era::Modern => (bridge::status_of(text), text.to_owned()),
        Era::Session => (200, text.to_owned()),
    };
    let silence = silence(&out.method, stdio.timeout);
    reply::from_process(pending, &out.id, call, silence, edit).await
}

/// How long nothing may come for a request. What listens may have nothing to hear for as long as
/// the client likes.
fn silence(method: &str, limit: Duration) -> Duration {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    if method == "subscriptions/listen" { YEAR } else { limit }
}

/// The response, unless it is a page where a message was due: clients cannot read it.
fn no_page(response: Reply, out: &Outgoing) -> Result<Reply, Fault> {
    let status = response.status();
    let readable = reply::is_json(&response) || reply::is_stream(response.headers());
    let about_session = status.is_client_error() && !matches!(status.as_u16(), 401 | 403 | 429);
    // Nothing is due to a notification, nor to an answer of the client.
    let is_due = out.id != "null" && !out.method.is_empty();
    if readable || about_session || !is_due {
        return Ok(response);
    }
    let kind = headers::text(response.headers(), CONTENT_TYPE);
    let kind = kind.map_or("no content type", |kind| kind.get(..60).unwrap_or(kind));
    let what = format!("the upstream answered with HTTP {} and {kind}", status.as_u16());
    Err(Fault::new(FaultKind::Http, what))
}

fn refused(status: u16) -> Fault {
    let what = format!("the upstream refused its own session with HTTP {status}");
    Fault::new(FaultKind::Http, what)
}

/// Whose request it is on a shared pipe.
fn owner(caller: &Caller) -> &str {
    caller.session_id.as_deref().unwrap_or_default()
}
