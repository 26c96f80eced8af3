//! Ranking of tools for `search_tools`.
//!
//! Invariant: pure and deterministic. The same catalog, options and query give the same answer,
//! whether the index was built on the spot or read from a snapshot. Deliberately absent: I/O, the
//! clock, usage counts (tools in use are listed and need no search), a table of word vectors: the
//! caller brings one, or a snapshot holds it.

mod assemble;
mod codec;
mod current;
mod document;
mod expand;
mod facts;
mod find;
mod fold;
mod hash;
mod index;
mod params;
mod rank;
mod reply;
mod rows;
mod shape;
mod signature;
mod snapshot;
mod spelling;
mod spelt;
mod tables;
mod vectors;
mod verbs;
mod words;

pub use current::{Current, SNAPSHOT_MAX, load};
pub use document::{Analyser, Document};
pub use find::{Found, Kind};
pub use index::{Index, Options};
pub use reply::{BUDGET, Detail, Reply, Request, answer, search};
pub use snapshot::{FORMAT, SnapshotError};
pub use vectors::WordVectors;
