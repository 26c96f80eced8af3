//! The history walked day by day: what a policy would have listed, and what that was worth.
//!
//! Invariant: the calls of a day are judged by the set that the calls before its first moment give,
//! so nothing is judged by what it decided itself. The walk ends with the set of `as_of`, which is
//! what [`crate::decide`] lists then.
//! Deliberately absent: catalogs and pins of the past. Today's are taken for all days, and calls of
//! tools that the catalog does not have any more count for nothing.

mod figures;
mod walk;

use std::ops::Range;

use mws_config::{OnChange, Thresholds};
use mws_event::{DAY_MS, Timestamp};

use crate::decide::is_held;
use crate::{Definitions, History};

pub use figures::{Day, Figures, frontier};

/// A history with its calendar. One serves every policy.
#[derive(Debug)]
pub struct Replay<'a> {
    history: &'a History<'a>,
    /// The first moment of each day, and then `as_of`.
    moments: Vec<Timestamp>,
    /// Sessions that began on each day.
    sessions: Vec<u64>,
    tools: Vec<Tool<'a>>,
}

/// A tool that the upstream lists.
#[derive(Debug)]
struct Tool<'a> {
    track: &'a crate::Track<'a>,
    /// Kept out of the last set: its definition is not accepted.
    is_held: bool,
    /// By day, ascending, each with the sums up to and with that day.
    sums: Vec<(usize, Sums)>,
}

/// Calls, those not made while listed, and those that were the first of their session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    calls: u64,
    not_listed: u64,
    first: u64,
}

/// When each tool was listed under one policy, as ranges of moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    listed: Vec<Vec<Range<usize>>>,
    /// When a pin alone would have listed it.
    pinned: Vec<Vec<Range<usize>>>,
}

impl<'a> Replay<'a> {
    /// Lays out the days from the first call to the end of `history`.
    pub fn of(history: &'a History<'a>, definitions: &Definitions, on_change: OnChange) -> Self {
        let first = history.sessions.first().map_or(history.as_of, |first| *first).day();
        let starts = (first..).map(|day| Timestamp::from_unix_ms(day * DAY_MS));
        let mut moments: Vec<Timestamp> =
            starts.take_while(|start| *start < history.as_of).collect();
        moments.push(history.as_of);
        let mut sessions = vec![0; moments.len() - 1];
        for start in &history.sessions {
            if let Some(n) =
                usize::try_from(start.day() - first).ok().and_then(|i| sessions.get_mut(i))
            {
                *n += 1;
            }
        }
        let offered = history.tools.iter().filter(|track| !history.is_gone(track));
        let tools = offered.map(|track| Tool {
            track,
            is_held: is_held(track, definitions, on_change),
            sums: sums(track, first),
        });
        Self { history, moments, sessions, tools: tools.collect() }
    }

    /// Number of days, the last one perhaps not whole.
    pub fn days(&self) -> usize {
        self.sessions.len()
    }

    /// Whether it is known what each tool costs.
    pub fn has_prices(&self) -> bool {
        self.history.has_catalog
    }

    /// Walks the days under one policy.
    pub fn walk(&self, thresholds: &Thresholds) -> Walk {
        walk::walk(self, thresholds)
    }
}

fn sums(track: &crate::Track<'_>, first: i64) -> Vec<(usize, Sums)> {
    let mut sum = Sums::default();
    let day = |day: &crate::DayOfTool| {
        sum.calls += day.calls;
        sum.not_listed += day.not_listed;
        sum.first += day.first;
        Some((usize::try_from(day.day - first).ok()?, sum))
    };
    track.days.iter().filter_map(day).collect()
}

impl Tool<'_> {
    /// What happened on these days.
    fn on(&self, days: &Range<usize>) -> Sums {
        let before = |day: usize| {
            let n = self.sums.partition_point(|(at, _)| *at < day);
            n.checked_sub(1).map_or_else(Sums::default, |last| self.sums[last].1)
        };
        let (from, to) = (before(days.start), before(days.end.max(days.start)));
        Sums {
            calls: to.calls - from.calls,
            not_listed: to.not_listed - from.not_listed,
            first: to.first - from.first,
        }
    }
}
