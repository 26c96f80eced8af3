//! What was read so far, by client.
//!
//! Invariant: nothing is read but the state; numbers of files are those of files that are there.
//! Deliberately absent: sessions and tools, which are `mws-report`'s to count.

use std::collections::BTreeMap;

use mws_cli::{Exit, Failure, Output};
use mws_state::StateDir;

use crate::known::Known;
use crate::sources::SOURCES;
use crate::state::State;

/// Names of the columns, the first one aside.
const COLUMNS: [&str; 7] = ["files", "bytes", "calls", "open", "inferred", "bad lines", "salvaged"];

/// Prints a table.
///
/// # Errors
/// When stdout is closed or full.
pub(crate) fn print(dir: &StateDir) -> Result<Exit, Failure> {
    let (state, damage) = State::load(dir);
    if let Some(warning) = damage {
        tracing::warn!("{warning}.");
    }
    let rows = count(&state);
    let first = rows.keys().map(|client| client.len()).max().unwrap_or(0).max("client".len());
    let mut out = Output::stdout();
    let mut line = |client: &str, cells: [String; 7]| {
        let cells = cells
            .iter()
            .zip(COLUMNS)
            .map(|(cell, name)| format!("  {cell:>0$}", name.len().max(12)));
        out.line(format_args!("{client:<first$}{}", cells.collect::<String>()))
    };
    line("client", COLUMNS.map(str::to_owned))?;
    for (client, numbers) in rows {
        line(client, numbers.map(|n| n.to_string()))?;
    }
    out.finish()?;
    Ok(Exit::Done)
}

/// The numbers of each client, in the order of [`COLUMNS`].
pub(crate) fn count(state: &State) -> BTreeMap<&str, [u64; 7]> {
    let mut rows: BTreeMap<&str, [u64; 7]> =
        SOURCES.iter().map(|source| (source.name, [0; 7])).collect();
    for record in state.files.values() {
        let row = rows.entry(SOURCES[usize::from(record.source)].name).or_default();
        row[0] += 1;
        row[1] += record.offset;
        row[5] += u64::from(record.bad_lines);
        row[6] += u64::from(record.salvaged);
    }
    for (client, reported) in &state.kept.reported {
        let row = rows.entry(client).or_default();
        row[2] += reported.calls;
        row[4] += reported.inferred;
    }
    for known in state.kept.known.values().filter(|known| known.is_open()) {
        if let Known::Call(call) = known {
            rows.entry(&call.client).or_default()[3] += 1;
        }
    }
    rows
}
