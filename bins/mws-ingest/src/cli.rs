//! The command line of `mws-ingest`.
//!
//! Invariant: `-n` and `-o` never touch the state directory.
//! Deliberately absent: settings of the pipeline; they are in the configuration file.

use std::path::PathBuf;

use clap::Parser;
use mws_cli::Common;

/// Read client transcripts and append their tool calls to the event log
///
/// Only what is new since the last run is read. A call is appended once its result is known.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    /// Pass over calls made before WHEN (30d, 2026-03-01, RFC 3339); a later run comes back to
    /// them only with --from-start
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,

    /// Read only transcripts of this type; may be repeated
    #[arg(long, value_name = "NAME")]
    pub source: Vec<String>,

    /// Forget what was read before and read everything again; calls that are in the log are not
    /// appended once more
    #[arg(long)]
    pub from_start: bool,

    /// Read with N threads [default: one for each core]
    #[arg(short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,

    /// Go on, and append calls within a second of their results, until stopped
    #[arg(short, long, conflicts_with_all = ["dry_run", "output", "since"])]
    pub follow: bool,

    /// Print what was read so far, by client, and do nothing else
    #[arg(long, conflicts_with_all = ["follow", "dry_run", "output", "from_start"])]
    pub stats: bool,

    /// Touch nothing; print what would be appended, in numbers
    #[arg(short = 'n', long, conflicts_with = "output")]
    pub dry_run: bool,

    /// Touch nothing; write the events to FILE, or to stdout for -
    #[arg(short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Transcript files or directories to read instead of the configured roots
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Flags in common.
    #[command(flatten)]
    pub common: Common,
}
