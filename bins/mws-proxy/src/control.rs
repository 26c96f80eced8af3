//! Finding out which protocol an upstream speaks: a probe for the stateless one, else a session.
//!
//! Invariant: only an answer of the upstream decides. A time-out, a refusal of the caller or a server
//! in trouble comes back as the fault it is, and is never taken as evidence of an era.
//! Deliberately absent: forwarded traffic, and waiting: the exchange has the time limits.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mws_catalog::json;

use crate::edit::{Object, quote};
use crate::fault::{Fault, FaultKind};
use crate::rpc::{Era, MODERN, Message};
use crate::upstream::{client_info, own_request};

/// The name under which the proxy introduces itself.
pub(crate) const NAME: &str = "mcp-working-set";

/// The session version that is asked for when nothing else is known.
pub(crate) const SESSION_VERSION: &str = "2025-11-25";

const PROBE: &str = "server/discover";
/// What follows a session's `initialize`.
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

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

impl Handshake {
    /// By the result of a `server/discover`.
    pub(crate) fn stateless(result: &str) -> Self {
        Self { era: Era::Modern, version: MODERN.to_owned(), result: result.to_owned() }
    }

    /// By the result of an `initialize`; `None` when it names no version.
    pub(crate) fn of_session(result: &str) -> Option<Self> {
        let version = session_version(result)?;
        Some(Self { era: Era::Session, version, result: result.to_owned() })
    }
}

/// The version in the result of an `initialize`.
pub(crate) fn session_version(result: &str) -> Option<String> {
    let members = json::members(result)?;
    json::get(&members, "protocolVersion").and_then(json::string).map(Cow::into_owned)
}

/// Talks to the upstream until its protocol is known.
///
/// # Errors
/// The fault of the exchange, or answers that no protocol has.
pub(crate) async fn negotiate(exchange: Exchange, known: Known) -> Result<Handshake, Fault> {
    match known {
        Known::Session(version) => open_session(&exchange, version).await,
        Known::Modern => discover(&exchange).await?.map_err(|refused| {
            let what = format!("does not speak {MODERN}: {}", refused.why);
            Fault::new(FaultKind::Protocol, failed(&what))
        }),
        Known::Nothing => match discover(&exchange).await? {
            Ok(shaken) => Ok(shaken),
            Err(refused) => {
                let version = refused.session_version();
                open_session(&exchange, version.unwrap_or_else(|| SESSION_VERSION.into())).await
            }
        },
    }
}

/// An upstream that answered, but not with what was asked for.
struct Refused {
    why: String,
    /// The protocol versions that it names.
    versions: Vec<String>,
}

impl Refused {
    fn by(error: Option<&str>) -> Self {
        let error = Object::of(error);
        let data = Object::of(error.get("data"));
        let text = error.get("message").and_then(json::string).unwrap_or_default();
        let end = text.floor_char_boundary(120);
        let code = error.get("code").unwrap_or("none");
        let why = format!("error {code}, {}", quote(&text[..end]));
        Self { why, versions: strings(data.get("supported")) }
    }

    /// The latest version with sessions among those it names.
    fn session_version(&self) -> Option<String> {
        self.versions.iter().filter(|v| v.as_str() < MODERN).max().cloned()
    }
}

/// A stateless `server/discover`, once more where the refusal names the very version that was asked in.
async fn discover(exchange: &Exchange) -> Result<Result<Handshake, Refused>, Fault> {
    match discover_once(exchange).await? {
        Err(refused) if refused.versions.iter().any(|version| version == MODERN) => {
            discover_once(exchange).await
        }
        outcome => Ok(outcome),
    }
}

/// The inner error is a refusal of the method or the version.
async fn discover_once(exchange: &Exchange) -> Result<Result<Handshake, Refused>, Fault> {
    let answer = ask(exchange, own_request(Era::Modern, PROBE, Object::of(None)), "0").await?;
    let message = parse(&answer)?;
    let Some(result) = message.result else { return Ok(Err(Refused::by(message.error))) };
    let members = json::members(result).unwrap_or_default();
    let versions = strings(json::get(&members, "supportedVersions"));
    if !versions.iter().any(|version| version == MODERN) {
        let why = format!("it does not list {MODERN} among its versions");
        return Ok(Err(Refused { why, versions }));
    }
    Ok(Ok(Handshake::stateless(result)))
}

/// `initialize` in `version`; once more in a version that the upstream names instead.
async fn open_session(exchange: &Exchange, version: String) -> Result<Handshake, Fault> {
    let refused = match initialize(exchange, &version, 1).await? {
        Ok(shaken) => return Ok(shaken),
        Err(refused) => refused,
    };
    let other = refused.session_version().filter(|other| *other != version);
    let refused = match other {
        Some(other) => match initialize(exchange, &other, 2).await? {
            Ok(shaken) => return Ok(shaken),
            Err(refused) => refused,
        },
        None => refused,
    };
    let what = format!("refused a session in {version}: {}", refused.why);
    Err(Fault::new(FaultKind::Protocol, failed(&what)))
}

