//! A session client in front of an upstream that speaks the stateless protocol alone.
//!
//! Invariant: the client sees a server of its own protocol; what that keeps for a session is kept
//! here, and what the upstream asks reaches the client as requests.
//! Deliberately absent: tasks, which are another protocol on each side; the other direction.

mod leg;
mod listen;
mod questions;
mod relay;
mod talk;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, StatusCode};
use mws_catalog::json;

pub(crate) use listen::Heard;
pub(crate) use talk::Talk;
pub(crate) use wire::{initialize_result, strict_tools};

use crate::call::OpenCall;
use crate::caller::Caller;
use crate::fault::Fault;
use crate::forward::Outgoing;
use crate::handshake::{Opened, open_late};
use crate::lock::lock;
use crate::proxy::Proxy;
use crate::reply::{self, Reply};
use crate::rpc::{self, Era, Message};
use crate::severity::{self, Severity};
use crate::upstream::Link;

/// How long a subscription may take to be agreed to.
const PATIENCE: Duration = Duration::from_secs(5);

impl Proxy {
    /// The session of a client whose protocol the upstream does not speak.
    ///
    /// # Errors
    /// When the upstream cannot be reached, so that this is not known.
    pub(crate) async fn bridged(&self, caller: &Caller) -> Result<Option<Arc<Talk>>, Fault> {
        if caller.era == Era::Modern {
            return Ok(None);
        }
        let own = caller.session_id.as_deref().and_then(|id| self.sessions.own(id));
        let http = match self.upstream.link() {
            Link::Http(http) => http,
            Link::Stdio(stdio)
                if caller.session_id.as_deref().is_some_and(|id| stdio.owns.get(id).is_some()) =>
            {
                return Ok(None);
            }
            Link::Stdio(stdio) => {
                let is_stateless = stdio.conn(Era::Session).await?.1.era == Era::Modern;
                return Ok(is_stateless.then(|| own.map_or_else(Talk::unknown, |own| own.talk())));
            }
        };
        let Some(own) = own else { return Ok(http.is_stateless().then(Talk::unknown)) };
        if http.is_stateless() {
            return Ok(Some(own.talk()));
        }
        if let Some(talk) = own.talk.get() {
            return Ok(Some(Arc::clone(talk)));
        }
        let mut upstream = own.upstream.lock().await;
        if upstream.is_some() {
            return Ok(None);
        }
        match open_late(http, &own.initialize).await? {
            Opened::Session(id) => *upstream = Some(id),
            Opened::Refused(fault) => {
                if let Link::Stdio(_) = self.upstream.settled().await? {
                    return Ok(None);
                }
                let shaken = http.handshake().await?;
                return if shaken.era == Era::Modern { Ok(Some(own.talk())) } else { Err(fault) };
            }
        }
        Ok(None)
    }

    /// Answers a request of such a client.
    pub(crate) async fn over_session_bridge(
        self: &Arc<Self>,
        talk: Arc<Talk>,
        out: Outgoing,
        call: Option<OpenCall>,
    ) -> Reply {
        let id = out.id.clone();
        let Ok(message) = Message::parse(out.text.as_bytes()) else {
            return refuse(&id, rpc::INVALID_REQUEST, "the body is not a JSON object");
        };
        match out.method.as_str() {
            "ping" => return done(&id),
            "logging/setLevel" => return set_level(&talk, &message, &id),
            "resources/subscribe" => return self.subscribe(&talk, &message, &id).await,
            "resources/unsubscribe" => return unsubscribe(&talk, &message, &id),
            method if method.starts_with("tasks/") || method == "subscriptions/listen" => {
                let why = format!("{method} does not exist on this server");
                return refuse(&id, rpc::METHOD_NOT_FOUND, &why);
            }
            // Its parameters may have to be repeated in headers, which the list tells.
            "tools/call" if self.shelf.last().is_none() => {
                let _ = self.shelf.get(Era::Session).await;
            }
            _ => {}
        }
        let level = *lock(&talk.log_level);
        match wire::to_stateless(&message, &talk.client, level) {
            Some(request) => relay::relay(Arc::clone(self), talk, out, request, call).await,
            None => refuse(&id, rpc::INVALID_PARAMS, "params must be an object"),
        }
    }

    /// The stream of such a session, or its end.
    pub(crate) fn bridged_stream(
        self: &Arc<Self>,
        talk: &Arc<Talk>,
        method: &Method,
        session: &str,
    ) -> Reply {
        if method == Method::DELETE {
            self.sessions.close(session);
            talk.end(&self.streams);
            return reply::empty(StatusCode::OK);
        }
        let stream = talk.outbox.open(&self.streams);
        listen::ensure(self, talk);
        stream
    }

    async fn subscribe(
        self: &Arc<Self>,
        talk: &Arc<Talk>,
        message: &Message<'_>,
        id: &str,
    ) -> Reply {
        let Some(uri) = uri(message) else {
            return refuse(id, rpc::INVALID_PARAMS, "uri must be a string");
        };
        if talk.heard.borrow().refusal.is_some() {
            talk.heard.send_replace(Heard::default());
        }
        let mut heard = talk.heard.subscribe();
        talk.uris.send_if_modified(|uris| uris.insert(uri.clone()));
        listen::ensure(self, talk);
        let agreed = heard.wait_for(|heard| heard.asked.contains(&uri));
        let heard = match tokio::time::timeout(PATIENCE, agreed).await {
            Ok(Ok(heard)) => heard.clone(),
            _ => Heard::default(),
        };
        if let Some(error) = heard.refusal {
            talk.uris.send_if_modified(|uris| uris.remove(&uri));
            let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}");
            return reply::json(200, text);
        }
        if heard.granted.is_some_and(|granted| !granted.contains(&uri)) {
            talk.uris.send_if_modified(|uris| uris.remove(&uri));
            let why = "the server does not tell when this resource changes";
            return refuse(id, rpc::INVALID_PARAMS, why);
        }
        done(id)
    }
}

/// Takes in what such a client does not wait for.
pub(crate) fn told_over_session_bridge(talk: &Talk, message: &Message<'_>) {
    match message.method.as_deref() {
        None => talk.answer(message),
        Some("notifications/cancelled") => {
            let params = message.params();
            talk.cancel(json::get(params, "requestId").unwrap_or_default());
        }
        // The stateless protocol has no other notification of the client's.
        Some(_) => {}
    }
}

fn unsubscribe(talk: &Talk, message: &Message<'_>, id: &str) -> Reply {
    let Some(uri) = uri(message) else {
        return refuse(id, rpc::INVALID_PARAMS, "uri must be a string");
    };
    talk.uris.send_if_modified(|uris| uris.remove(&uri));
    done(id)
}

fn set_level(talk: &Talk, message: &Message<'_>, id: &str) -> Reply {
    match json::get(message.params(), "level").and_then(Severity::parse) {
        Some(level) => {
            *lock(&talk.log_level) = Some(level);
            done(id)
        }
        None => {
            let why = format!("level must be one of {}", severity::WORDS.join(", "));
            refuse(id, rpc::INVALID_PARAMS, &why)
        }
    }
}

fn uri(message: &Message<'_>) -> Option<String> {
    let params = message.params();
    json::get(params, "uri").and_then(json::string).map(std::borrow::Cow::into_owned)
}

fn done(id: &str) -> Reply {
    reply::json(200, rpc::result(id, "{}"))
}

fn refuse(id: &str, code: i64, why: &str) -> Reply {
    reply::json(200, rpc::error(Some(id), code, why))
}
