//! The report as one value; its JSON form is what scripts read.
//!
//! Invariant: a pure function of its input. A call is counted as `mws-promote` counts it: once,
//! whoever saw it. Deliberately absent: layout ([`crate::text`]).

use mws_catalog::Catalog;
use mws_event::{DAY_MS, Event, Gaps, Timestamp, Via};
use mws_policy::{CountedCall, Log, WorkingSet, merge};
use mws_state::Damage;
use serde::Serialize;

use crate::By;
use crate::groups::{Group, groups};
use crate::records::{CatalogChange, Change, Ingest, Records, Searches, Trouble};
use crate::sizes::{Listed, Sizes};
use crate::timeline::{Day, days};
use crate::tokens::{Tokenizer, Tokens};
use crate::usage::Usage;

/// What a report is made of.
pub(crate) struct Input<'a> {
    pub(crate) events: &'a [Event],
    pub(crate) damage: Damage,
    /// False for operands, from which lines may have been left out on purpose.
    pub(crate) is_whole_log: bool,
    pub(crate) working_set: Option<WorkingSet>,
    pub(crate) catalog: Option<Catalog>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) now: Timestamp,
    pub(crate) by: By,
    pub(crate) gap_minutes: u32,
    pub(crate) tokenizer: Tokenizer,
}

/// All figures.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) v: u32,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Timestamp,
    pub(crate) working_set: Vec<Listed>,
    pub(crate) sizes: Sizes,
    pub(crate) calls: Calls,
    pub(crate) by: By,
    pub(crate) groups: Vec<Group>,
    pub(crate) searches: Searches,
    pub(crate) usage: Usage,
    pub(crate) days: Vec<Day>,
    pub(crate) changes: Vec<Change>,
    pub(crate) catalog_changes: Vec<CatalogChange>,
    pub(crate) health: Health,
    pub(crate) ingest: Ingest,
}

/// Totals of the calls in the period.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Calls {
    pub(crate) total: u64,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    /// Seen by the proxy; the next three add up to it.
    pub(crate) proxied: u64,
    pub(crate) listed: u64,
    pub(crate) call_tool: u64,
    pub(crate) direct: u64,
    /// `listed / proxied`: the hit rate, the share that the working set served directly.
    pub(crate) served_directly: Option<f64>,
}

/// What was lost or refused.
#[derive(Debug, Serialize)]
pub(crate) struct Health {
    /// Lines of the whole input, not of the period, that are no event.
    pub(crate) damaged_lines: u64,
    /// Lines of a later format version.
    pub(crate) newer_lines: u64,
    pub(crate) unreadable_files: u64,
    /// Events missing between others of the same writer; none of operands.
    pub(crate) missing_events: u64,
    /// Calls whose time lies more than 24 h ahead.
    pub(crate) future_calls: u64,
    #[serde(flatten)]
    pub(crate) trouble: Trouble,
}

impl Report {
    pub(crate) fn of(input: &Input<'_>) -> Self {
        // One day of grace for clocks that are ahead, as everywhere.
        let horizon = input.now.plus_ms(DAY_MS);
        let log: Log = input.events.iter().collect();
        let merged = merge(&log, horizon, input.gap_minutes);
        let since = input.since.unwrap_or(Timestamp::from_unix_ms(i64::MIN));
        let calls = &merged.calls[merged.calls.partition_point(|call| call.ts < since)..];
        let records = Records::fold(input.events, since, horizon);
        let damage = input.damage;
        let catalog = input.catalog.as_ref();
        let tokens = Tokens::new(input.tokenizer, catalog);
        let listed = Listed::all(input.working_set.as_ref(), catalog, &tokens);
        Self {
            v: 1,
            since: input.since,
            until: input.now,
            sizes: Sizes::of(&listed, catalog, records.list, &tokens),
            working_set: listed,
            calls: Calls::of(calls),
            by: input.by,
            groups: groups(calls, input.by),
            searches: records.searches,
            usage: Usage::of(&groups(calls, By::Tool), catalog, &tokens),
            days: days(calls, input.events, since, horizon, &tokens),
            changes: records.changes,
            catalog_changes: records.catalog_changes,
            health: Health {
                damaged_lines: damage.bad_lines,
                newer_lines: damage.newer,
                unreadable_files: damage.unreadable,
                missing_events: if input.is_whole_log { missing(input.events) } else { 0 },
                future_calls: calls_ahead(input, horizon),
                trouble: records.trouble,
            },
            ingest: records.ingest,
        }
    }
}

fn missing(events: &[Event]) -> u64 {
    let mut gaps = Gaps::default();
    events.iter().filter_map(Event::id).for_each(|id| gaps.take_in(id));
    gaps.missing()
}

/// Counted as the others are: once, however often a line is repeated.
fn calls_ahead(input: &Input<'_>, horizon: Timestamp) -> u64 {
    let is_ahead = |event: &&Event| matches!(event, Event::Call(call) if call.ts >= horizon);
    let ahead: Log = input.events.iter().filter(is_ahead).collect();
    merge(&ahead, Timestamp::from_unix_ms(i64::MAX), input.gap_minutes).calls.len() as u64
}

impl Calls {
    fn of(calls: &[CountedCall<'_>]) -> Self {
        let mut sum = Self::default();
        for call in calls {
            sum.total += 1;
            *(if call.ok { &mut sum.ok } else { &mut sum.failed }) += 1;
            if call.proxied {
                sum.proxied += 1;
                *match call.via {
                    Via::Listed => &mut sum.listed,
                    Via::CallTool => &mut sum.call_tool,
                    Via::Direct => &mut sum.direct,
                } += 1;
            }
        }
        sum.served_directly = share(sum.listed, sum.proxied);
        sum
    }
}

/// `part / whole`, rounded to four places; `None` of nothing.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 10_000.0).round() / 10_000.0)
}