async fn initialize(
    exchange: &Exchange,
    version: &str,
    id: u32,
) -> Result<Result<Handshake, Refused>, Fault> {
    let (quoted, info) = (quote(version), client_info());
    let request = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"initialize\",\"params\":\
         {{\"protocolVersion\":{quoted},\"capabilities\":{{}},\"clientInfo\":{info}}}}}"
    );
    let answer = ask(exchange, request, &id.to_string()).await?;
    let message = parse(&answer)?;
    let Some(result) = message.result else { return Ok(Err(Refused::by(message.error))) };
    let shaken = Handshake::of_session(result).filter(|shaken| shaken.version.as_str() < MODERN);
    let Some(shaken) = shaken else {
        let what = "answered initialize without a protocol version that has sessions";
        return Err(Fault::new(FaultKind::Protocol, failed(what)));
    };
    exchange(INITIALIZED.to_owned()).await?;
    Ok(Ok(shaken))
}

/// Sends a request; its answer, an error always under the id of the request.
async fn ask(exchange: &Exchange, request: String, id: &str) -> Result<String, Fault> {
    let answer = exchange(request).await?;
    let answer = answer.ok_or_else(|| Fault::new(FaultKind::Protocol, failed("said nothing")))?;
    Ok(correlated(id, answer))
}

fn parse(answer: &str) -> Result<Message<'_>, Fault> {
    Message::parse(answer.as_bytes()).map_err(|why| Fault::new(FaultKind::Protocol, failed(&why)))
}

fn strings(list: Option<&str>) -> Vec<String> {
    let elements = list.and_then(json::elements).unwrap_or_default();
    elements.into_iter().filter_map(json::string).map(Cow::into_owned).collect()
}

fn failed(what: &str) -> String {
    format!("the handshake failed: the upstream {what}")
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

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
    async fn a_refusal_that_names_the_stateless_version_is_no_sign_of_sessions() {
        static ASKED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        const REFUSED: &str =
            r#"{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}"#;
        let (shaken, sent) = shake(Known::Nothing, |_, id| {
            match ASKED.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0 => Some(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{REFUSED}}}")),
                _ => Some(crate::rpc::result(id, DISCOVER)),
            }
        })
        .await;
        assert_eq!(shaken.expect("a handshake").era, Era::Modern);
        assert_eq!(sent, ["server/discover", "server/discover"]);
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

    #[tokio::test]
    async fn a_stateless_answer_without_a_version_of_ours_leads_to_a_session_it_names() {
        for probe in [
            r#"{"supportedVersions":["2025-03-26","2024-11-05"]}"#,
            r#"{"supportedVersions":["2027-01-01"]}"#,
            "{}",
        ] {
            let sessions = |method: &str, id: &str| match method {
                "initialize" => Some(crate::rpc::result(id, INITIALIZE)),
                _ => None,
            };
            let probe = probe.to_owned();
            let exchange: Exchange = Arc::new(move |text: String| {
                let message = Message::parse(text.as_bytes()).expect("a message");
                let method = message.method.clone().unwrap_or_default().into_owned();
                let reply = message.id.and_then(|id| match &*method {
                    PROBE => Some(crate::rpc::result(id, &probe)),
                    _ => sessions(&method, id),
                });
                if method == "initialize" && probe.contains("2025-03-26") {
                    assert!(text.contains("\"protocolVersion\":\"2025-03-26\""), "{text}");
                }
                Box::pin(async move { Ok(reply) })
            });
            let shaken = negotiate(exchange.clone(), Known::Nothing).await.expect("a handshake");
            assert_eq!((shaken.era, shaken.version.as_str()), (Era::Session, "2025-06-18"));
            let forced = negotiate(exchange, Known::Modern).await.expect_err("no such protocol");
            assert_eq!(forced.kind, FaultKind::Protocol);
        }
    }

    #[tokio::test]
    async fn a_refused_session_version_is_asked_for_again_as_the_upstream_wants_it() {
        let picky = |_: &str, id: &str| {
            let refusal = r#"{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2024-11-05","2026-07-28"]}}"#;
            Some(match id {
                "2" => crate::rpc::result(id, r#"{"protocolVersion":"2024-11-05"}"#),
                _ => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{refusal}}}"#),
            })
        };
        let (shaken, sent) = shake(Known::Session("2025-11-25".into()), picky).await;
        assert_eq!(shaken.expect("a handshake").version, "2024-11-05");
        assert_eq!(sent, ["initialize", "initialize", "notifications/initialized"]);
        let never = |_: &str, id: &str| Some(crate::rpc::error(Some(id), -32601, "no"));
        let (shaken, _) = shake(Known::Nothing, never).await;
        let fault = shaken.expect_err("a fault");
        assert!(fault.message.contains("-32601"), "{fault}");
    }
}
