//! One finished tool call, as the proxy or a transcript saw it.
//!
//! Invariant: field order is the written order, the earlier version's fields first.
//! Deliberately absent: arguments, results, file paths.

use serde::{Deserialize, Deserializer, Serialize};

use crate::Timestamp;

/// How the tool was reached.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// Named directly, and in the listing.
    Listed,
    /// Through the meta-tool `call_tool`.
    CallTool,
    /// Named directly though not in the listing; also what any other word reads as.
    #[default]
    #[serde(other)]
    Direct,
}

/// Who saw the call.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The proxy itself; also when the field is absent.
    #[default]
    Proxy,
    /// A client's transcript.
    Transcript,
}

/// A tool call with a known outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// When the request came (transcripts: time of the call line).
    pub ts: Timestamp,
    /// Upstream name of the tool, unwrapped from `call_tool`.
    pub tool: String,
    /// How the tool was reached.
    #[serde(default)]
    pub via: Via,
    /// True when the result was neither an error nor `isError`.
    pub ok: bool,
    /// Milliseconds from request to result.
    #[serde(default, deserialize_with = "whole_ms")]
    pub ms: u64,
    /// Client name from `clientInfo`, else its User-Agent.
    #[serde(default)]
    pub client: String,
    /// Line format version.
    #[serde(default = "first_version")]
    pub v: u32,
    /// Unique id of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Who saw the call.
    #[serde(default)]
    pub src: Source,
    /// Session id as the client names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The client's own id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Hash of the protocol session or of the stdio process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conn: Option<String>,
    /// Rank of the tool in the last search of the same client, from 1; none when no search of it
    /// gave the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Transcripts: version of the client that made the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_version: Option<String>,
    /// Transcripts: root session of a sub-agent or fork, when it differs from `session`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Transcripts: id of the sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Transcripts: server name the client used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Transcripts: tool name as written, when it differs from `tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// Transcripts: which sign decided the outcome (`result`, `is_error`, …).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Transcripts: `explicit`, or `inferred` when the outcome was read from text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conf: Option<String>,
}

impl Call {
    /// A call with the required fields; the optional ones start empty.
    pub fn new(ts: Timestamp, tool: impl Into<String>, via: Via, ok: bool, ms: u64) -> Self {
        Self {
            ts,
            tool: tool.into(),
            via,
            ok,
            ms,
            client: String::new(),
            v: crate::VERSION,
            id: None,
            src: Source::Proxy,
            session: None,
            call_id: None,
            conn: None,
            rank: None,
            client_version: None,
            root: None,
            agent: None,
            server: None,
            raw: None,
            why: None,
            conf: None,
        }
    }
}

pub(crate) fn first_version() -> u32 {
    1
}

/// The earlier version wrote fractions of a millisecond.
fn whole_ms<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    Ok(f64::deserialize(d)?.max(0.0).round() as u64)
}
