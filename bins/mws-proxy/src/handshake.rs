//! `initialize` and `server/discover`: passed on where the upstream is there, answered from memory
//! where it is not.
//!
//! Invariant: a client gets an answer also while the upstream is down; its session is opened at the
//! first request that needs the upstream.
//! Deliberately absent: the proxy's own handshake; see [`crate::control`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::{HeaderMap, Method};
use mws_catalog::json;

use crate::body::{self, BoxBody, Rewritten};
use crate::bridge;
use crate::caller::{Caller, PROTOCOL_VERSION, SESSION_ID};
use crate::can::Can;
use crate::control::{Handshake, INITIALIZED, SESSION_VERSION, session_version};
use crate::edit::Edits;
use crate::events::Events;
use crate::fault::{Fault, FaultKind};
use crate::forward::Outgoing;
use crate::headers;
use crate::memory::Memory;
use crate::proxy::Proxy;
use crate::reply::{self, Reply};
use crate::rpc::{self, Era, Message};
use crate::session_bridge::initialize_result;
use crate::sse;
use crate::stateless;
use crate::upstream::{Http, Link, Own, Stdio, answer_in, client_info, read_whole};

const BODY_MAX: usize = 16 * 1024 * 1024;
/// How long a client waits for an upstream that is known.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it waits for a process that was never seen to start.
const FIRST_PATIENCE: Duration = Duration::from_secs(30);

impl Proxy {
    /// Answers `initialize`.
    pub(crate) async fn initialize(
        self: &Arc<Self>,
        headers: HeaderMap,
        message: &Message<'_>,
        caller: Caller,
    ) -> Reply {
        let started = Instant::now();
        let id = message.id.unwrap_or("null");
        let answer = async {
            match self.upstream.link() {
                Link::Http(http) => self.initialize_http(http, headers, message, &caller).await,
                Link::Stdio(stdio) => self.initialize_process(stdio, message, &caller).await,
            }
        };
        let answered = self.in_time(answer).await;
        answered.unwrap_or_else(|fault| {
            self.upstream_failed("connect", &fault, started);
            let known = self.upstream.memory.entry();
            let result = match (known.initialize, known.discover) {
                (Some(raw), _) => raw.get().to_owned(),
                (None, Some(raw)) => initialize_result(raw.get()),
                (None, None) => bridge::unknown_server(),
            };
            let result = bridge::in_version_of(&result, message);
            let sessions =
                matches!(self.upstream.link(), Link::Stdio(stdio) if !stdio.is_stateless());
            let own = sessions && !Can::of_initialize(message).is_nothing();
            let own = own.then(|| self.upstream.own(as_ours(message)));
            self.opened(message, id, &result, &caller, own)
        })
    }

    /// Waits for the upstream as long as a client would: a shorter time when what it would say is
    /// known, a longer one for a process that is started for the first time.
    async fn in_time<T>(&self, answer: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let known = self.upstream.memory.entry();
        let is_known = known.initialize.is_some() || known.discover.is_some();
        let first_start = matches!(self.upstream.link(), Link::Stdio(_)) && !is_known;
        let patience = if first_start { FIRST_PATIENCE } else { PATIENCE };
        let answer = tokio::time::timeout(patience, answer).await;
        answer.unwrap_or_else(|_| Err(Fault::silent(patience)))
    }

    /// A session of our own in front of an upstream that said this of itself.
    fn own_session(
        &self,
        message: &Message<'_>,
        id: &str,
        shaken: &Handshake,
        caller: &Caller,
    ) -> Reply {
        if shaken.era == Era::Session {
            let result = bridge::in_version_of(&shaken.result, message);
            return self.opened(message, id, &result, caller, None);
        }
        let result = bridge::in_version_of(&initialize_result(&shaken.result), message);
        let reply = self.opened(message, id, &result, caller, None);
        let session = headers::text(reply.headers(), SESSION_ID);
        if let Some(own) = session.and_then(|session| self.sessions.own(session)) {
            own.talk();
        }
        reply
    }

    /// Answers `initialize` under a session id of ours; `own` is the session's own process.
    fn opened(
        &self,
        message: &Message<'_>,
        id: &str,
        result: &str,
        caller: &Caller,
        own: Option<Arc<Own>>,
    ) -> Reply {
        let session = self.sessions.open(&caller.client, message.text);
        if let (Link::Stdio(stdio), Some(own)) = (self.upstream.link(), own) {
            stdio.owns.insert(&session, own);
        }
        let result = bridge::with_ours(result, &self.instructions());
        reply::with_session(reply::json(200, rpc::result(id, &result)), &session)
    }

