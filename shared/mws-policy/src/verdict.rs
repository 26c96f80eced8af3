//! Why a tool is listed or not.
//!
//! Invariant: the text form is the reason in words, with the figures that it rests on.
//! Deliberately absent: how the verdict is reached ([`crate::decide`]).

use std::fmt;

use mws_event::Timestamp;

/// Why a tool is listed or not. The text form is the reason in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Listed: pinned.
    Pinned,
    /// Listed: meets the thresholds.
    Promoted,
    /// Listed: met them once and was used since.
    Kept,
    /// Not listed: the upstream does not list it.
    NotInCatalog,
    /// Not listed: pinned by a file, but not used.
    StalePin,
    /// Not listed: no call succeeded.
    NoSuccess,
    /// Not listed: was in, and not used for too long.
    FellOut {
        /// Time of the last success.
        last_ok: Timestamp,
        /// Whole days since then.
        days_ago: i64,
        /// The threshold.
        keep_days: u32,
    },
    /// Not listed: too few sessions in the window.
    TooFewSessions {
        /// Sessions in the window.
        have: u64,
        /// The threshold.
        need: u32,
        /// Length of the window.
        window_days: u32,
    },
    /// Not listed: too few calls in the window.
    TooFewCalls {
        /// Calls in the window.
        have: u64,
        /// The threshold.
        need: u32,
        /// Length of the window.
        window_days: u32,
    },
    /// Not listed, by the rule of value: listing it costs at least what it saves.
    NotWorth {
        /// Tokens of searches that listing would have saved in the window.
        saved: u64,
        /// Tokens that listing would have cost.
        cost: u64,
        /// Length of the window.
        window_days: u32,
    },
    /// Not listed: the tokens go to tools that save more for each of them.
    Cut {
        /// What listing it costs.
        tokens: u64,
        /// The most that may be listed.
        max_tokens: u32,
    },
    /// Not listed: its definition is not the accepted one.
    Changed,
}

impl Verdict {
    /// Whether the tool is listed.
    pub fn is_listed(self) -> bool {
        matches!(self, Self::Pinned | Self::Promoted | Self::Kept)
    }

    /// One word for the rule that applied.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Promoted => "promoted",
            Self::Kept => "kept",
            Self::NotInCatalog => "not_in_catalog",
            Self::StalePin => "stale_pin",
            Self::NoSuccess => "no_success",
            Self::FellOut { .. } => "fell_out",
            Self::TooFewSessions { .. } => "too_few_sessions",
            Self::TooFewCalls { .. } => "too_few_calls",
            Self::NotWorth { .. } => "not_worth",
            Self::Cut { .. } => "cut",
            Self::Changed => "definition_changed",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pinned => f.write_str("pinned"),
            Self::Promoted => f.write_str("promoted"),
            Self::Kept => f.write_str("kept"),
            Self::NotInCatalog => f.write_str("not in the catalog"),
            Self::StalePin => f.write_str("stale pin"),
            Self::NoSuccess => f.write_str("no successful call"),
            Self::FellOut { last_ok, days_ago, keep_days } => {
                let date = last_ok.date();
                write!(
                    f,
                    "fell out (last success {date}, {days_ago} days ago, keepDays {keep_days})"
                )
            }
            Self::TooFewSessions { have, need, window_days } => {
                write!(f, "too few sessions ({have} of {need} in {window_days} days)")
            }
            Self::TooFewCalls { have, need, window_days } => {
                write!(f, "too few calls ({have} of {need} in {window_days} days)")
            }
            Self::NotWorth { saved, cost, window_days } => {
                write!(f, "saves {saved} tokens, costs {cost} in {window_days} days")
            }
            Self::Cut { tokens, max_tokens } => {
                write!(f, "cut ({tokens} tokens do not fit into maxTokens {max_tokens})")
            }
            Self::Changed => f.write_str("its definition changed and is not accepted"),
        }
    }
}
