//! What is known of a call across runs, and for how long.
//!
//! Invariant: a call that was reported is never reported again but for a failure that turned out
//! a success. Deliberately absent: reports older than [`PATIENCE_MS`] in full; their key stays.

use std::sync::Arc;

use mws_event::{DAY_MS, Timestamp, Via};

use crate::hashed::ByHash;
use crate::sighting::Outcome;

/// How long a call waits for its result, a result for its call, a failure for its success.
const PATIENCE_MS: i64 = 7 * DAY_MS;
/// Results without a call that are kept, the latest ones.
const ORPHANS: usize = 20_000;

/// A call that is open, or failed, or about to be reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) client: Arc<str>,
    pub(crate) call_id: Box<str>,
    pub(crate) tool: Arc<str>,
    pub(crate) raw: Option<Arc<str>>,
    pub(crate) via: Via,
    pub(crate) ts: Timestamp,
    pub(crate) version: Option<Arc<str>>,
    pub(crate) agent: Option<Arc<str>>,
    pub(crate) server: Arc<str>,
    /// Time and name are those of an end event.
    pub(crate) ts_of_end: bool,
    pub(crate) name_of_end: bool,
    /// Sessions whose records show the call, each with the one that it was copied from; once it
    /// was reported, the one that it was reported for.
    pub(crate) claims: Vec<(Arc<str>, Option<Arc<str>>)>,
    pub(crate) outcome: Option<Outcome>,
    /// The outcome that is in the log.
    pub(crate) reported: Option<bool>,
    /// When it was first read.
    pub(crate) seen: Timestamp,
}

/// What is known under a call's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Known {
    /// Reported as a success: nothing can change.
    Done,
    /// A result whose call was not read yet, or is not kept any more.
    Result { outcome: Outcome, reported: Option<bool>, seen: Timestamp },
    /// A call.
    Call(Box<Pending>),
}

impl Pending {
    /// The outcome, when the log does not have it yet.
    pub(crate) fn news(&self) -> Option<Outcome> {
        let outcome = self.outcome?;
        let known = self.reported.is_some_and(|reported| reported || !outcome.ok);
        (!known).then_some(outcome)
    }

    pub(crate) fn merge(&mut self, new: Self) {
        // Ties are broken by content, so that the order of reading changes nothing.
        let time =
            |call: &Self| (call.ts_of_end, call.ts, call.version.clone(), call.agent.clone());
        let name = |call: &Self| (!call.name_of_end, call.ts, call.tool.clone());
        let (earlier, truer) = (time(&new) < time(self), name(&new) < name(self));
        if self.reported.is_none() && !self.claims.contains(&new.claims[0]) {
            self.claims.extend(new.claims);
        }
        if truer {
            (self.tool, self.raw, self.via) = (new.tool, new.raw, new.via);
            (self.server, self.name_of_end) = (new.server, new.name_of_end);
        }
        if earlier {
            (self.ts, self.ts_of_end) = (new.ts, new.ts_of_end);
            (self.version, self.agent) = (new.version, new.agent);
        }
    }
}

impl Known {
    /// Whether it is a call that waits for its result.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Call(call) if call.outcome.is_none())
    }

    /// Forgets what waited long enough; false when nothing is left.
    pub(crate) fn age(&mut self, now: Timestamp) -> bool {
        let old = |seen: Timestamp| now.unix_ms().saturating_sub(seen.unix_ms()) > PATIENCE_MS;
        match self {
            Self::Done => {}
            Self::Result { reported, seen, .. } => return reported.is_some() || !old(*seen),
            Self::Call(call) => match call.outcome {
                Some(outcome) if outcome.ok => *self = Self::Done,
                Some(outcome) if old(call.seen) => {
                    *self = Self::Result { outcome, reported: call.reported, seen: call.seen };
                }
                None if old(call.seen) => return false,
                _ => {}
            },
        }
        true
    }
}

/// What is known wins over a guess, success over failure, then the earlier result over the later.
pub(crate) fn better(a: Outcome, b: Outcome) -> Outcome {
    let rank = |o: &Outcome| (o.why.is_inferred(), !o.ok, o.ts.is_none(), o.ts, o.why as u8, o.ms);
    if rank(&b) < rank(&a) { b } else { a }
}

pub(crate) fn drop_oldest_orphans(known: &mut ByHash<Known>) {
    let orphan = |(key, known): (&u128, &Known)| match known {
        Known::Result { reported: None, seen, .. } => Some((*seen, *key)),
        _ => None,
    };
    let mut orphans: Vec<_> = known.iter().filter_map(orphan).collect();
    if let Some(excess) = orphans.len().checked_sub(ORPHANS) {
        orphans.sort_unstable();
        for (_, key) in &orphans[..excess] {
            known.remove(key);
        }
    }
}
