//! How long the event log is kept: `retentionDays` and `retentionBytes`.
//!
//! Invariant: what decisions by the thresholds can need is never given up, whatever is configured.
//! Deliberately absent: removing anything; `mws-promote` does that when it publishes.

use serde_json::Value;

use crate::Thresholds;
use crate::fields::{Fields, wrong};

const DAYS: u32 = 400;
const BYTES: u64 = 256 * 1024 * 1024;

/// What may be removed from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Events older than this may go; `None` is the default.
    pub days: Option<u32>,
    /// Above this the oldest events go earlier.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { days: None, bytes: BYTES }
    }
}

impl Retention {
    /// Days that events are kept when decisions are made by `thresholds`.
    ///
    /// # Errors
    /// The configured number is less than what one of the thresholds looks back; names both.
    pub fn days(&self, thresholds: &Thresholds) -> Result<u32, String> {
        let (name, needed) = looks_back(thresholds);
        match self.days {
            None => Ok(needed.max(DAYS)),
            Some(0) => Err(format!("retentionDays (0) is less than {name} ({needed}) and than 1")),
            Some(days) if days < needed => {
                Err(format!("retentionDays ({days}) is less than {name} ({needed})"))
            }
            Some(days) => Ok(days),
        }
    }
}

/// The threshold that looks back furthest, and how many days.
pub fn looks_back(thresholds: &Thresholds) -> (&'static str, u32) {
    let Thresholds { window_days, keep_days, pin_decay_days, .. } = *thresholds;
    let all =
        [("windowDays", window_days), ("pinDecayDays", pin_decay_days), ("keepDays", keep_days)];
    all.into_iter().max_by_key(|(_, days)| *days).unwrap_or(("keepDays", keep_days))
}

pub(crate) fn read(top: &Fields<'_>) -> Result<Retention, String> {
    let days = match top.get("retentionDays") {
        None => None,
        Some(_) => Some(top.number("retentionDays", DAYS)?),
    };
    let bytes = match top.get("retentionBytes") {
        None => BYTES,
        Some(value) => {
            let bytes = Value::as_u64(value);
            bytes.ok_or_else(|| wrong("retentionBytes", "a whole number", value))?
        }
    };
    Ok(Retention { days, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_a_threshold_looks_back_is_refused_and_both_are_named() {
        let thresholds = Thresholds::default();
        let days = |days| Retention { days, ..Retention::default() }.days(&thresholds);
        assert_eq!(days(None), Ok(400));
        assert_eq!(days(Some(90)), Ok(90));
        assert_eq!(days(Some(89)), Err("retentionDays (89) is less than pinDecayDays (90)".into()));
        assert!(days(Some(0)).is_err_and(|e| e.contains("retentionDays (0)")));
        let none = Thresholds { keep_days: 0, window_days: 0, pin_decay_days: 0, ..thresholds };
        assert!(Retention { days: Some(0), bytes: 0 }.days(&none).is_err());
        let long = Thresholds { keep_days: 1000, ..thresholds };
        assert_eq!(Retention::default().days(&long), Ok(1000));
    }
}
