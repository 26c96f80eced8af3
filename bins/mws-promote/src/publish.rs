//! Replacing `working-set.json` and saying so in the log.
//!
//! Invariant: one run at a time, from reading the log to publishing, so that an older decision
//! never replaces a newer one. Equal bytes: nothing is written and nothing is logged.
//! Deliberately absent: reading the event back. It is a record, not an input.

use std::collections::BTreeSet;

use mws_cli::Failure;
use mws_event::{Event, Kind, Record};
use mws_policy::WorkingSet;
use mws_state::{Appender, ReadError, StageLock, StateDir, publish_if_changed, read_file};

const WORKING_SET_MAX: u64 = 16 * 1024 * 1024;

/// Takes the lock of this stage.
pub(crate) fn lock(state: &StateDir) -> Result<StageLock, Failure> {
    let lock = StageLock::acquire(state, "promote").map_err(Failure::failed)?;
    lock.ok_or_else(|| {
        Failure::failed("another mws-promote is at work on the same state directory")
            .hint("run it again when that one has ended")
    })
}

/// The names that are published now; none when there is no usable artifact.
pub(crate) fn published(state: &StateDir) -> BTreeSet<String> {
    let path = state.working_set();
    let set = match read_file(&path, WORKING_SET_MAX) {
        Ok((bytes, _)) => WorkingSet::parse(&bytes),
        Err(ReadError::Missing) => return BTreeSet::new(),
        Err(e) => Err(e.to_string()),
    };
    match set {
        Ok(set) => set.names().map(str::to_owned).collect(),
        Err(e) => {
            tracing::warn!("Taking {} as empty: {e}.", path.display());
            BTreeSet::new()
        }
    }
}

/// Publishes `set`; `before` are the names published so far.
pub(crate) fn publish(
    state: &StateDir,
    set: &WorkingSet,
    before: &BTreeSet<String>,
) -> Result<(), Failure> {
    let bytes = set.to_bytes();
    if !publish_if_changed(&state.working_set(), &bytes).map_err(Failure::failed)? {
        tracing::info!("Nothing changed.");
        return Ok(());
    }
    let after: BTreeSet<String> = set.names().map(str::to_owned).collect();
    let promoted: Vec<String> = after.difference(before).cloned().collect();
    let demoted: Vec<String> = before.difference(&after).cloned().collect();
    tracing::info!(
        "Published {} tools: {} came in, {} went out.",
        after.len(),
        promoted.len(),
        demoted.len()
    );
    let now = mws_state::now();
    let hash = mws_state::hash_hex(&bytes);
    let kind = Kind::WorkingSetPublished { hash, tools: after.len() as u64, promoted, demoted };
    let mut event = Event::Record(Record::new(now, kind));
    event.set_id(|| mws_state::writer_id().next_id());
    let append = || {
        let mut log = Appender::open(state)?;
        log.append(&event.to_line(), now)?;
        log.sync()
    };
    append().map_err(|e| Failure::failed(format!("published, but cannot log it: {e}")))
}
