//! The JSON-RPC envelope, read once and borrowed from the body.
//!
//! Invariant: nothing below the envelope and `_meta` is interpreted; the text stays as sent.
//! Deliberately absent: typed messages. They lose what they do not know.

use std::borrow::Cow;
use std::sync::OnceLock;

use mws_catalog::json::{self, Member};

use crate::edit::{Edits, quote};

/// The version from which on each request stands for itself.
pub(crate) const MODERN: &str = "2026-07-28";

/// Keys of the stateless protocol in `_meta`.
pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub(crate) const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// JSON-RPC error codes in use.
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const INTERNAL_ERROR: i64 = -32603;
pub(crate) const SERVER_ERROR: i64 = -32000;
pub(crate) const HEADER_MISMATCH: i64 = -32020;

/// Keys of the envelope. Some libraries read them in any letters.
const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// Which of the two protocols a peer speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2026-07-28 and later: stateless.
    Modern,
    /// 2025-11-25 and earlier: `initialize`, then a session.
    Session,
}

/// One message, as slices of its text.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) text: &'a str,
    pub(crate) id: Option<&'a str>,
    pub(crate) method: Option<Cow<'a, str>>,
    pub(crate) params: Option<&'a str>,
    pub(crate) result: Option<&'a str>,
    pub(crate) error: Option<&'a str>,
    /// The members of `params`, read when they are asked for: arguments can be large.
    members: OnceLock<Vec<Member<'a>>>,
}

impl<'a> Message<'a> {
    /// Reads the envelope; of a key that stands twice the last counts.
    ///
    /// # Errors
    /// Not a JSON object.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, String> {
        Self::read(unmarked(body)).map(|(message, _)| message)
    }

    /// Reads the envelope of a client's message.
    ///
    /// # Errors
    /// Also when an envelope key stands twice: the upstream could read another one than we do.
    pub(crate) fn parse_strictly(body: &'a [u8]) -> Result<Self, String> {
        let (message, members) = Self::read(body)?;
        for (at, key) in members.iter().map(|m| m.key.as_ref()).enumerate() {
            if members[..at].iter().any(|before| before.key.eq_ignore_ascii_case(key)) {
                return Err("the envelope has a key twice".to_owned());
            }
            let known = ENVELOPE.iter().find(|known| known.eq_ignore_ascii_case(key));
            if known.is_some_and(|known| *known != key) || key.contains('\0') {
                return Err("the envelope has a key in other letters than its own".to_owned());
            }
        }
        Ok(message)
    }

    /// Whether this is a message that a client may send.
    ///
    /// # Errors
    /// What it lacks.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let is_answer = self.result.is_some() || self.error.is_some();
        let fit = |id: &str| id.starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit());
        match (&self.method, self.id) {
            (Some(_), Some(id)) if !fit(id) => Err("the id must be a string or a number"),
            (Some(_), _) => Ok(()),
            (None, Some(_)) if is_answer => Ok(()),
            (None, _) => Err("the message has no method"),
        }
    }

    fn read(body: &'a [u8]) -> Result<(Self, Vec<Member<'a>>), String> {
        let text = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8".to_owned())?;
        let members = json::members(text).ok_or("the body is not a JSON object")?;
        let get = |key| json::get(&members, key);
        let message = Self {
            text,
            id: get("id"),
            method: get("method").and_then(json::string),
            params: get("params"),
            result: get("result"),
            error: get("error"),
            members: OnceLock::new(),
        };
        Ok((message, members))
    }

    /// The members of `params`.
    pub(crate) fn params(&self) -> &[Member<'a>] {
        self.members.get_or_init(|| self.params.and_then(json::members).unwrap_or_default())
    }

    /// The members of `params._meta`.
    pub(crate) fn meta(&self) -> Vec<Member<'a>> {
        json::get(self.params(), "_meta").and_then(json::members).unwrap_or_default()
    }

    /// The message with another id.
    pub(crate) fn with_id(&self, id: &str) -> String {
        let mut edits = Edits::of(self.text);
        if let Some(old) = self.id {
            edits.replace(old, id);
        }
        edits.apply()
    }
}

