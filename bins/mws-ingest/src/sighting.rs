//! What a reader finds in a transcript: calls, results, and where it ended.
//!
//! Invariant: nothing here can hold what was asked or answered.
//! Deliberately absent: which of several copies counts.

use std::sync::Arc;

use mws_event::{Timestamp, Via};

use crate::salvage::Damage;

/// Which sign decided an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// A result without any mark of failure.
    Result,
    /// `is_error`.
    IsError,
    /// The client's error envelope.
    ToolUseError,
    /// The client says that the call was never made.
    NotExecuted,
    /// The call itself failed.
    Err,
    /// How the text of the result begins.
    Text,
}

impl Why {
    /// All, in the order of their codes in the state file.
    pub(crate) const ALL: [Self; 6] =
        [Self::Result, Self::IsError, Self::ToolUseError, Self::NotExecuted, Self::Err, Self::Text];

    /// What the word that several clients have for the end of a call says: whether it was a
    /// success, and which sign that is. Nothing while it goes on.
    pub(crate) fn of_status(status: &str) -> Option<(bool, Self)> {
        match status {
            "success" => Some((true, Self::Result)),
            "error" => Some((false, Self::IsError)),
            "cancelled" => Some((false, Self::NotExecuted)),
            _ => None,
        }
    }

    /// The word for it in events.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::IsError => "is_error",
            Self::ToolUseError => "tool_use_error",
            Self::NotExecuted => "not_executed",
            Self::Err => "err",
            Self::Text => "text",
        }
    }

    /// Whether it is a guess.
    pub(crate) fn is_inferred(self) -> bool {
        self == Self::Text
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Success.
    pub(crate) ok: bool,
    /// The sign for it.
    pub(crate) why: Why,
    /// When the result was written.
    pub(crate) ts: Option<Timestamp>,
    /// How long the call took, in milliseconds, where the client says so.
    pub(crate) ms: Option<u64>,
}

/// A call as one record shows it.
#[derive(Debug)]
pub(crate) struct Sighting {
    /// Id as written.
    pub(crate) call_id: String,
    /// Session of the record.
    pub(crate) session: String,
    /// Session from which the record was copied.
    pub(crate) forked_from: Option<String>,
    /// Upstream name.
    pub(crate) tool: String,
    /// Name as written, when it differs.
    pub(crate) raw: Option<String>,
    /// How the tool was reached.
    pub(crate) via: Via,
    /// Time of the record.
    pub(crate) ts: Timestamp,
    /// Version of the client.
    pub(crate) version: Option<String>,
    /// Sub-agent.
    pub(crate) agent: Option<String>,
    /// Server name as written.
    pub(crate) server: String,
    /// It is the record of the call's end, which has the tool's own name but not the time of the
    /// call; else that of the call.
    pub(crate) end_event: bool,
}

/// A thread that was split from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// The thread.
    pub(crate) thread: Arc<str>,
    /// The one that it was split from.
    pub(crate) parent: Arc<str>,
    /// It is a sub-agent, so that its calls are its parent's.
    pub(crate) is_subagent: bool,
}

/// What one file shows.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Calls.
    pub(crate) calls: Vec<Sighting>,
    /// Results: id, session, outcome.
    pub(crate) results: Vec<(String, String, Outcome)>,
    /// Damaged lines among those that mattered.
    pub(crate) bad_lines: u64,
    /// Records recovered from them.
    pub(crate) salvaged: u64,
    /// Session and time of its last record.
    pub(crate) end: Option<(String, Timestamp)>,
    /// Where its thread and the threads before it come from.
    pub(crate) links: Vec<Link>,
}

impl Batch {
    /// Counts what was wrong with a line.
    pub(crate) fn count(&mut self, damage: Damage) {
        self.bad_lines += u64::from(damage.bad);
        self.salvaged += damage.salvaged;
    }
}
