//! One request under way to a session upstream.
//!
//! Invariant: it ends with a response, with a question to the client, or with an error; bytes of
//! results stay the upstream's except for the members that the stateless protocol adds.
//! Deliberately absent: waiting for the client; see [`super::parked`].

use std::sync::Arc;
use std::time::Duration;

use mws_catalog::json;
use tokio::sync::mpsc;

use super::ASKING;
use super::parked::Waits;
use crate::bridge;
use crate::call::OpenCall;
use crate::can::Can;
use crate::edit::{Object, quote};
use crate::fault::{Fault, FaultKind};
use crate::proxy::Proxy;
use crate::reply::{self, Reply};
use crate::rpc::{self, METHOD_NOT_FOUND, Message, Outcome};
use crate::upstream::{Conn, Pending};

/// Events waiting for the client of one request.
const BEHIND: usize = 16;
/// The error that stands for a question with a URL.
const URL_REQUIRED: &str = "-32042";

/// A request under way.
pub(super) struct Flight {
    pub(super) conn: Arc<Conn>,
    pub(super) pending: Pending,
    /// The client's id of it.
    pub(super) id: String,
    pub(super) method: String,
    pub(super) call: Option<OpenCall>,
    pub(super) can: Can,
    /// Which request it is, whatever its id.
    pub(super) digest: String,
    /// How long the upstream may stay silent.
    pub(super) silence: Duration,
}

/// A question of the upstream.
pub(super) struct Ask {
    /// The id under which the answer goes back.
    id: String,
    pub(super) key: String,
    /// The question as an `inputRequests` entry.
    pub(super) request: String,
}

/// An error that is answered under another id each time.
pub(super) struct Refusal(String);

impl Refusal {
    pub(super) fn with_id(&self, id: &str) -> String {
        Message::parse(self.0.as_bytes()).map_or_else(|_| self.0.clone(), |m| m.with_id(id))
    }
}

/// What comes next of a request under way.
enum Step {
    Response(String),
    Message(String),
    Ask(Ask),
    /// A response that asks the client to open URLs: the requests, and the error itself.
    Urls(Vec<(String, String)>, Refusal),
}

impl Proxy {
    /// Gives the client what the upstream sends: JSON when the end comes first, else a stream.
    pub(super) async fn fly(self: &Arc<Self>, mut flight: Flight) -> Result<Reply, Fault> {
        let first = match flight.next().await? {
            Step::Response(text) => return Ok(reply::json(bridge::status_of(&text), text)),
            Step::Message(text) => text,
            end => return Ok(reply::json(200, self.ask_client(flight, end))),
        };
        let (sender, receiver) = mpsc::channel(BEHIND);
        let this = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                let next = tokio::select! {
                    next = flight.next() => next,
                    () = sender.closed() => return,
                };
                let last = match next {
                    Ok(Step::Message(text)) => {
                        // A client that does not read holds up its own request alone.
                        let _ = sender.send(text).await;
                        continue;
                    }
                    Ok(Step::Response(text)) => text,
                    Ok(end) => this.ask_client(flight, end),
                    Err(fault) => rpc::error(Some(&flight.id), rpc::SERVER_ERROR, &fault.message),
                };
                let _ = sender.send(last).await;
                return;
            }
        });
        Ok(reply::messages(Some(first), receiver))
    }

    /// Ends the client's request with a question.
    fn ask_client(&self, flight: Flight, end: Step) -> String {
        match end {
            Step::Ask(ask) => self.park(flight, ask),
            Step::Urls(requests, error) => {
                let keys = requests.iter().map(|(key, _)| key.clone()).collect();
                let waits = Waits::Again { keys, error };
                let handle = self.crossing.parked.put(flight.digest, waits);
                input_required(&flight.id, &requests, &handle)
            }
            Step::Response(text) | Step::Message(text) => text,
        }
    }

    /// Keeps the request until the client comes back with its answer.
    pub(super) fn park(&self, flight: Flight, ask: Ask) -> String {
        let id = flight.id.clone();
        let requests = [(ask.key.clone(), ask.request.clone())];
        let digest = flight.digest.clone();
        let handle = self.crossing.parked.put(digest, Waits::Answer(Box::new(flight), ask));
        input_required(&id, &requests, &handle)
    }
}

impl Flight {
    /// Passes the client's answer to the upstream.
    pub(super) async fn answer(&self, ask: &Ask, result: &str) {
        self.reply(&rpc::result(&ask.id, result)).await;
    }

