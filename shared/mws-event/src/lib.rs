//! The event types of the log: one flat JSON object a line.
//!
//! Invariant: no event has a field that can hold arguments, results, prompts or query text, so
//! the log cannot leak them. A line without `event` is a tool call, and every line that the
//! earlier TypeScript version wrote to `calls.jsonl` is a valid line of today.
//! Deliberately absent: files, the clock and randomness. Time and ids come in as arguments.

mod call;
mod gaps;
mod id;
mod line;
mod record;
mod time;

pub use call::{Call, Source, Via};
pub use gaps::Gaps;
pub use id::WriterId;
pub use line::{Event, LINE_MAX, ParseError};
pub use record::{Kind, Record};
pub use time::{DAY_MS, Timestamp, WhenError, parse_when};

/// Version of the line format written by this release.
pub const VERSION: u32 = 1;