/// `clientInfo.name` of `info`, decoded.
pub(crate) fn client_name(info: Option<&str>) -> Option<String> {
    let members = json::members(info?)?;
    json::string(json::get(&members, "name")?).map(Cow::into_owned)
}

/// A response that carries `result`.
pub(crate) fn result(id: &str, result: &str) -> String {
    let parts = ["{\"jsonrpc\":\"2.0\",\"id\":", id, ",\"result\":", result, "}"];
    parts.concat()
}

/// A response that carries an error.
pub(crate) fn error(id: Option<&str>, code: i64, message: &str) -> String {
    let (id, message) = (id.unwrap_or("null"), quote(message));
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":{message}}}}}"
    )
}

/// A tool result of one text.
pub(crate) fn tool_result(text: &str, is_error: bool, era: Era) -> String {
    let kind = if era == Era::Modern { "\"resultType\":\"complete\"," } else { "" };
    let flag = if is_error { ",\"isError\":true" } else { "" };
    format!("{{{kind}\"content\":[{{\"type\":\"text\",\"text\":{}}}]{flag}}}", quote(text))
}

/// How a call ended, as its response says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A result without `isError`.
    Ok,
    /// An error, or a result with `isError`.
    Failed,
    /// The upstream asks for input or handed out a task: the call goes on.
    Open,
}

impl Outcome {
    /// Reads the outcome from a response. `isError` counts at result level only.
    pub(crate) fn of(response: &Message<'_>) -> Self {
        let Some(result) = response.result else { return Self::Failed };
        let members = json::members(result).unwrap_or_default();
        let kind = json::get(&members, "resultType").and_then(json::string);
        let is_error = json::get(&members, "isError") == Some("true");
        let handle =
            json::get(&members, "task").is_some() && json::get(&members, "content").is_none();
        match kind.as_deref() {
            Some("input_required" | "task") => Self::Open,
            _ if handle => Self::Open,
            _ if is_error => Self::Failed,
            _ => Self::Ok,
        }
    }
}

/// A text without the mark that some servers begin with, and that clients pass over.
pub(crate) fn unmarked(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text)
}

/// True for the word that the tools of the upstream changed.
pub(crate) fn says_tools_changed(text: &str) -> bool {
    // Most messages need not be parsed to tell.
    text.contains("list_changed")
        && json::members(text)
            .and_then(|members| json::get(&members, "method").and_then(json::string))
            .is_some_and(|method| method == "notifications/tools/list_changed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> Outcome {
        Outcome::of(&Message::parse(text.as_bytes()).expect("a message"))
    }

    #[test]
    fn the_outcome_is_read_at_result_level_only() {
        for (text, want) in [
            (r#"{"id":1,"result":{"content":[]}}"#, Outcome::Ok),
            (
                r#"{"id":1,"result":{"content":[{"type":"text","text":"\"isError\":true"}]}}"#,
                Outcome::Ok,
            ),
            (r#"{"id":1,"result":{"structuredContent":{"isError":true}}}"#, Outcome::Ok),
            (r#"{"id":1,"result":{"content":[],"isError": true}}"#, Outcome::Failed),
            (r#"{"id":1,"error":{"code":-1,"message":"x"}}"#, Outcome::Failed),
            (r#"{"id":1,"result":{"resultType":"input_required"}}"#, Outcome::Open),
            (r#"{"id":1,"result":{"task":{"taskId":"t"}}}"#, Outcome::Open),
        ] {
            assert_eq!(outcome(text), want, "{text}");
        }
    }

    #[test]
    fn an_envelope_key_twice_is_refused_wherever_it_stands() {
        for bad in [
            r#"{"method":"a","method":"b"}"#,
            r#"{"id":1,"i\u0064":2}"#,
            r#"{"Method":"a"}"#,
            r#"{"method":"a","method\u0000":"b"}"#,
            "[]",
            "1",
            "",
        ] {
            assert!(Message::parse_strictly(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_id_is_replaced_and_nothing_else() {
        let text = r#"{"jsonrpc": "2.0","id":  "a" ,"result":{"x":1e2}}"#;
        let message = Message::parse(text.as_bytes()).expect("a message");
        assert_eq!(message.with_id("7"), r#"{"jsonrpc": "2.0","id":  7 ,"result":{"x":1e2}}"#);
    }
}
