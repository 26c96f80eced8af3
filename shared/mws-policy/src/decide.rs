//! From usage to a decision, with its reason, for each tool that was called or is pinned.
//!
//! Invariant: one decision a tool, by name. The reasons are tried in one order: not in the
//! catalog, pinned by the configuration, pinned by a file and used, member, and what is missing.
//! Deliberately absent: what was published before. The log alone decides.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mws_config::Thresholds;
use mws_event::{DAY_MS, Timestamp};

use crate::membership::{Standing, days_ms, standing};
use crate::usage::sessions;
use crate::{CountedCall, Usage, usage_by_tool};

/// Tools that somebody wants listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    /// From the configuration: listed always.
    pub config: Vec<String>,
    /// From front matter: listed while they are used.
    pub files: Vec<FilePin>,
}

/// A tool named in the front matter of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePin {
    /// The tool's upstream name.
    pub tool: String,
    /// The file, as to be shown.
    pub file: String,
}

/// What was decided about one tool, and on which figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Upstream name.
    pub tool: String,
    /// Whether it is listed, and why or why not.
    pub verdict: Verdict,
    /// Distinct sessions with a success, over all history.
    pub sessions: u64,
    /// Successful calls, over all history.
    pub calls: u64,
    /// Failed calls, over all history.
    pub failed: u64,
    /// Time of the last success.
    pub last_ok: Option<Timestamp>,
    /// Distinct sessions with a success in the last `windowDays`.
    pub window_sessions: u64,
    /// Successful calls in the last `windowDays`.
    pub window_calls: u64,
    /// Who pins it: `config`, else the first file.
    pub pinned_by: Option<String>,
}

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
}

impl Verdict {
    /// Whether the tool is listed.
    pub fn is_listed(self) -> bool {
        matches!(self, Self::Pinned | Self::Promoted | Self::Kept)
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
        }
    }
}

/// Decides on every tool that `calls` or `pins` name, sorted by name. `calls` must lie before
/// `as_of`; without `catalog` nothing is found missing.
pub fn decide(
    calls: &[CountedCall<'_>],
    pins: &Pins,
    catalog: Option<&BTreeSet<&str>>,
    thresholds: &Thresholds,
    as_of: Timestamp,
) -> Vec<Decision> {
    let mut usage = usage_by_tool(calls);
    let pinned_by = owners(pins);
    for tool in pinned_by.keys() {
        usage.entry(tool).or_default();
    }
    let judge = Judge { catalog, thresholds, as_of };
    let decision =
        |(tool, usage): (&str, Usage)| judge.decision(tool, &usage, pinned_by.get(tool).copied());
    usage.into_iter().map(decision).collect()
}

#[derive(Debug, Clone, Copy)]
enum PinnedBy<'a> {
    Config,
    File(&'a str),
}

/// Who pins each tool: the configuration before files, of files the first by name.
fn owners(pins: &Pins) -> BTreeMap<&str, PinnedBy<'_>> {
    let mut files: Vec<&FilePin> = pins.files.iter().collect();
    files.sort_unstable_by(|a, b| b.cmp(a));
    let by_file = files.into_iter().map(|pin| (pin.tool.as_str(), PinnedBy::File(&pin.file)));
    let by_config = pins.config.iter().map(|tool| (tool.as_str(), PinnedBy::Config));
    by_file.chain(by_config).collect()
}

struct Judge<'a> {
    catalog: Option<&'a BTreeSet<&'a str>>,
    thresholds: &'a Thresholds,
    as_of: Timestamp,
}

impl Judge<'_> {
    fn decision(&self, tool: &str, usage: &Usage, pin: Option<PinnedBy<'_>>) -> Decision {
        let window = usage.since(self.days_back(self.thresholds.window_days));
        let (window_sessions, window_calls) = (sessions(window), window.len() as u64);
        let verdict = if self.catalog.is_some_and(|names| !names.contains(tool)) {
            Verdict::NotInCatalog
        } else {
            self.verdict(usage, pin, window_sessions, window_calls)
        };
        Decision {
            tool: tool.to_owned(),
            verdict,
            sessions: sessions(&usage.successes),
            calls: usage.successes.len() as u64,
            failed: usage.failed,
            last_ok: usage.last_ok(),
            window_sessions,
            window_calls,
            pinned_by: pin.map(|pin| match pin {
                PinnedBy::Config => "config".to_owned(),
                PinnedBy::File(file) => file.to_owned(),
            }),
        }
    }

    fn verdict(
        &self,
        usage: &Usage,
        pin: Option<PinnedBy<'_>>,
        sessions: u64,
        calls: u64,
    ) -> Verdict {
        let t = self.thresholds;
        let meets = sessions >= u64::from(t.min_sessions) && calls >= u64::from(t.min_calls);
        let used_since = |days| usage.last_ok().is_some_and(|last| last >= self.days_back(days));
        match (pin, standing(&usage.successes, t, self.as_of)) {
            (Some(PinnedBy::Config), _) => Verdict::Pinned,
            (Some(PinnedBy::File(_)), _) if used_since(t.pin_decay_days) => Verdict::Pinned,
            (_, Standing::Member) if meets => Verdict::Promoted,
            (_, Standing::Member) => Verdict::Kept,
            (Some(PinnedBy::File(_)), _) => Verdict::StalePin,
            (None, standing) => self.missing(usage, standing, sessions, calls),
        }
    }

    /// Why a tool that nobody pins is outside.
    fn missing(&self, usage: &Usage, standing: Standing, sessions: u64, calls: u64) -> Verdict {
        let Thresholds { min_sessions, min_calls, window_days, keep_days, .. } = *self.thresholds;
        let Some(last_ok) = usage.last_ok() else { return Verdict::NoSuccess };
        if standing == Standing::FellOut {
            let days_ago = (self.as_of.unix_ms() - last_ok.unix_ms()) / DAY_MS;
            return Verdict::FellOut { last_ok, days_ago, keep_days };
        }
        if sessions < u64::from(min_sessions) {
            return Verdict::TooFewSessions { have: sessions, need: min_sessions, window_days };
        }
        Verdict::TooFewCalls { have: calls, need: min_calls, window_days }
    }

    fn days_back(&self, days: u32) -> Timestamp {
        self.as_of.plus_ms(-days_ms(days))
    }
}
