//! Pure fold: events to counted calls to usage to decisions to the working set.
//!
//! Invariant: the same events, in any order of lines and with any of them repeated, the same
//! catalog, pins, thresholds and time give the same decisions and the same bytes.
//! Deliberately absent: files and the clock; time comes in as `as_of`, the catalog as prices and
//! hashes.

mod client;
mod cut;
mod decide;
mod definitions;
mod estimate;
mod explain;
mod fold;
mod history;
mod join;
mod log;
mod membership;
mod merge;
mod replay;
mod silence;
mod verdict;
mod working_set;

#[cfg(test)]
mod cut_tests;
#[cfg(test)]
mod decide_tests;
#[cfg(test)]
mod merge_tests;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod replay_tests;
#[cfg(test)]
mod testing;

pub use cut::{decides_alike, lost_pins};
pub use decide::{Decision, FilePin, Pins, decide};
pub use definitions::Definitions;
pub use estimate::Estimate;
pub use explain::{Moment, explain};
pub use history::{DayOfTool, History, Offer, Offers, Pin, Reached, Success, Track};
pub use log::{BYTES_PER_TOKEN, Log};
pub use membership::check_thresholds;
pub use merge::{CountedCall, Merged, Through, merge};
pub use replay::{Day, Figures, Replay, Walk, frontier};
pub use verdict::Verdict;
pub use working_set::{Held, Listed, Used, WorkingSet};
