//! Removing the beginning of the log once a working set is published.
//!
//! Invariant: what is left decides as the whole log did: nothing goes that the thresholds look
//! back on, nor the calls that brought a tool in which is still in. An accepted definition is
//! noted again before its line goes.
//! Deliberately absent: failing. The set is published; a log that stays is a warning.

use std::io;

use mws_cli::Failure;
use mws_config::{Config, Thresholds, looks_back};
use mws_event::{DAY_MS, Event, Kind, Record, Timestamp};
use mws_policy::{Definitions, History, Log, Offers, Pins, decides_alike, lost_pins, merge};
use mws_state::{StateDir, for_each_event_after, log_size, removable, remove_through};

use crate::definitions;

/// What the decision was made of.
pub(crate) struct Decided<'a> {
    pub(crate) state: &'a StateDir,
    pub(crate) config: &'a Config,
    pub(crate) thresholds: &'a Thresholds,
    pub(crate) pins: &'a Pins,
    pub(crate) offers: Option<&'a Offers>,
    pub(crate) history: &'a History<'a>,
    pub(crate) definitions: &'a Definitions,
}

/// Removes what is too old, or too much; `days` is how long the log is kept.
pub(crate) fn cut(decided: &Decided<'_>, days: u32) {
    match decided.cut(days) {
        Ok(None) => {}
        Ok(Some(why)) => {
            let (size, cap) = (log_size(decided.state), decided.config.retention.bytes);
            if size > cap {
                tracing::warn!(
                    "The log has {size} bytes, more than retentionBytes ({cap}); not removed: {why}."
                );
            }
        }
        Err(e) => tracing::warn!("Cannot remove old segments of the log: {e}."),
    }
}

/// How far the log may be cut, and why no further.
struct Limit {
    segments: Vec<u64>,
    why: Option<String>,
}

impl Decided<'_> {
    /// Why no more was removed, where that is not simply because no more is old.
    fn cut(&self, days: u32) -> Result<Option<String>, Failure> {
        let Limit { segments, mut why } = self.limit(days)?;
        let (fit, pins) = self.longest(&segments);
        if fit < segments.len() {
            why = Some("calls that brought in a tool which is still in".to_owned());
        }
        let Some(last) = segments[..fit].last() else { return Ok(why) };
        definitions::append(pins, self.state)?;
        let removed = remove_through(self.state, *last)?;
        tracing::info!("Removed {removed} old segments of the log.");
        if removed < fit as u64 {
            why = Some("a segment that a reader follows, or that is no file of ours".to_owned());
        }
        Ok(why)
    }

    /// How many of these can go, and which acceptances are to be noted again then.
    fn longest(&self, segments: &[u64]) -> (usize, Vec<Kind>) {
        let (mut fit, mut over) = ((0, Vec::new()), segments.len() + 1);
        let mut next = segments.len();
        while fit.0 + 1 < over {
            match self.without(segments[next - 1]) {
                Some(pins) => fit = (next, pins),
                None => over = next,
            }
            next = fit.0.midpoint(over);
        }
        fit
    }

    /// The acceptances lost without the segments up to this one; none when the rest decides
    /// otherwise.
    fn without(&self, segment: u64) -> Option<Vec<Kind>> {
        let mut log = Log::default();
        for_each_event_after(self.state, segment, |event| log.push(&event));
        let pins = lost_pins(self.definitions, log.definitions());
        for kind in &pins {
            log.push(&Event::Record(Record::new(mws_state::now(), kind.clone())));
        }
        let as_of = self.history.as_of;
        let merged = merge(&log, as_of, self.config.session_gap_minutes);
        let price = log.search_tokens(as_of);
        let kept = History::of(&merged.calls, self.pins, self.offers, price, as_of);
        let (whole, kept) = ((self.history, self.definitions), (&kept, log.definitions()));
        decides_alike(whole, kept, self.config.on_change, self.thresholds).then_some(pins)
    }

    /// The oldest segments that are too old or too much, up to the first that is not.
    fn limit(&self, days: u32) -> io::Result<Limit> {
        let as_of = self.history.as_of.min(mws_state::now());
        let back = |days: u32| as_of.plus_ms(-i64::from(days) * DAY_MS);
        let (name, needed) = looks_back(self.thresholds);
        let mut size = log_size(self.state);
        let mut segments = Vec::new();
        let young = |newest: Option<Timestamp>, days| newest.is_some_and(|ts| ts >= back(days));
        for segment in removable(self.state)? {
            let newest = match segment.newest() {
                Ok(newest) => newest,
                Err(e) => {
                    let why = format!("segment {}, because {e}", segment.number);
                    return Ok(Limit { segments, why: Some(why) });
                }
            };
            if young(newest, needed) {
                let why = format!("events of the last {needed} days ({name})");
                return Ok(Limit { segments, why: Some(why) });
            }
            if young(newest, days) && size <= self.config.retention.bytes {
                return Ok(Limit { segments, why: None });
            }
            size = size.saturating_sub(segment.bytes);
            segments.push(segment.number);
        }
        Ok(Limit { segments, why: Some("the newest two segments".to_owned()) })
    }
}
