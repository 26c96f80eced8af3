//! The command line.
//!
//! Invariant: a flag overrides one setting of the configuration for this run.
//! Deliberately absent: reading anything.

use std::path::{Path, PathBuf};

use clap::Parser;
use mws_cli::{Common, Failure};
use mws_config::{Rule, Thresholds};
use mws_event::{Timestamp, parse_when};

/// Decide which tools are listed, and publish them as the working set.
///
/// A tool is listed when it succeeded in enough distinct sessions, stays while it is used, and
/// is listed anyway while it is pinned. The proxy picks the result up at its next tools/list.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "mws-promote", version)]
pub struct Cli {
    /// Distinct sessions with a success that promote a tool
    #[arg(long, value_name = "N")]
    pub min_sessions: Option<u32>,

    /// Successful calls that promote a tool
    #[arg(long, value_name = "N")]
    pub min_calls: Option<u32>,

    /// Days in which these are counted
    #[arg(long, value_name = "N")]
    pub window_days: Option<u32>,

    /// Days that a promoted tool stays after its last success
    #[arg(long, value_name = "N")]
    pub keep_days: Option<u32>,

    /// Days that a front-matter pin holds without a success
    #[arg(long, value_name = "N")]
    pub pin_decay_days: Option<u32>,

    /// Choose by sessions and calls (thresholds), or by what listing costs against searching (value)
    #[arg(long, value_name = "RULE")]
    pub policy: Option<Rule>,

    /// The most tokens that the listed definitions may have
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u32>,

    /// Walk the history day by day: what would have been listed, and what that was worth
    #[arg(long, conflicts_with_all = ["output", "exit_code", "explain"])]
    pub replay: bool,

    /// With --replay: compare all these values, such as minSessions=1..4 or windowDays=7,14,30
    #[arg(long, value_name = "KEY=VALUES", requires = "replay")]
    pub grid: Vec<String>,

    /// Tell the story of one tool, with dates
    #[arg(long, value_name = "TOOL", conflicts_with_all = ["output", "exit_code"])]
    pub explain: Option<String>,

    /// Accept the present definition of a tool that changed
    #[arg(long, value_name = "TOOL", conflicts_with_all = ["output", "dry_run", "replay", "explain"])]
    pub accept: Vec<String>,

    /// Tools that the upstream lists [default: catalog.json of the state directory]
    #[arg(long, value_name = "FILE")]
    pub catalog: Option<PathBuf>,

    /// Decide as at that time: a date, RFC 3339, @SECONDS or a span such as 7d [default: now]
    #[arg(long, value_name = "WHEN")]
    pub as_of: Option<String>,

    /// Print the decision on each tool and touch nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,

    /// With -n or -o: exit 3 when other tools would be listed than are now
    #[arg(long)]
    pub exit_code: bool,

    /// Print one JSON object for each tool called or pinned
    #[arg(long)]
    pub json: bool,

    /// Write the working set there instead of publishing it; - is stdout
    #[arg(short, long, value_name = "FILE|-")]
    pub output: Option<PathBuf>,

    /// Events to read instead of the log; - is stdin
    #[arg(value_name = "FILE|-")]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the help shows the flags themselves")]
    pub common: Common,
}

impl Cli {
    /// Whether this run replaces the published set.
    pub(crate) fn publishes(&self) -> bool {
        !self.dry_run && self.output.is_none() && !self.replay && self.explain.is_none()
    }

    pub(crate) fn check_output(&self) -> Result<(), Failure> {
        if self.dry_run && self.output.as_deref().is_some_and(|path| path != Path::new("-")) {
            return Err(Failure::usage("-n touches nothing, so it writes no file either")
                .hint("leave -n away: with -o nothing is published"));
        }
        if self.json && self.output.as_deref() == Some(Path::new("-")) {
            return Err(Failure::usage("--json and -o - would both write to stdout")
                .hint("use -n --json for the decisions, -o - for the working set"));
        }
        Ok(())
    }

    pub(crate) fn as_of(&self) -> Result<Timestamp, Failure> {
        let now = mws_state::now();
        let when = self.as_of.as_deref().map(|text| parse_when(text, now)).transpose();
        Ok(when.map_err(|e| Failure::usage(format!("--as-of: {e}")))?.unwrap_or(now))
    }

    pub(crate) fn thresholds(&self, configured: &Thresholds) -> Thresholds {
        Thresholds {
            min_sessions: self.min_sessions.unwrap_or(configured.min_sessions),
            min_calls: self.min_calls.unwrap_or(configured.min_calls),
            window_days: self.window_days.unwrap_or(configured.window_days),
            keep_days: self.keep_days.unwrap_or(configured.keep_days),
            pin_decay_days: self.pin_decay_days.unwrap_or(configured.pin_decay_days),
            rule: self.policy.unwrap_or(configured.rule),
            max_tokens: self.max_tokens.or(configured.max_tokens),
            cache_discount: configured.cache_discount,
        }
    }
}
