//! Requests that wait for their client to come back with an answer.
//!
//! Invariant: a handle cannot be guessed, is good for one use, for one request and for a limited
//! time; after it the upstream's request is cancelled.
//! Deliberately absent: anything that outlives the program.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::flight::{Ask, Flight, Refusal};
use crate::lock::lock;

/// Requests that wait at one time; beyond it the oldest is given up.
const MOST: usize = 1024;

/// What is done when the client comes back.
pub(super) enum Waits {
    /// The upstream gets the answer to its question.
    Answer(Box<Flight>, Ask),
    /// The request is sent again, once every URL was accepted; else this is the answer.
    Again { keys: Vec<String>, error: Refusal },
}

/// All requests that wait.
pub(super) struct Parked {
    table: Mutex<HashMap<String, Entry>>,
    patience: Duration,
}

struct Entry {
    digest: String,
    since: std::time::Instant,
    waits: Waits,
}

impl Parked {
    pub(super) fn new(patience: Duration) -> Self {
        Self { table: Mutex::default(), patience }
    }

    /// Keeps it; the handle under which it is found.
    pub(super) fn put(self: &Arc<Self>, digest: String, waits: Waits) -> String {
        let handle = format!("{:016x}{:016x}", mws_state::random_u64(), mws_state::random_u64());
        let entry = Entry { digest, since: std::time::Instant::now(), waits };
        let dropped = {
            let mut table = lock(&self.table);
            let oldest = table.iter().min_by_key(|(_, entry)| entry.since);
            let oldest = oldest.filter(|_| table.len() >= MOST).map(|(handle, _)| handle.clone());
            let dropped = oldest.and_then(|handle| table.remove(&handle));
            table.insert(handle.clone(), entry);
            dropped
        };
        drop(dropped);
        let (this, key) = (Arc::clone(self), handle.clone());
        tokio::spawn(async move {
            tokio::time::sleep(this.patience).await;
            let late = lock(&this.table).remove(&key);
            drop(late);
        });
        handle
    }

    /// What waits under this handle for this request.
    pub(super) fn take(&self, handle: &str, digest: &str) -> Option<Waits> {
        let mut table = lock(&self.table);
        if table.get(handle)?.digest != digest {
            return None;
        }
        table.remove(handle).map(|entry| entry.waits)
    }
}
