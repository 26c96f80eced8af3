//! Tables whose keys are hashes already.
//!
//! Invariant: a hash is not hashed again.
//! Deliberately absent: a defence against chosen keys; they are hashes of what is in transcripts.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::xxh3_64;

/// A table by hash.
pub(crate) type ByHash<V> = HashMap<u128, V, Plain>;

/// Takes keys as they are.
pub(crate) type Plain = BuildHasherDefault<Hashed>;

#[derive(Debug, Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}
