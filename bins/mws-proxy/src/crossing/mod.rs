//! Stateless clients in front of an upstream that speaks sessions.
//!
//! Invariant: a request is answered or refused, never left open; what the upstream asks in between
//! reaches the client whose request it is, and nobody else.
//! Deliberately absent: how messages are translated; see [`crate::bridge`].

mod flight;
mod lanes;
mod listen;
mod parked;

use std::sync::Arc;
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use mws_catalog::json;

use crate::bridge;
use crate::call::OpenCall;
use crate::can::Can;
use crate::edit::Object;
use crate::fault::{Fault, FaultKind};
use crate::forward::Outgoing;
use crate::headers;
use crate::proxy::Proxy;
use crate::reply::{self, Reply};
use crate::rpc::{self, META_CAPABILITIES, META_CLIENT, META_LOG_LEVEL, Message, Outcome};
use crate::severity::Severity;
use crate::stateless;
use crate::upstream::{Link, Notices, Terms};

use flight::{Flight, digest};
use lanes::Lanes;
pub(crate) use listen::Listeners;
use parked::{Parked, Waits};

/// The requests in whose course a client may be asked.
const ASKING: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

/// What is kept between the requests of stateless clients.
pub(crate) struct Crossing {
    lanes: Lanes,
    parked: Arc<Parked>,
    pub(crate) listeners: Arc<Listeners>,
}

impl Crossing {
    /// `watch` sees what the upstream says to nobody; a client has `patience` to answer.
    pub(crate) fn new(watch: Notices, listeners: Arc<Listeners>, patience: Duration) -> Self {
        let lanes = Lanes::new(watch, Arc::clone(&listeners));
        Self { lanes, parked: Arc::new(Parked::new(patience)), listeners }
    }
}

impl Proxy {
    /// Sends a stateless request to an upstream with sessions.
    pub(crate) async fn cross(
        self: &Arc<Self>,
        out: &Outgoing,
        call: Option<OpenCall>,
    ) -> Result<Reply, Fault> {
        let message = Message::parse(out.text.as_bytes()).map_err(unfit)?;
        if let Some(refusal) = stateless::refusal(&message, &out.caller) {
            return Ok(refusal);
        }
        if bridge::is_refused(&out.method) {
            let what = format!("{} does not exist on this server", out.method);
            let error = rpc::error(Some(&out.id), rpc::METHOD_NOT_FOUND, &what);
            return Ok(reply::json(404, error));
        }
        if out.method == "subscriptions/listen" {
            return self.listen(out, &message).await;
        }
        let params = message.params();
        match json::get(params, "requestState") {
            Some(handle) if ASKING.contains(&out.method.as_str()) => {
                self.resume(handle, out, &message, call).await
            }
            _ => self.depart(out, &message, call).await,
        }
    }

    /// The client's headers that the upstream gets.
    fn passed_on(&self, out: &Outgoing) -> HeaderMap {
        match self.upstream.link() {
            Link::Http(http) => http.forwarded(&out.headers),
            Link::Stdio(_) => headers::forwarded(&out.headers),
        }
    }

    /// Sends a request on its way; a second time when the session was lost before it was read.
    async fn depart(
        self: &Arc<Self>,
        out: &Outgoing,
        message: &Message<'_>,
        call: Option<OpenCall>,
    ) -> Result<Reply, Fault> {
        let text = bridge::to_session(message);
        let headers = self.passed_on(out);
        let client = Client::of(message, out, &headers);
        let mut again = true;
        let (conn, pending) = loop {
            let lane = self.crossing.lanes.of(&client.key(), &self.upstream);
            let (conn, shaken) = lane.open(&self.upstream, &client.can.to_json()).await?;
            if let Some(level) = client.level {
                lane.lower(&conn, &shaken, level).await;
            }
            let terms = Terms {
                owner: String::new(),
                cancels: true,
                asks: ASKING.contains(&out.method.as_str()),
                level: client.level,
            };
            match conn.request_on(&text, terms, headers.clone()).await {
                Err(fault) if fault.kind == FaultKind::Expired && again => again = false,
                sent => break (conn, sent?),
            }
        };
        let digest = digest(message, &out.caller.client);
        let (id, method) = (out.id.clone(), out.method.clone());
        let can = client.can;
        let silence = self.upstream.timeout();
        self.fly(Flight { conn, pending, id, method, call, can, digest, silence }).await
    }

    /// Goes on with a request that waited for the client's answer.
    async fn resume(
        self: &Arc<Self>,
        handle: &str,
        out: &Outgoing,
        message: &Message<'_>,
        call: Option<OpenCall>,
    ) -> Result<Reply, Fault> {
        let refuse =
            |why: &str| Ok(reply::json(400, rpc::error(Some(&out.id), rpc::INVALID_PARAMS, why)));
        let handle = json::string(handle).unwrap_or_default();
        let Some(waits) = self.crossing.parked.take(&handle, &digest(message, &out.caller.client))
        else {
            if let Some(mut call) = call {
                call.finish(Outcome::Open);
            }
            return refuse("this requestState is unknown, expired, or of another request");
        };
        let params = message.params();
        let answers = json::get(params, "inputResponses").unwrap_or("{}");
        let client = Client::of(message, out, &self.passed_on(out));
        match waits {
            Waits::Answer(mut flight, ask) => {
                if let Some(mut call) = call {
                    // The call goes on under the record that it began with.
                    call.finish(Outcome::Open);
                }
                flight.id.clone_from(&out.id);
                flight.can = client.can;
                flight.pending.readdress(message, client.level);
                if let Some(answer) = Object::of(Some(answers)).get(&ask.key) {
                    flight.answer(&ask, answer).await;
                    return self.fly(*flight).await;
                }
                Ok(reply::json(200, self.park(*flight, ask)))
            }
            Waits::Again { keys, error } => {
                let answers = Object::of(Some(answers));
                let accepted = |key: &String| {
                    let action = Object::of(answers.get(key))
                        .get("action")
                        .and_then(|a| json::string(a).map(|a| a == "accept"));
                    action == Some(true)
                };
                if !keys.iter().all(accepted) {
                    return Ok(reply::json(200, error.with_id(&out.id)));
                }
                let text = bridge::without_answers(message);
                let message = Message::parse(text.as_bytes()).map_err(unfit)?;
                self.depart(out, &message, call).await
            }
        }
    }
}

fn unfit(why: String) -> Fault {
    Fault::new(FaultKind::Protocol, why)
}

/// The client behind a stateless request, as far as it says.
struct Client {
    name: String,
    /// Its credentials, hashed, where they are passed on.
    lent: String,
    /// What it can be asked.
    can: Can,
    level: Option<Severity>,
}

impl Client {
    fn of(message: &Message<'_>, out: &Outgoing, headers: &HeaderMap) -> Self {
        let meta = message.meta();
        let caller = &out.caller;
        let lent = headers.get(AUTHORIZATION).map(|value| mws_state::hash_hex(value.as_bytes()));
        let name =
            [json::get(&meta, META_CLIENT), caller.session.as_deref(), caller.conn.as_deref()];
        Self {
            name: name.map(Option::unwrap_or_default).join("\0"),
            lent: lent.unwrap_or_default(),
            can: Can::of(json::get(&meta, META_CAPABILITIES)),
            level: json::get(&meta, META_LOG_LEVEL).and_then(Severity::parse),
        }
    }

    /// Clients that can be asked nothing share a session; others have one for each client.
    fn key(&self) -> String {
        if self.can.is_nothing() {
            return self.lent.clone();
        }
        format!("{}\0{}\0{}", self.name, self.lent, self.can.to_json())
    }
}