    /// Opens a session in the process that sessions share, or in one of its own for a client that
    /// the upstream may ask something.
    async fn initialize_process(
        self: &Arc<Self>,
        stdio: &Arc<Stdio>,
        message: &Message<'_>,
        caller: &Caller,
    ) -> Result<Reply, Fault> {
        let id = message.id.unwrap_or("null");
        if !Can::of_initialize(message).is_nothing() && !stdio.is_stateless() {
            let own = self.upstream.own(as_ours(message));
            match own.open(stdio).await {
                Err(fault) if fault.kind == FaultKind::Protocol => {}
                opened => {
                    let (_, shaken) = opened?;
                    self.upstream.memory.keep(&shaken, false);
                    return Ok(self.opened(message, id, &shaken.result, caller, Some(own)));
                }
            }
        }
        let (_, shaken) = stdio.conn(Era::Session).await?;
        Ok(self.own_session(message, id, &shaken, caller))
    }

    async fn initialize_http(
        self: &Arc<Self>,
        http: &Http,
        headers: HeaderMap,
        message: &Message<'_>,
        caller: &Caller,
    ) -> Result<Reply, Fault> {
        let id = message.id.unwrap_or("null");
        if http.is_stateless() {
            let shaken = http.handshake().await?;
            return Ok(self.own_session(message, id, &shaken, caller));
        }
        let sent = http.send(Method::POST, http.forwarded(&headers), as_ours(message).into());
        let response = sent.await?;
        if response.status().is_server_error() {
            let status = response.status().as_u16();
            return Err(Fault::new(
                FaultKind::Http,
                format!("the upstream answered with HTTP {status}"),
            ));
        }
        let (response, refused) = refuses_sessions(response).await?;
        // What is wrong with the request itself says nothing of sessions.
        if refused
            && is_whole(message)
            && let Ok(link) = self.upstream.settled().await
        {
            if let Link::Stdio(stdio) = link {
                return self.initialize_process(stdio, message, caller).await;
            }
            let shaken = http.handshake().await?;
            if shaken.era == Era::Modern {
                return Ok(self.own_session(message, id, &shaken, caller));
            }
        }
        let session = headers::text(response.headers(), SESSION_ID);
        if let Some(session) = session {
            self.sessions.remember(session, &caller.client);
        }
        self.learn(response, id).await
    }

    /// Answers `server/discover`.
    pub(crate) async fn discover(
        self: &Arc<Self>,
        headers: HeaderMap,
        message: &Message<'_>,
        id: &str,
        caller: Caller,
    ) -> Reply {
        let started = Instant::now();
        let refusal = stateless::refusal(message, &caller);
        let own = |result: &str| refusal.unwrap_or_else(|| self.discovered(id, result));
        let shaken = self.in_time(self.upstream.handshake(Era::Modern)).await;
        let fault = match shaken.map(|shaken| (self.upstream.link(), shaken)) {
            Ok((_, shaken)) if shaken.era == Era::Session => {
                return own(&bridge::discover_result(&shaken.result));
            }
            Ok((Link::Stdio(_), shaken)) => return own(&shaken.result),
            Ok((Link::Http(http), _)) => {
                match self.discover_over(http, headers, message, caller).await {
                    Ok(reply) => return reply,
                    Err(fault) => fault,
                }
            }
            Err(fault) => fault,
        };
        self.upstream_failed("connect", &fault, started);
        let known = self.upstream.memory.entry();
        let result = match (known.discover, known.initialize) {
            (Some(raw), _) => raw.get().to_owned(),
            (None, Some(raw)) => bridge::discover_result(raw.get()),
            (None, None) => bridge::discover_result(&bridge::unknown_server()),
        };
        own(&result)
    }

    fn discovered(&self, id: &str, result: &str) -> Reply {
        let result = bridge::with_ours(result, &self.instructions());
        reply::json(200, rpc::result(id, &result))
    }

    async fn discover_over(
        self: &Arc<Self>,
        http: &Http,
        headers: HeaderMap,
        message: &Message<'_>,
        caller: Caller,
    ) -> Result<Reply, Fault> {
        let mut out = Outgoing::of(message, headers, caller);
        let headers = http.forwarded(&out.headers);
        let sent = http.send(Method::POST, headers, out.take_named().into());
        let response = self.in_time(sent).await?;
        self.learn(response, &out.id).await
    }

    /// Passes a handshake's response on; keeps its result, and adds to it what is the proxy's own.
    async fn learn(&self, response: Reply, id: &str) -> Result<Reply, Fault> {
        let (parts, incoming) = response.into_parts();
        let memory = Arc::clone(&self.upstream.memory);
        let instructions = self.instructions();
        if reply::is_stream(&parts.headers) {
            let id = id.to_owned();
            let rewrite = move |event: Option<Vec<u8>>| {
                let event = event?;
                let text = sse::data(&event).filter(|text| sse::answers(text, &id));
                let edited = text.and_then(|text| keep(&memory, &text, &instructions));
                Some(edited.map_or_else(|| event.clone(), |text| sse::with_data(&event, &text)))
            };
            return Ok(reply::edited(&parts, Rewritten::boxed(incoming, rewrite)));
        }
        let body = read_whole(incoming, BODY_MAX).await?;
        let text = std::str::from_utf8(&body).unwrap_or_default();
        let bytes = keep(&memory, text, &instructions).map_or_else(|| body.clone(), Bytes::from);
        Ok(reply::edited(&parts, body::full(bytes)))
    }
}