    async fn reply(&self, text: &str) {
        if let Ok(message) = Message::parse(text.as_bytes()) {
            self.conn.notify(&message, "").await;
        }
    }

    async fn next(&mut self) -> Result<Step, Fault> {
        loop {
            let silent = |_| Fault::silent(self.silence);
            let next = tokio::time::timeout(self.silence, self.pending.messages.recv()).await;
            let text = next.map_err(silent)?.ok_or_else(ended)?;
            let Ok(message) = Message::parse(text.as_bytes()) else { continue };
            match (message.method.as_deref(), message.id) {
                (Some(method), Some(id)) => match self.question(method, id, &message) {
                    Some(ask) => return Ok(Step::Ask(ask)),
                    None => {
                        let why = "the client does not answer this";
                        self.reply(&rpc::error(Some(id), METHOD_NOT_FOUND, why)).await;
                    }
                },
                (Some(_), None) => return Ok(Step::Message(text)),
                (None, _) => return Ok(self.response(&text, &message)),
            }
        }
    }

    /// The question, where this client can be asked it now.
    fn question(&self, method: &str, id: &str, message: &Message<'_>) -> Option<Ask> {
        let may = ASKING.contains(&self.method.as_str());
        if !may || self.can.answers(method, message.params).is_err() {
            return None;
        }
        let request = as_request(method, message.params);
        Some(Ask { id: id.to_owned(), key: format!("input-{id}"), request })
    }

    fn response(&mut self, text: &str, message: &Message<'_>) -> Step {
        if let Some(requests) = self.urls(message) {
            if let Some(call) = &mut self.call {
                call.finish(Outcome::Open);
            }
            return Step::Urls(requests, Refusal(text.to_owned()));
        }
        if let Some(call) = &mut self.call {
            call.finish_by(text.as_bytes());
        }
        Step::Response(bridge::to_modern(text, &self.method))
    }

    /// The URLs that the user has to open first, where the error says so and the client can.
    fn urls(&self, message: &Message<'_>) -> Option<Vec<(String, String)>> {
        let error = Object::of(message.error);
        let asked = error.get("code").map(str::trim) == Some(URL_REQUIRED);
        if !asked || !ASKING.contains(&self.method.as_str()) {
            return None;
        }
        let data = Object::of(error.get("data"));
        let elicitations = json::elements(data.get("elicitations")?)?;
        let mut requests = Vec::new();
        for (number, elicitation) in elicitations.into_iter().enumerate() {
            let mut params = Object::of(Some(elicitation));
            params.set_default("mode", "\"url\"");
            let params = params.to_json();
            if self.can.answers("elicitation/create", Some(&params)).is_err() {
                return None;
            }
            let request = as_request("elicitation/create", Some(&params));
            requests.push((format!("url-{number}"), request));
        }
        (!requests.is_empty()).then_some(requests)
    }
}

fn as_request(method: &str, params: Option<&str>) -> String {
    let params = params.map_or_else(String::new, |params| format!(",\"params\":{params}"));
    format!("{{\"method\":{}{params}}}", quote(method))
}

/// The result that asks the client.
fn input_required(id: &str, requests: &[(String, String)], handle: &str) -> String {
    let requests: Vec<_> =
        requests.iter().map(|(key, request)| format!("{}:{request}", quote(key))).collect();
    let (requests, handle) = (requests.join(","), quote(handle));
    let result = format!(
        "{{\"resultType\":\"input_required\",\"inputRequests\":{{{requests}}},\
         \"requestState\":{handle}}}"
    );
    rpc::result(id, &result)
}

/// Which request this is: all of it but its id and what changes from round to round.
pub(super) fn digest(message: &Message<'_>, client: &str) -> String {
    let rounds = ["_meta", "inputResponses", "requestState"];
    let mut members: Vec<_> = message
        .params()
        .iter()
        .filter(|member| !rounds.contains(&member.key.as_ref()))
        .map(|member| format!("{}:{}", member.key, member.value))
        .collect();
    members.sort();
    let method = message.method.as_deref().unwrap_or_default();
    mws_state::hash_hex(format!("{client}\0{method}\0{}", members.join("\0")).as_bytes())
}

fn ended() -> Fault {
    Fault::new(FaultKind::Closed, "the upstream ended without an answer")
}
