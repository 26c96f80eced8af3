//! Finding out which protocol an upstream speaks, with the official SDK over a transport of ours.
//!
//! Invariant: the SDK sees only the messages of the handshake; its service ends right after, and
//! the raw result is kept beside it. A time-out or a refusal is never taken as evidence of an era.
//! Deliberately absent: forwarded traffic.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::{
    ClientLifecycleMode, RoleClient, RxJsonRpcMessage, TxJsonRpcMessage,
    serve_client_with_lifecycle,
};
use rmcp::transport::Transport;

use crate::fault::{Fault, FaultKind};
use crate::lock::lock;
use crate::rpc::{Era, Message};

/// The name under which the proxy introduces itself.
pub(crate) const NAME: &str = "mcp-working-set";

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Sends one message to the upstream and gives its response; `None` for a notification.
pub(crate) type Exchange =
    Arc<dyn Fn(String) -> BoxFuture<Result<Option<String>, Fault>> + Send + Sync>;

/// What is known of the upstream before asking it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing: probe for the stateless protocol, fall back to sessions.
    Nothing,
    /// Stateless.
    Modern,
    /// Sessions; the version to ask for.
    Session(String),
}

/// The end of a handshake.
#[derive(Debug, Clone)]
pub(crate) struct Handshake {
    pub(crate) era: Era,
    pub(crate) version: String,
    /// The result of `server/discover` or `initialize`, as sent.
    pub(crate) result: String,
}

/// Talks to the upstream until its protocol is known.
///
/// # Errors
/// The fault of the transport, or what the SDK made of the answers.
pub(crate) async fn negotiate(exchange: Exchange, known: Known) -> Result<Handshake, Fault> {
    let tap = Arc::new(Mutex::new(Tap::default()));
    let transport = Control { exchange, tap: Arc::clone(&tap) };
    let config = ClientConfig::new(
        ClientCapabilities::default(),
        Implementation::new(NAME, env!("CARGO_PKG_VERSION")),
    );
    let (config, mode) = match known {
        Known::Nothing => (config, auto()),
        Known::Modern => {
            let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
            (config, ClientLifecycleMode::Discover { preferred_versions })
        }
        Known::Session(version) => (
            config.with_protocol_version(session_version(&version)),
            ClientLifecycleMode::Initialize,
        ),
    };
    let served = serve_client_with_lifecycle(config, transport, mode).await;
    let (fault, result) = {
        let mut tap = lock(&tap);
        (tap.fault.take(), tap.result.take())
    };
    let service = served.map_err(|e| {
        fault.unwrap_or_else(|| Fault::new(FaultKind::Protocol, short(&e.to_string())))
    })?;
    let version = service.peer().peer_info().map(|info| info.protocol_version.clone());
    let _ = service.cancel().await;
    let (Some(version), Some(result)) = (version, result) else {
        return Err(Fault::new(FaultKind::Protocol, "the upstream named no protocol version"));
    };
    let era = if version.has_initialize() { Era::Session } else { Era::Modern };
    Ok(Handshake { era, version: version.as_str().to_owned(), result })
}

fn auto() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    }
}

fn session_version(text: &str) -> ProtocolVersion {
    [ProtocolVersion::V_2024_11_05, ProtocolVersion::V_2025_03_26, ProtocolVersion::V_2025_06_18]
        .into_iter()
        .find(|v| v.as_str() == text)
        .unwrap_or(ProtocolVersion::V_2025_11_25)
}

/// SDK errors quote messages; the head of one says enough.
fn short(text: &str) -> String {
    let end = text.floor_char_boundary(160);
    format!("the handshake with the upstream failed: {}", &text[..end])
}

#[derive(Default)]
struct Tap {
    result: Option<String>,
    fault: Option<Fault>,
    inbox: VecDeque<RxJsonRpcMessage<RoleClient>>,
}

struct Control {
    exchange: Exchange,
    tap: Arc<Mutex<Tap>>,
}

impl Control {
    fn tap(&self) -> std::sync::MutexGuard<'_, Tap> {
        lock(&self.tap)
    }

    /// Sends one message; its answer waits in the inbox.
    async fn pass(self, item: TxJsonRpcMessage<RoleClient>) -> Result<(), Fault> {
        let unfit = |e: serde_json::Error| Fault::new(FaultKind::Protocol, short(&e.to_string()));
        let text = serde_json::to_string(&item).map_err(unfit)?;
        let Some(reply) = (self.exchange)(text.clone()).await.inspect_err(|fault| {
            self.tap().fault = Some(fault.clone());
        })?
        else {
            return Ok(());
        };
        let id = Message::parse(text.as_bytes()).ok().and_then(|m| m.id).unwrap_or("null");
        let reply = correlated(id, reply);
        let message = serde_json::from_str(&reply).map_err(unfit)?;
        let mut tap = self.tap();
        tap.inbox.push_back(message);
        let parsed = Message::parse(reply.as_bytes());
        if let Some(result) = parsed.ok().and_then(|m| m.result.map(str::to_owned)) {
            tap.result = Some(result);
        }
        Ok(())
    }
}

