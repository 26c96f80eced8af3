//! Reports what the working set saved, and how calls, searches and the pipeline fared.
//!
//! Reads the log or operands, `working-set.json` and `catalog.json`. Writes nothing but stdout.
//! Invariant: every figure of the text is in the JSON, under one name.
//! Deliberately absent: any figure that is not counted or measured, except tokens, which say by
//! what they were counted.

mod frontier;
mod groups;
mod html;
mod outcome;
mod prometheus;
mod records;
mod report;
mod sections;
mod sizes;
#[cfg(test)]
mod tests;
mod text;
mod timeline;
mod tokens;
mod usage;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};
use mws_catalog::Catalog;
use mws_cli::{Common, Exit, Failure, Output, Source, read_input};
use mws_event::{Timestamp, parse_when};
use mws_policy::WorkingSet;
use mws_state::{ReadError, publish_to, read_file};
use serde::Serialize;

use frontier::Cell;
use report::{Input, Report};
pub use tokens::Tokenizer;

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

    /// Write one page with plots there instead of printing
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Plot in the page what `mws-promote --replay --grid … --json` printed
    #[arg(long, value_name = "FILE", requires = "html")]
    pub replay: Option<PathBuf>,

    /// Write gauges for node_exporter's textfile collector there instead of printing
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,

    /// What counts tokens
    #[arg(long, value_enum, default_value_t)]
    pub tokenizer: Tokenizer,

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
        is_whole_log: cli.files.is_empty(),
        working_set: artifact(&state.working_set(), WorkingSet::parse),
        catalog,
        since,
        now,
        by: cli.by,
        gap_minutes: config.session_gap_minutes,
        tokenizer: cli.tokenizer,
    });
    write_files(cli, &report)?;
    print(cli, &report)?;
    Ok(Exit::Done)
}

fn write_files(cli: &Cli, report: &Report) -> Result<(), Failure> {
    if let Some(path) = &cli.html {
        let frontier = cli.replay.as_deref().map(frontier).transpose()?.unwrap_or_default();
        publish_to(path, html::page(report, &frontier).as_bytes()).map_err(Failure::failed)?;
    }
    if let Some(path) = &cli.prometheus {
        publish_to(path, prometheus::prometheus(report).as_bytes()).map_err(Failure::failed)?;
        // The collector runs as another user.
        let readable = fs::Permissions::from_mode(0o644);
        fs::set_permissions(path, readable).map_err(Failure::failed)?;
    }
    Ok(())
}

fn print(cli: &Cli, report: &Report) -> Result<(), Failure> {
    let mut out = Output::stdout();
    if cli.json {
        out.line(serde_json::to_string(report).map_err(Failure::failed)?)?;
    } else if cli.html.is_none() && cli.prometheus.is_none() {
        let color = cli.common.color.is_on(&std::io::stdout());
        out.bytes(text::text(report, color).as_bytes())?;
    }
    Ok(out.finish()?)
}

/// The policies of a replay; a file without one is not what it should be.
fn frontier(path: &Path) -> Result<Vec<Cell>, Failure> {
    let cannot = |e: &dyn std::fmt::Display| {
        Failure::usage(format!("--replay: cannot read {}: {e}", path.display()))
    };
    let (bytes, _) = read_file(path, FILE_MAX).map_err(|e| cannot(&e))?;
    let lines = bytes.split(|byte| *byte == b'\n');
    let cells: Vec<Cell> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    if cells.is_empty() {
        let hint = "no policy in it; make it with `mws-promote --replay --grid … --json`";
        return Err(cannot(&hint));
    }
    Ok(cells)
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
