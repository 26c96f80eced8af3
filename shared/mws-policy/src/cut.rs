//! Whether a log without its beginning decides as the whole one does.
//!
//! Invariant: when it does at the end of the history, it does at every later time, as long as what
//! the thresholds look back on is still there.
//! Deliberately absent: totals. What a shorter log counts over all history is less.

use mws_config::{OnChange, Rule, Thresholds};
use mws_event::{Kind, Timestamp};

use crate::membership::{days_ms, member_spans};
use crate::{Definitions, History, decide};

/// Whether every tool is in or out in `kept` as in `whole`, until the same time. Both end at the
/// same time and know the same pins and catalog.
pub fn decides_alike(
    whole: (&History<'_>, &Definitions),
    kept: (&History<'_>, &Definitions),
    on_change: OnChange,
    thresholds: &Thresholds,
) -> bool {
    let listed = |(history, definitions): (&History<'_>, &Definitions)| {
        let decisions = decide(history, definitions, on_change, thresholds);
        let in_order = decisions.into_iter().filter(|d| d.verdict.is_listed());
        in_order.map(|d| (d.tool, d.hash)).collect::<Vec<_>>()
    };
    members(whole.0, thresholds) == members(kept.0, thresholds)
        && is_cold(whole.0, thresholds) == is_cold(kept.0, thresholds)
        && listed(whole) == listed(kept)
}

/// Who is in and until when, whether the catalog has it at this time or not. Who went out lately
/// is among them: a success that is written down late may show that it never did.
fn members<'a>(history: &History<'a>, thresholds: &Thresholds) -> Vec<(&'a str, Timestamp)> {
    let leave = |track| member_spans(track, thresholds).last().map(|span| span.leave);
    let spans = history.tools.iter().filter_map(|track| Some((track.name, leave(track)?)));
    let lately = history.as_of.plus_ms(-days_ms(thresholds.keep_days));
    spans.filter(|(_, leave)| *leave >= lately).collect()
}

fn is_cold(history: &History<'_>, thresholds: &Thresholds) -> bool {
    let was_in = |track| !member_spans(track, thresholds).is_empty();
    thresholds.rule == Rule::Thresholds && !history.tools.iter().any(was_in)
}

/// The acceptances of definitions that `whole` has and `kept` has lost, to be noted again.
pub fn lost_pins(whole: &Definitions, kept: &Definitions) -> Vec<Kind> {
    let lost = whole.pins().filter(|(tool, ts, _)| kept.pinned_at(tool) < Some(*ts));
    let pin = |(tool, _, hash): (&str, Timestamp, &str)| Kind::DefinitionPinned {
        tool: tool.to_owned(),
        hash: hash.to_owned(),
    };
    lost.map(pin).collect()
}
