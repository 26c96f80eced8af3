//! What went wrong with the upstream.
//!
//! Invariant: the text is short and names the upstream without user info, query or headers.
//! Deliberately absent: what the upstream wrote; it could hold anything.

use std::fmt;
use std::time::Duration;

/// A class of failure, the words of the event log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Refused,
    Timeout,
    Closed,
    /// The upstream dropped its session, so the request was not carried out.
    Expired,
    Http,
    Protocol,
    Spawn,
}

impl FaultKind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::Expired | Self::Http => "http",
            Self::Protocol => "protocol",
            Self::Spawn => "spawn",
        }
    }
}

/// A failure of the upstream, in words for the client's user.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// An answer that did not come in this time.
    pub(crate) fn silent(after: Duration) -> Self {
        Self::new(
            FaultKind::Timeout,
            format!("the upstream did not answer in {} s", after.as_secs()),
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}