/// An error under the id of its request: some servers refuse one under `null`, none or another id.
pub(crate) fn correlated(id: &str, reply: String) -> String {
    let Ok(answer) = Message::parse(reply.as_bytes()) else { return reply };
    match answer.id {
        _ if answer.error.is_none() => reply,
        Some(own) if own == id => reply,
        Some(_) => answer.with_id(id),
        None => {
            let rest = answer.text.trim_start().trim_start_matches('{');
            format!("{{\"id\":{id},{rest}")
        }
    }
}

impl Transport<RoleClient> for Control {
    type Error = Fault;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Fault>> + Send + 'static {
        let channel = Self { exchange: Arc::clone(&self.exchange), tap: Arc::clone(&self.tap) };
        channel.pass(item)
    }

    /// Ends with the last answer: after the handshake the SDK's service has nothing to wait for.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.tap().inbox.pop_front()
    }

    async fn close(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISCOVER: &str = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"x-vendor":{"a":1.10}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#;
    const INITIALIZE: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"odd":[1e2]}"#;

    /// An upstream that answers by method; `None` means a fault.
    async fn shake(
        known: Known,
        answer: fn(&str, &str) -> Option<String>,
    ) -> (Result<Handshake, Fault>, Vec<String>) {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&sent);
        let exchange: Exchange = Arc::new(move |text: String| {
            let message = Message::parse(text.as_bytes()).expect("a message");
            let method = message.method.clone().unwrap_or_default().into_owned();
            log.lock().expect("unpoisoned").push(method.clone());
            let reply = message
                .id
                .map(|id| answer(&method, id).ok_or(Fault::new(FaultKind::Timeout, "no answer")));
            Box::pin(async move { reply.transpose() })
        });
        let result = negotiate(exchange, known).await;
        let sent = sent.lock().expect("unpoisoned").clone();
        (result, sent)
    }

    #[tokio::test]
    async fn a_stateless_upstream_is_found_and_its_result_kept_as_sent() {
        let (shaken, sent) =
            shake(Known::Nothing, |_, id| Some(crate::rpc::result(id, DISCOVER))).await;
        let shaken = shaken.expect("a handshake");
        assert_eq!((shaken.era, shaken.version.as_str()), (Era::Modern, "2026-07-28"));
        assert_eq!(shaken.result, DISCOVER);
        assert_eq!(sent, ["server/discover"]);
    }

    #[tokio::test]
    async fn a_refused_probe_falls_back_to_a_session_whatever_id_the_refusal_has() {
        for refusal in ["null", "77", "\"x\""] {
            let answer = match refusal {
                "null" => |m: &str, id: &str| Some(legacy(m, id, "null")),
                "77" => |m: &str, id: &str| Some(legacy(m, id, "77")),
                _ => |m: &str, id: &str| Some(legacy(m, id, "\"x\"")),
            };
            let (shaken, sent) = shake(Known::Nothing, answer).await;
            let shaken = shaken.expect("a handshake");
            assert_eq!((shaken.era, shaken.version.as_str()), (Era::Session, "2025-06-18"));
            assert_eq!(shaken.result, INITIALIZE);
            assert_eq!(sent, ["server/discover", "initialize", "notifications/initialized"]);
        }
    }

    fn legacy(method: &str, id: &str, refusal_id: &str) -> String {
        match method {
            "initialize" => crate::rpc::result(id, INITIALIZE),
            _ => crate::rpc::error(Some(refusal_id), crate::rpc::SERVER_ERROR, "not initialized"),
        }
    }

    #[tokio::test]
    async fn silence_is_no_evidence_and_comes_back_as_the_fault_it_is() {
        let (shaken, sent) = shake(Known::Nothing, |_, _| None).await;
        assert_eq!(shaken.expect_err("a fault").kind, FaultKind::Timeout);
        assert_eq!(sent, ["server/discover"]);
    }

    #[tokio::test]
    async fn a_known_session_upstream_is_not_probed() {
        let known = Known::Session("2025-03-26".into());
        let (shaken, sent) = shake(known, |m, id| Some(legacy(m, id, "null"))).await;
        assert_eq!(shaken.expect("a handshake").era, Era::Session);
        assert_eq!(sent, ["initialize", "notifications/initialized"]);
    }
}
