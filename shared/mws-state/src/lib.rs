//! The state directory: the event log, atomic publishing, change detection and stage locks.
//!
//! Invariant: the log is only ever appended to, in whole lines and under a lock, and cut at its
//! beginning by whole segments; every other file is replaced whole or not at all. Files are 0600, directories 0700, and links are not followed.
//! Deliberately absent: what the files mean. This package moves bytes and events.

mod append;
mod dir;
mod follow;
mod fs;
mod lock;
mod log;
mod publish;
mod recorder;
mod retention;
mod watch;

pub use append::Appender;
pub use dir::{StateDir, check_trusted};
pub use follow::Follower;
pub use fs::{Identity, ReadError, read_file};
pub use lock::StageLock;
pub use log::{
    Damage, for_each_event, for_each_event_after, for_each_line, parse_events, read_events,
    segments,
};
pub use publish::{publish, publish_if_changed, publish_parts_if_changed, publish_to};
pub use recorder::Recorder;
pub use retention::{Segment, log_size, removable, remove_through};
pub use watch::{Watched, WatchedState};

use mws_event::{Timestamp, WriterId};
use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A writer id for this process: start time and process-specific randomness.
pub fn writer_id() -> WriterId {
    WriterId::new(now(), random_u64())
}

/// 64 random bits from the standard library's per-process hash keys.
pub fn random_u64() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}

/// xxh3 of `bytes` as 16 hex digits: the form of every hash in artifacts and events.
pub fn hash_hex(bytes: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(bytes))
}
