//! The published snapshot: reading it, replacing it, clearing old ones away.
//!
//! Invariant: `CURRENT` is written after the file that it names is whole on disk, and no reader is
//! left without its file: the newest three stay. Deliberately absent: what is in a snapshot.

use std::io;

use mws_catalog::Catalog;
use mws_search::{Current, FORMAT, Index, Options, SNAPSHOT_MAX, WordVectors};
use mws_state::{StateDir, publish, read_file};
use xxhash_rust::xxh3::xxh3_64;

/// Snapshots that stay after a new one is published, itself included.
const KEPT: usize = 3;

/// Reads the snapshot in force.
///
/// # Errors
/// Says what is damaged; it is replaced by the next publication.
pub(crate) fn load(state: &StateDir) -> Result<Option<(Current, Index)>, String> {
    let dir = state.index_dir();
    mws_search::load(&|name| read_file(&dir.join(name), SNAPSHOT_MAX).ok().map(|(bytes, _)| bytes))
}

/// Whether an index is of this catalog, these options and this table of word vectors.
pub(crate) fn fits(
    index: &Index,
    catalog: &Catalog,
    options: &Options,
    vectors: Option<&WordVectors>,
) -> bool {
    index.catalog_hash() == catalog.hash()
        && index.options_hash() == options.hash()
        && index.vectors_hash() == vectors.map(WordVectors::hash)
}

/// Puts a snapshot in force.
///
/// # Errors
/// When a file cannot be written; what was in force stays so.
pub(crate) fn replace(state: &StateDir, index: &Index, bytes: &[u8]) -> io::Result<Current> {
    let generation = generations(state).last().map_or(1, |(newest, _)| newest.saturating_add(1));
    let checksum = xxh3_64(bytes);
    let current = Current {
        file: format!("gen-{generation}-{checksum:016x}.mwsx"),
        generation,
        checksum,
        catalog_hash: index.catalog_hash(),
        format: FORMAT,
    };
    publish(&state.index_dir().join(&current.file), bytes)?;
    publish(&state.index_current(), current.to_string().as_bytes())?;
    Ok(current)
}

/// Removes old snapshots, and what a killed run left half written.
pub(crate) fn clear(state: &StateDir) {
    let dir = state.index_dir();
    let old = generations(state);
    let names = old.iter().rev().skip(KEPT).map(|(_, name)| name.clone());
    let listed = std::fs::read_dir(&dir).into_iter().flatten().flatten();
    let files = listed.filter_map(|entry| entry.file_name().into_string().ok());
    let torn = files.filter(|name| name.starts_with('.') && name.contains(".tmp."));
    for name in names.chain(torn) {
        if let Err(e) = std::fs::remove_file(dir.join(&name)) {
            tracing::debug!("cannot remove {name}: {e}.");
        }
    }
}

/// The snapshots on disk, oldest first.
fn generations(state: &StateDir) -> Vec<(u64, String)> {
    let listed = std::fs::read_dir(state.index_dir()).into_iter().flatten().flatten();
    let mut found: Vec<(u64, String)> = listed
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let rest = name.strip_prefix("gen-")?.strip_suffix(".mwsx")?;
            let generation = rest.split('-').next()?.parse().ok()?;
            Some((generation, name))
        })
        .collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_three_stay_and_the_last_is_in_force() {
        let tmp = tempfile::tempdir().unwrap();
        let state = StateDir::at(tmp.path().join("s"));
        state.create().unwrap();
        assert!(load(&state).unwrap().is_none());
        let index = Index::default();
        for _ in 0..5 {
            replace(&state, &index, &index.to_snapshot()).unwrap();
        }
        publish(&state.index_dir().join(".gen-9.mwsx.tmp.1.0"), b"torn").unwrap();
        clear(&state);
        let left: Vec<u64> = generations(&state).into_iter().map(|(number, _)| number).collect();
        assert_eq!(left, [3, 4, 5]);
        assert_eq!(load(&state).unwrap().unwrap().0.generation, 5);
        assert_eq!(std::fs::read_dir(state.index_dir()).unwrap().count(), 4);
    }

    #[test]
    fn damage_is_named() {
        let tmp = tempfile::tempdir().unwrap();
        let state = StateDir::at(tmp.path().join("s"));
        let index = Index::default();
        let current = replace(&state, &index, &index.to_snapshot()).unwrap();
        publish(&state.index_dir().join(&current.file), b"MWSX").unwrap();
        assert!(load(&state).unwrap_err().contains("damaged"));
        publish(&state.index_current(), b"gen").unwrap();
        assert!(load(&state).unwrap_err().contains("CURRENT"));
    }
}
