//! Who is calling: the client's era and names, read from headers and `_meta`.
//!
//! Invariant: session and call ids come from `_meta` alone, and only under keys that clients are
//! known to fill with ids.
//! Deliberately absent: anything of the request's arguments.

use hyper::HeaderMap;
use hyper::header::USER_AGENT;
use mws_catalog::json::{self, Member};

use crate::headers;
use crate::rpc::{self, Era, META_CLIENT, META_VERSION, MODERN, Message};

pub(crate) const SESSION_ID: &str = "mcp-session-id";
pub(crate) const PROTOCOL_VERSION: &str = "mcp-protocol-version";

/// Longest session or call id that is recorded, in bytes.
const ID_MAX: usize = 128;

/// The client behind one request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) era: Era,
    pub(crate) client: String,
    pub(crate) session: Option<String>,
    pub(crate) call_id: Option<String>,
    pub(crate) conn: Option<String>,
    /// The value of `Mcp-Session-Id`.
    pub(crate) session_id: Option<String>,
}

impl Caller {
    /// Reads the caller of `message`; `known` tells the name a session gave at `initialize`.
    pub(crate) fn of(
        headers: &HeaderMap,
        message: &Message<'_>,
        known: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let meta = message.meta();
        let header = |name: &str| headers::text(headers, name);
        let session_id = header(SESSION_ID).map(str::to_owned);
        let version = header(PROTOCOL_VERSION);
        // A session client may not know yet what it speaks when it sends `initialize`.
        let by_header =
            message.method.as_deref() != Some("initialize") && version.is_some_and(|v| v >= MODERN);
        let modern = json::get(&meta, META_VERSION).is_some() || by_header;
        let by_session = || session_id.as_deref().and_then(&known);
        let agent = || header(USER_AGENT.as_str()).map(str::to_owned);
        let named = match message.method.as_deref() {
            Some("initialize") => rpc::client_name(json::get(message.params(), "clientInfo")),
            _ => rpc::client_name(json::get(&meta, META_CLIENT)),
        };
        Self {
            era: if modern { Era::Modern } else { Era::Session },
            client: named.or_else(by_session).or_else(agent).unwrap_or_default(),
            session: session(&meta),
            call_id: text(&meta, "claudecode/toolUseId"),
            conn: session_id.as_deref().map(|id| mws_state::hash_hex(id.as_bytes())),
            session_id,
        }
    }
}

fn session(meta: &[Member<'_>]) -> Option<String> {
    text(meta, "threadId")
        .or_else(|| turn_metadata(json::get(meta, "x-codex-turn-metadata")?))
        .or_else(|| text(meta, "ai.opencode/sessionID"))
        .or_else(|| text(meta, "antigravity.google/conversation_id"))
}

/// Codex sends an object, or the same as a string.
fn turn_metadata(value: &str) -> Option<String> {
    let decoded = json::string(value);
    let members = json::members(decoded.as_deref().unwrap_or(value))?;
    text(&members, "thread_id").or_else(|| text(&members, "session_id"))
}

fn text(members: &[Member<'_>], key: &str) -> Option<String> {
    let value = json::string(json::get(members, key)?)?;
    (!value.is_empty() && value.len() <= ID_MAX).then(|| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(headers: &[(&'static str, &'static str)], body: &str) -> Caller {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a value"));
        }
        let message = Message::parse(body.as_bytes()).expect("a message");
        Caller::of(&map, &message, |id| (id == "s1").then(|| "cursor".to_owned()))
    }

    #[test]
    fn the_era_is_told_by_meta_header_and_method() {
        let meta = r#"{"method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        assert_eq!(caller(&[], meta).era, Era::Modern);
        let plain = r#"{"method":"x"}"#;
        assert_eq!(caller(&[], plain).era, Era::Session);
        assert_eq!(caller(&[(PROTOCOL_VERSION, "2026-07-28")], plain).era, Era::Modern);
        assert_eq!(caller(&[(PROTOCOL_VERSION, "2025-11-25")], plain).era, Era::Session);
        let init = r#"{"method":"initialize","params":{"clientInfo":{"name":"c"}}}"#;
        let init = caller(&[(PROTOCOL_VERSION, "2026-07-28")], init);
        assert_eq!((init.era, init.client.as_str()), (Era::Session, "c"));
        let odd = meta.replace("\"x\"", "\"initialize\"");
        assert_eq!(caller(&[], &odd).era, Era::Modern);
    }

    #[test]
    fn the_client_is_named_by_meta_then_session_then_user_agent() {
        let named = r#"{"method":"x","params":{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"vs"}}}}"#;
        let headers = [(SESSION_ID, "s1"), ("user-agent", "ua/1")];
        assert_eq!(caller(&headers, named).client, "vs");
        assert_eq!(caller(&headers, r#"{"method":"x"}"#).client, "cursor");
        assert_eq!(caller(&headers[1..], r#"{"method":"x"}"#).client, "ua/1");
    }

    #[test]
    fn ids_are_found_under_the_keys_of_each_client() {
        for (meta, session, call) in [
            (r#"{"claudecode/toolUseId":"toolu_1"}"#, None, Some("toolu_1")),
            (r#"{"threadId":"t"}"#, Some("t"), None),
            (r#"{"x-codex-turn-metadata":{"session_id":"s","thread_id":"t"}}"#, Some("t"), None),
            (r#"{"x-codex-turn-metadata":"{\"session_id\":\"s\"}"}"#, Some("s"), None),
            (r#"{"ai.opencode/sessionID":"o"}"#, Some("o"), None),
            (r#"{"antigravity.google/conversation_id":"a"}"#, Some("a"), None),
            (r#"{"sessionId":"no"}"#, None, None),
        ] {
            let c = caller(&[], &format!(r#"{{"method":"x","params":{{"_meta":{meta}}}}}"#));
            assert_eq!((c.session.as_deref(), c.call_id.as_deref()), (session, call), "{meta}");
        }
    }
}
