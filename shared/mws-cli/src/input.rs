//! Events from where the command line says: the log, files, or stdin for `-`.
//!
//! Invariant: stdin is read only for `-`; operands replace the log.
//! Deliberately absent: guessing from whether stdin is a terminal.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use mws_event::Event;
use mws_state::{Damage, StateDir, for_each_event, parse_events};

use crate::Failure;

/// Where events come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The log of the state directory.
    Log,
    /// Operands, in order.
    Operands(Vec<PathBuf>),
}

impl Source {
    /// The operands of a command line; none means the log.
    pub fn from_operands(operands: &[PathBuf]) -> Self {
        if operands.is_empty() { Self::Log } else { Self::Operands(operands.to_vec()) }
    }
}

/// Reads all events of `source`.
///
/// # Errors
/// As [`each_event`].
pub fn read_input(source: &Source, state: &StateDir) -> Result<(Vec<Event>, Damage), Failure> {
    let mut events = Vec::new();
    let damage = each_event(source, state, |event| events.push(event))?;
    Ok((events, damage))
}

/// Hands each event of `source` to `each`, without keeping it.
///
/// # Errors
/// When an operand cannot be opened or read: exit 2, naming it.
pub fn each_event(
    source: &Source,
    state: &StateDir,
    mut each: impl FnMut(Event),
) -> Result<Damage, Failure> {
    let Source::Operands(operands) = source else { return Ok(for_each_event(state, each)) };
    let mut damage = Damage::default();
    for operand in operands {
        let read = if operand == Path::new("-") {
            let stdin = io::stdin();
            if stdin.is_terminal() {
                crate::output::say("reading events from the terminal; end with Ctrl-D");
            }
            parse_events(stdin.lock(), &mut each, &mut damage)
        } else {
            File::open(operand).and_then(|f| parse_events(f, &mut each, &mut damage))
        };
        read.map_err(|e| Failure::usage(format!("cannot read {}: {e}", operand.display())))?;
    }
    Ok(damage)
}
