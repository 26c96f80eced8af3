//! Pure fold: events to counted calls to usage to decisions to the working set.
//!
//! Invariant: the same events, in any order of lines and with any of them repeated, the same
//! catalog names, pins, thresholds and time give the same decisions and the same bytes.
//! Deliberately absent: files and the clock; time comes in as `as_of`, the catalog as names.

mod decide;
mod fold;
mod join;
mod membership;
mod merge;
mod silence;
mod usage;
mod working_set;

#[cfg(test)]
mod decide_tests;
#[cfg(test)]
mod merge_tests;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod testing;

pub use decide::{Decision, FilePin, Pins, Verdict, decide};
pub use membership::check_thresholds;
pub use merge::{CountedCall, Merged, Through, merge};
pub use usage::{Success, Usage, usage_by_tool};
pub use working_set::{Listed, WorkingSet};
