//! Ids of calls to other tools, whose results need not be parsed.
//!
//! Invariant: ids that are not unique beyond their session are never in it.
//! Deliberately absent: the ids themselves; a hash of each is enough.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_64;

use crate::hashed::Plain;
use crate::sources::SHORT_ID;

/// The ids of one file.
#[derive(Debug, Default)]
pub(crate) struct Foreign(HashSet<u64, Plain>);

impl Foreign {
    /// Adds the id of a call to another tool.
    pub(crate) fn insert(&mut self, id: &[u8]) {
        if id.len() >= SHORT_ID {
            self.0.insert(xxh3_64(id));
        }
    }

    /// Whether it is the id of such a call.
    pub(crate) fn contains(&self, id: &[u8]) -> bool {
        self.0.contains(&xxh3_64(id))
    }
}
