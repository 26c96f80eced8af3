//! Reports what the working set saved, and how calls, searches and the pipeline fared.
//!
//! Reads the log or operands, `working-set.json` and `catalog.json`. Writes nothing but stdout.
//! Invariant: every figure of the text is in the JSON, under one name.
//! Deliberately absent: charts, and any figure that is not counted or measured, except tokens,
//! which are an estimate (bytes / 4) and say so.

mod groups;
mod records;
mod report;
mod sizes;
#[cfg(test)]
mod tests;
mod text;

use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use mws_catalog::Catalog;
use mws_cli::{Common, Exit, Failure, Output, Source, read_input};
use mws_event::{Timestamp, parse_when};
use mws_policy::WorkingSet;
use mws_state::{ReadError, read_file};
use serde::Serialize;

use report::{Input, Report};

const FILE_MAX: u64 = 256 * 1024 * 1024;

/// Show what is listed and what that saves, and the numbers of calls and searches.
#[derive(Debug, Clone, Parser)]
#[command(name = "mws-report", version)]
pub struct Cli {
    /// Only what happened since then: a span (30d, 12h), a date, RFC 3339 or @SECONDS
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,

    /// What a line of the calls table stands for
    #[arg(long, value_enum, default_value_t)]
    pub by: By,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// Events to read instead of the log; - is stdin
    #[arg(value_name = "FILE|-")]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "the help shows the flags themselves")]
    pub common: Common,
}

/// How calls are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// By tool, the most called first.
    #[default]
    Tool,
    /// By client, the one that called most first.
    Client,
    /// By day (UTC), the oldest first.
    Day,
}

/// Prints the report.
///
/// # Errors
/// Exit 2 for flags or operands that cannot be used, exit 1 when stdout cannot be written.
pub fn run(cli: &Cli) -> Result<Exit, Failure> {
    let (config, state) = cli.common.load()?;
    let now = mws_state::now();
    let since = since(cli, now)?;
    let (events, damage) = read_input(&Source::from_operands(&cli.files), &state)?;
    let catalog = artifact(&state.catalog(), |bytes| {
        Catalog::parse(bytes).map(|(catalog, _)| catalog).map_err(|e| e.to_string())
    });
    let report = Report::of(&Input {
        events: &events,
        damage,
        working_set: artifact(&state.working_set(), WorkingSet::parse),
        catalog,
        since,
        now,
        by: cli.by,
        gap_minutes: config.session_gap_minutes,
    });
    let mut out = Output::stdout();
    if cli.json {
        out.line(serde_json::to_string(&report).map_err(Failure::failed)?)?;
    } else {
        let color = cli.common.color.is_on(&std::io::stdout());
        out.bytes(text::text(&report, color).as_bytes())?;
    }
    out.finish()?;
    Ok(Exit::Done)
}

fn since(cli: &Cli, now: Timestamp) -> Result<Option<Timestamp>, Failure> {
    let when = cli.since.as_deref().map(|text| parse_when(text, now)).transpose();
    when.map_err(|e| Failure::usage(format!("--since: {e}")))
}

/// A published file, if it is there and whole; one warning when it is there and damaged.
fn artifact<T>(path: &Path, parse: impl FnOnce(&[u8]) -> Result<T, String>) -> Option<T> {
    let parsed = match read_file(path, FILE_MAX) {
        Ok((bytes, _)) => parse(&bytes),
        Err(ReadError::Missing) => return None,
        Err(e) => Err(e.to_string()),
    };
    parsed.inspect_err(|e| tracing::warn!("Left out {}: {e}.", path.display())).ok()
}
