//! What `mws-promote --replay --grid … --json` printed, for the plot.
//!
//! Invariant: lines that are not about a policy are passed over.
//! Deliberately absent: the other measures of a policy.

use serde::Deserialize;

/// One choice of thresholds, replayed over the history.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Cell {
    pub(crate) policy: String,
    pub(crate) mean_tokens: f64,
    pub(crate) hit_rate: f64,
    /// No other choice beats it in both measures.
    pub(crate) frontier: bool,
}
