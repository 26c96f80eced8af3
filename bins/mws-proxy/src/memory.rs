//! What the proxy remembers of its upstreams across restarts: `upstream.json`.
//!
//! Invariant: an entry is found by the hash of the URL or command line, so neither is written down.
//! Deliberately absent: tools; the catalog file has them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use mws_state::{StateDir, hash_hex, publish_if_changed, read_file};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::control::Handshake;
use crate::lock::lock;
use crate::rpc::Era;

/// Entries kept; a change of configuration must not make the file grow for ever.
const ENTRIES: usize = 16;
const FILE_MAX: u64 = 4 * 1024 * 1024;

/// One upstream as last seen.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Protocol version of the last negotiation, which says the era.
    #[serde(default)]
    pub(crate) verdict: Option<String>,
    /// Result of `initialize`, as sent.
    #[serde(default)]
    pub(crate) initialize: Option<Box<RawValue>>,
    /// Result of `server/discover`, as sent.
    #[serde(default)]
    pub(crate) discover: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    #[serde(default)]
    v: u32,
    #[serde(default)]
    upstreams: BTreeMap<String, Entry>,
    /// Whose tools `catalog.json` holds.
    #[serde(default)]
    catalog: Option<Held>,
}

/// The owner of a catalog, and which catalog.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    upstream: String,
    hash: String,
}

/// The entry of the configured upstream.
#[derive(Debug)]
pub(crate) struct Memory {
    state: StateDir,
    key: String,
    entry: Mutex<Entry>,
    /// Held while the file is read, changed and written.
    writing: Arc<Mutex<()>>,
}

impl Memory {
    /// Reads what is known of `identity`; a damaged file is as good as none.
    pub(crate) fn open(state: StateDir, identity: &str) -> Self {
        let key = hash_hex(identity.as_bytes());
        let entry = read(&state).upstreams.remove(&key).unwrap_or_default();
        Self { state, key, entry: Mutex::new(entry), writing: Arc::default() }
    }

    /// False when the catalog on disk is known to be another one than this upstream's.
    pub(crate) fn owns_catalog(&self, hash: u64) -> bool {
        read(&self.state).catalog.is_none_or(|held| held == self.held(hash))
    }

    /// Notes which catalog `catalog.json` is about to hold: before it is written, so that no kill in
    /// between leaves another upstream's tools under this name. Reads and writes files.
    pub(crate) fn keep_catalog(&self, hash: u64) {
        let entry = self.entry();
        change(&self.state, &self.writing, |file| {
            file.catalog = Some(self.held(hash));
            // Somebody may have deleted the file.
            file.upstreams.insert(self.key.clone(), entry);
        });
    }

    fn held(&self, hash: u64) -> Held {
        Held { upstream: self.key.clone(), hash: format!("{hash:016x}") }
    }

    pub(crate) fn entry(&self) -> Entry {
        lock(&self.entry).clone()
    }

    /// Keeps a handshake. `verdict` is false for one that was not the outcome of a probe.
    pub(crate) fn keep(&self, shaken: &Handshake, verdict: bool) {
        let raw = RawValue::from_string(shaken.result.clone()).ok();
        let changed = {
            let mut entry = lock(&self.entry);
            let slot = match shaken.era {
                Era::Modern => &mut entry.discover,
                Era::Session => &mut entry.initialize,
            };
            let mut changed = slot.as_ref().map(|r| r.get()) != raw.as_ref().map(|r| r.get());
            *slot = raw;
            if verdict && entry.verdict.as_ref() != Some(&shaken.version) {
                entry.verdict = Some(shaken.version.clone());
                changed = true;
            }
            changed
        };
        if changed {
            self.save();
        }
    }

    /// Writes beside the request: an fsync must not delay it.
    fn save(&self) {
        let (state, writing) = (self.state.clone(), Arc::clone(&self.writing));
        let (key, entry) = (self.key.clone(), self.entry());
        tokio::task::spawn_blocking(move || {
            change(&state, &writing, |file| {
                file.upstreams.insert(key.clone(), entry);
                while file.upstreams.len() > ENTRIES {
                    let other = file.upstreams.keys().find(|k| **k != key).cloned();
                    let Some(other) = other else { break };
                    file.upstreams.remove(&other);
                }
            });
        });
    }
}

fn change(state: &StateDir, writing: &Mutex<()>, edit: impl FnOnce(&mut File)) {
    let _alone = lock(writing);
    let mut file = read(state);
    edit(&mut file);
    write(state, file);
}

fn write(state: &StateDir, file: File) {
    let bytes = serde_json::to_vec(&File { v: 1, ..file }).unwrap_or_default();
    if let Err(e) = publish_if_changed(&state.upstream(), &bytes) {
        tracing::warn!("Cannot keep what is known of the upstream: {e}.");
    }
}

fn read(state: &StateDir) -> File {
    let bytes = read_file(&state.upstream(), FILE_MAX).map(|(bytes, _)| bytes).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_handshake_is_found_again_under_the_same_identity_only() {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::at(tmp.path().join("state"));
        state.create().expect("created");
        let result = r#"{"protocolVersion":"2025-06-18","z":1.10}"#;
        let shaken =
            Handshake { era: Era::Session, version: "2025-06-18".into(), result: result.into() };
        Memory::open(state.clone(), "cmd --token s3cret").keep(&shaken, true);
        for _ in 0..200 {
            if state.upstream().exists() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let entry = Memory::open(state.clone(), "cmd --token s3cret").entry();
        assert_eq!(entry.verdict.as_deref(), Some("2025-06-18"));
        assert_eq!(entry.initialize.map(|r| r.get().to_owned()).as_deref(), Some(result));
        assert!(Memory::open(state.clone(), "other").entry().verdict.is_none());
        let text = std::fs::read_to_string(state.upstream()).expect("read");
        assert!(!text.contains("s3cret"));
    }
}