/// Remembers the result in `text`; the text with what the proxy adds to it.
fn keep(memory: &Memory, text: &str, instructions: &str) -> Option<String> {
    let message = Message::parse(text.as_bytes()).ok()?;
    let result = message.result?;
    json::members(result)?;
    let shaken = Handshake::of_session(result).unwrap_or_else(|| Handshake::stateless(result));
    memory.keep(&shaken, false);
    let mut edits = Edits::of(text);
    edits.replace(result, bridge::with_ours(result, instructions));
    Some(edits.apply())
}

/// `initialize` with the proxy's own `clientInfo`.
fn as_ours(message: &Message<'_>) -> String {
    let params = message.params();
    let mut edits = Edits::of(message.text);
    if let Some(info) = json::get(params, "clientInfo") {
        edits.replace(info, client_info());
    }
    edits.apply()
}

/// Whether an `initialize` has what every server wants of it.
fn is_whole(initialize: &Message<'_>) -> bool {
    let params = initialize.params();
    ["protocolVersion", "capabilities", "clientInfo"]
        .iter()
        .all(|key| json::get(params, key).is_some_and(|value| value != "null"))
}

/// The response, and whether it says that the upstream has no sessions, which the other protocol
/// must confirm. A refusal of the client itself says nothing of it.
async fn refuses_sessions(response: Reply) -> Result<(Reply, bool), Fault> {
    let status = response.status();
    let (parts, body) = response.into_parts();
    if matches!(status.as_u16(), 401 | 403 | 407 | 429) {
        return Ok((Reply::from_parts(parts, body), false));
    }
    if reply::is_stream(&parts.headers) {
        let (refuses, body) = first_message(body).await;
        return Ok((Reply::from_parts(parts, body), refuses));
    }
    let body = read_whole(body, BODY_MAX).await?;
    let is_error = Message::parse(&body).is_ok_and(|message| message.error.is_some());
    let refuses = is_error || status.is_client_error();
    Ok((Reply::from_parts(parts, body::full(body)), refuses))
}

/// Whether the first response on a stream is an error, and the stream from its beginning.
async fn first_message(body: BoxBody) -> (bool, BoxBody) {
    let (mut events, mut read, mut size) = (Events::of(body, BODY_MAX), Vec::new(), 0);
    let mut answer = None;
    while answer.is_none()
        && size < BODY_MAX
        && let Ok(Some(event)) = events.next().await
    {
        let text = sse::data(&event).unwrap_or_default();
        let message = Message::parse(text.as_bytes()).ok();
        let message = message.filter(|m| m.error.is_some() || m.result.is_some());
        answer = message.map(|message| message.error.is_some());
        size += event.len();
        read.push(Bytes::from(event));
    }
    (answer == Some(true), events.again(read))
}

/// What came of opening the upstream's session.
pub(crate) enum Opened {
    /// Its id, if it has one.
    Session(Option<String>),
    /// The upstream may have no sessions at all.
    Refused(Fault),
}

/// Opens the upstream's session for a client that was answered from memory.
pub(crate) async fn open_late(http: &Http, initialize: &str) -> Result<Opened, Fault> {
    let unfit = |why| Fault::new(FaultKind::Protocol, why);
    let message = Message::parse(initialize.as_bytes()).map_err(unfit)?;
    let mut headers = HeaderMap::new();
    headers::set_kinds(&mut headers);
    let sent = http.send(Method::POST, headers.clone(), as_ours(&message).into());
    let (response, refuses) = refuses_sessions(sent.await?).await?;
    let status = response.status();
    if refuses || !status.is_success() {
        let what = format!("the upstream refused a session with HTTP {}", status.as_u16());
        let fault = Fault::new(FaultKind::Http, what);
        return if refuses { Ok(Opened::Refused(fault)) } else { Err(fault) };
    }
    let id = headers::text(response.headers(), SESSION_ID).map(str::to_owned);
    let answer = answer_in(response, message.id.unwrap_or("null")).await?;
    let shaken = Message::parse(answer.as_bytes()).ok().and_then(|m| m.result);
    let version = shaken.and_then(session_version);
    headers::set(&mut headers, PROTOCOL_VERSION, version.as_deref().unwrap_or(SESSION_VERSION));
    if let Some(id) = &id {
        headers::set(&mut headers, SESSION_ID, id);
    }
    http.send(Method::POST, headers, INITIALIZED.into()).await?;
    Ok(Opened::Session(id))
}
