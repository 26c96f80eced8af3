//! Where the result goes: published, to a file, to stdout, or nowhere but into a table.
//!
//! Invariant: with `-n` or `-o` the state directory is not touched.
//! Deliberately absent: how a table looks ([`crate::table`]).

use std::collections::BTreeSet;
use std::path::Path;

use mws_cli::{Exit, Failure, Output};
use mws_config::Thresholds;
use mws_event::Timestamp;
use mws_policy::{Decision, WorkingSet};
use mws_state::{StateDir, publish_to};

use crate::{Cli, publish, table};

/// What was decided.
pub(crate) struct Outcome {
    pub(crate) decisions: Vec<Decision>,
    pub(crate) set: WorkingSet,
    pub(crate) thresholds: Thresholds,
    pub(crate) as_of: Timestamp,
}

/// Writes what the flags ask for.
pub(crate) fn write(cli: &Cli, state: &StateDir, outcome: &Outcome) -> Result<Exit, Failure> {
    let listed = publish::published(state);
    let is_pending = listed != outcome.set.names().map(str::to_owned).collect();
    match cli.output.as_deref() {
        Some(path) if path != Path::new("-") => publish_to(path, &outcome.set.to_bytes())?,
        Some(_) => {}
        None if cli.publishes() => publish::publish(state, &outcome.set, &listed)?,
        None => {}
    }
    let mut out = Output::stdout();
    out.bytes(&text(cli, outcome, &listed))?;
    out.finish()?;
    let is_pending = is_pending && !cli.publishes();
    Ok(if cli.exit_code && is_pending { Exit::Pending } else { Exit::Done })
}

/// What goes to stdout.
pub(crate) fn text(cli: &Cli, outcome: &Outcome, listed: &BTreeSet<String>) -> Vec<u8> {
    if cli.output.as_deref() == Some(Path::new("-")) {
        return outcome.set.to_bytes();
    }
    let lines = match (cli.json, cli.dry_run) {
        (true, _) => outcome.decisions.iter().map(table::json_line).collect(),
        (false, true) => table::lines(outcome, listed),
        (false, false) => Vec::new(),
    };
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>().into_bytes()
}
