//! Which tools a policy lists at which moments.
//!
//! Invariant: what a tool's own use decides is worked out at once for all days; only a choice
//! between tools, or one by value, is made moment by moment.
//! Deliberately absent: what the choice led to ([`crate::replay::figures`]).

use std::ops::Range;

use mws_config::{Rule, Thresholds};
use mws_event::Timestamp;

use super::{Replay, Tool, Walk};
use crate::Estimate;
use crate::estimate::{Wish, within};
use crate::history::Pin;
use crate::membership::{Span, member_spans, used_spans};

/// For each tool the ranges of moments at which it is listed.
pub(super) fn walk(replay: &Replay<'_>, thresholds: &Thresholds) -> Walk {
    let pinned: Vec<_> = replay.tools.iter().map(|tool| pinned(replay, tool, thresholds)).collect();
    let wanted = replay.tools.iter().zip(&pinned).map(|(tool, pinned)| {
        let chosen = match thresholds.rule {
            Rule::Thresholds => at_moments(&replay.moments, &member_spans(tool.track, thresholds)),
            Rule::Value => worth(replay, tool, thresholds),
        };
        let end = replay.moments.len() - usize::from(tool.is_held);
        until(end, united(pinned.iter().cloned().chain(chosen).collect()))
    });
    let wanted: Vec<_> = wanted.collect();
    let listed = match thresholds.max_tokens {
        Some(max_tokens) => cut(replay, thresholds, max_tokens, &wanted, &pinned),
        None => wanted,
    };
    Walk { listed, pinned }
}

fn pinned(replay: &Replay<'_>, tool: &Tool<'_>, thresholds: &Thresholds) -> Vec<Range<usize>> {
    match tool.track.pin {
        None => Vec::new(),
        Some(Pin::Config) => std::iter::once(0..replay.moments.len()).collect(),
        Some(Pin::File(_)) => {
            let spans = used_spans(&tool.track.successes, thresholds.pin_decay_days);
            at_moments(&replay.moments, &spans)
        }
    }
}

/// The moments within the spans, which ascend.
fn at_moments(moments: &[Timestamp], spans: &[Span]) -> Vec<Range<usize>> {
    let up_to = |t: Timestamp| moments.partition_point(|moment| *moment <= t);
    let ranges = spans.iter().map(|span| up_to(span.enter)..up_to(span.leave));
    united(ranges.filter(|range| !range.is_empty()).collect())
}

fn worth(replay: &Replay<'_>, tool: &Tool<'_>, thresholds: &Thresholds) -> Vec<Range<usize>> {
    let is_worth = |(i, moment): (usize, &Timestamp)| {
        let estimate = Estimate::of(replay.history, tool.track, thresholds, *moment)?;
        estimate.is_worth().then_some(i..i + 1)
    };
    united(replay.moments.iter().enumerate().filter_map(is_worth).collect())
}

/// What the budget leaves of `wanted`, moment by moment.
fn cut(
    replay: &Replay<'_>,
    thresholds: &Thresholds,
    max_tokens: u32,
    wanted: &[Vec<Range<usize>>],
    pinned: &[Vec<Range<usize>>],
) -> Vec<Vec<Range<usize>>> {
    if !replay.history.has_catalog {
        return wanted.to_vec();
    }
    let mut kept = vec![Vec::new(); wanted.len()];
    for (i, moment) in replay.moments.iter().enumerate() {
        let wish = |(tool, ranges): (usize, &Vec<Range<usize>>)| {
            let track = replay.tools[tool].track;
            let estimate = has(ranges, i)
                .then(|| Estimate::of(replay.history, track, thresholds, *moment))??;
            Some(Wish { tool, is_pinned: has(&pinned[tool], i), estimate })
        };
        let wishes = wanted.iter().enumerate().filter_map(wish).collect();
        for tool in within(max_tokens, wishes) {
            kept[tool].push(i..i + 1);
        }
    }
    kept.into_iter().map(united).collect()
}

pub(super) fn has(ranges: &[Range<usize>], i: usize) -> bool {
    let next = ranges.partition_point(|range| range.end <= i);
    ranges.get(next).is_some_and(|range| range.contains(&i))
}

fn united(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut united: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match united.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => united.push(range),
        }
    }
    united
}

fn until(end: usize, ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let cut = ranges.into_iter().map(|range| range.start..range.end.min(end));
    cut.filter(|range| !range.is_empty()).collect()
}
