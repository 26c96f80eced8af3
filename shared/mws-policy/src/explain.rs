//! The story of one tool: what happened to it, with dates.
//!
//! Invariant: told by the same fold that decides, so story and decision agree.
//! Deliberately absent: the rule of value, which has no memory and so no story.

use mws_config::Thresholds;
use mws_event::Timestamp;
use serde::Serialize;

use crate::membership::{Span, days_ms, member_spans};
use crate::{Definitions, History, Track};

/// Something that happened to a tool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Moment {
    /// When.
    pub ts: Timestamp,
    /// What, in one word.
    pub event: &'static str,
    /// What, in words.
    pub text: String,
}

/// What happened to `track` by the thresholds, by time.
pub fn explain(
    history: &History<'_>,
    track: &Track<'_>,
    definitions: &Definitions,
    thresholds: &Thresholds,
) -> Vec<Moment> {
    let mut moments = Vec::new();
    let mut tell = |ts, event, text: String| moments.push(Moment { ts, event, text });
    if let Some(first) = track.successes.first() {
        tell(first.ts, "first_success", "first success".to_owned());
    }
    for span in member_spans(track, thresholds) {
        tell(span.enter, "tool_promoted", promotion(track, span, thresholds));
        if span.leave < history.as_of {
            let text = format!("fell out: {} days without a success", thresholds.keep_days);
            tell(span.leave, "tool_demoted", text);
        }
    }
    if let Some(last) = track.successes.last().filter(|_| track.successes.len() > 1) {
        let (calls, sessions) = (track.successes.len(), track.sessions);
        let noun = if sessions == 1 { "session" } else { "sessions" };
        let text = format!("last success; {calls} calls in {sessions} {noun} by then");
        tell(last.ts, "last_success", text);
    }
    for (ts, hash, is_pin) in definitions.of_tool(track.name) {
        match is_pin {
            true => tell(ts, "definition_pinned", format!("definition {hash} accepted")),
            false => tell(ts, "definition_changed", format!("definition changed to {hash}")),
        }
    }
    moments.sort_unstable();
    moments
}

fn promotion(track: &Track<'_>, span: Span, thresholds: &Thresholds) -> String {
    let from = span.enter.plus_ms(-days_ms(thresholds.window_days));
    let window = track.since(from);
    let calls = window.partition_point(|success| success.ts <= span.enter);
    let mut sessions: Vec<u32> = window[..calls].iter().map(|success| success.session).collect();
    sessions.sort_unstable();
    sessions.dedup();
    let (sessions, days) = (sessions.len(), thresholds.window_days);
    format!("promoted: {calls} calls in {sessions} sessions within {days} days")
}
