//! A session client's request, carried out by a stateless upstream in one exchange or several.
//!
//! Invariant: the client gets one answer under its own id, whatever the upstream asks in between; a
//! client that hangs up does not cancel, one that says so does.
//! Deliberately absent: how the upstream's questions are put; see [`super::questions`].

use std::sync::Arc;

use tokio::sync::mpsc::{self, Sender};

use crate::call::OpenCall;
use crate::edit::{Object, quote};
use crate::fault::Fault;
use crate::forward::Outgoing;
use crate::proxy::Proxy;
use crate::reply::{self, Reply};
use crate::rpc::{self, Era, Message};
use crate::session_bridge::leg::Leg;
use crate::session_bridge::questions::{Questions, ROUNDS, Unmet};
use crate::session_bridge::talk::Talk;
use crate::session_bridge::wire;
use crate::sse;

/// Messages waiting for the client of one request.
const BEHIND: usize = 16;

/// Why there is no answer.
enum Failure {
    Upstream(Fault),
    Unmet(Unmet),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Upstream(fault)
    }
}

impl From<Unmet> for Failure {
    fn from(unmet: Unmet) -> Self {
        Self::Unmet(unmet)
    }
}

/// A request and its client.
struct Relay {
    proxy: Arc<Proxy>,
    talk: Arc<Talk>,
    out: Outgoing,
    to_client: Sender<String>,
}

/// Takes the request off the list of those that can be cancelled.
struct Listed(Arc<Talk>, String);

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.finished(&self.1);
    }
}

/// Carries `request`, which is already fit for the upstream; the answer as JSON when nothing comes
/// before it, else an event stream.
pub(crate) async fn relay(
    proxy: Arc<Proxy>,
    talk: Arc<Talk>,
    out: Outgoing,
    request: String,
    call: Option<OpenCall>,
) -> Reply {
    let id = out.id.clone();
    let (to_client, mut messages) = mpsc::channel(BEHIND);
    let listed = Listed(Arc::clone(&talk), id.clone());
    let relay = Relay { proxy, talk: Arc::clone(&talk), out, to_client };
    // A task of its own: a client that hangs up cancels nothing in the session protocol.
    let running = tokio::spawn(async move {
        let _listed = listed;
        relay.run(&request, call).await;
    });
    talk.started(&id, running.abort_handle());
    match tokio::time::timeout(crate::body::IDLE, messages.recv()).await {
        Ok(Some(first)) if sse::answers(&first, &id) => reply::json(200, first),
        Ok(Some(first)) => reply::messages(Some(first), messages),
        // What takes long gets its head, and is kept alive.
        Err(_) => reply::messages(None, messages),
        // Cancelled: there is no answer to be given.
        Ok(None) => reply::messages(None, messages),
    }
}

impl Relay {
    async fn run(self, request: &str, mut call: Option<OpenCall>) {
        let started = std::time::Instant::now();
        let answer = match self.rounds(request).await {
            Ok(answer) => {
                if let Some(call) = &mut call {
                    call.finish_by(answer.as_bytes());
                }
                wire::to_session(&answer, &self.out.id)
            }
            Err(Failure::Upstream(fault)) => {
                self.proxy.upstream_failed("forward", &fault, started);
                rpc::error(Some(&self.out.id), rpc::SERVER_ERROR, &fault.message)
            }
            Err(Failure::Unmet(Unmet(why))) if self.out.method == "tools/call" => {
                rpc::result(&self.out.id, &rpc::tool_result(&why, true, Era::Session))
            }
            Err(Failure::Unmet(Unmet(why))) => {
                rpc::error(Some(&self.out.id), rpc::SERVER_ERROR, &why)
            }
        };
        // A call that failed here is written as such when it is dropped.
        drop(call);
        let _ = self.to_client.send(answer).await;
    }

    /// Asks the upstream until it has what it needs; its last answer.
    async fn rounds(&self, request: &str) -> Result<String, Failure> {
        let (mut text, mut id) = (request.to_owned(), self.out.id.clone());
        for round in 1.. {
            let mut answer = self.exchange(&text, &id).await?;
            if round == 1 && self.is_stale(&answer).await {
                answer = self.exchange(&text, &id).await?;
            }
            let Some(questions) = Questions::of(&answer)? else { return Ok(answer) };
            if round > ROUNDS {
                let what = format!("the server asked for input more than {ROUNDS} times");
                return Err(Unmet(what).into());
            }
            let responses = questions.put(&self.talk, &self.to_client).await?;
            // The retry is a request of its own.
            id = quote(&format!("mws-{round}-{:016x}", mws_state::random_u64()));
            text = wire::retry(request, &id, responses, questions.state());
        }
        Err(Unmet("the server asked for input without end".to_owned()).into())
    }

    /// Sends one request and passes on what comes before its answer.
    async fn exchange(&self, text: &str, id: &str) -> Result<String, Failure> {
        let owner = self.out.caller.session_id.as_deref().unwrap_or_default();
        let mut leg = Leg::send(&self.proxy, text, &self.out.headers, owner).await?;
        loop {
            let message = leg.next_within(self.proxy.upstream.timeout()).await?;
            if sse::answers(&message, id) {
                return Ok(message);
            }
            // A client that is gone loses what is told on the way, and nothing else.
            let _ = self.to_client.send(message).await;
        }
    }

    /// True when the upstream finds the mirror headers wrong, and the list they come from is renewed.
    async fn is_stale(&self, answer: &str) -> bool {
        let Ok(message) = Message::parse(answer.as_bytes()) else { return false };
        let code = Object::of(message.error).get("code").map(str::to_owned);
        code.as_deref() == Some(&rpc::HEADER_MISMATCH.to_string())
            && self.out.method == "tools/call"
            && self.proxy.shelf.renew(Era::Session).await.is_ok()
    }
}
