//! What each tool was used for: successes with their sessions, and failures.
//!
//! Invariant: successes go by time. Deliberately absent: thresholds.

use std::collections::{BTreeMap, HashSet};

use mws_event::Timestamp;

use crate::CountedCall;

/// The use of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Successful calls, by time.
    pub successes: Vec<Success>,
    /// Number of failed calls.
    pub failed: u64,
}

/// A successful call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Success {
    /// When it began.
    pub ts: Timestamp,
    /// Session number, as in [`CountedCall::session`].
    pub session: u32,
}

/// Usage by tool name. `calls` go by time, as [`crate::merge`] gives them.
pub fn usage_by_tool<'a>(calls: &[CountedCall<'a>]) -> BTreeMap<&'a str, Usage> {
    let mut usage: BTreeMap<&str, Usage> = BTreeMap::new();
    for call in calls {
        let tool = usage.entry(call.tool).or_default();
        if call.ok {
            tool.successes.push(Success { ts: call.ts, session: call.session });
        } else {
            tool.failed += 1;
        }
    }
    usage
}

impl Usage {
    /// Time of the last success.
    pub fn last_ok(&self) -> Option<Timestamp> {
        self.successes.last().map(|s| s.ts)
    }

    /// The successes at or after `from`.
    pub fn since(&self, from: Timestamp) -> &[Success] {
        &self.successes[self.successes.partition_point(|s| s.ts < from)..]
    }
}

/// Number of distinct sessions.
pub(crate) fn sessions(successes: &[Success]) -> u64 {
    successes.iter().map(|s| s.session).collect::<HashSet<_>>().len() as u64
}
