//! `--explain TOOL`: the story of one tool, and what is decided about it.
//!
//! Invariant: nothing is written but stdout.
//! Deliberately absent: other tools; a name that nothing knows is refused with the nearest one.

use mws_cli::{Exit, Failure, Output, sanitize};
use mws_config::{Thresholds, nearest};
use mws_event::Timestamp;
use mws_policy::{Decision, Definitions, History, Moment, explain};
use serde::Serialize;

use crate::{Cli, table};

/// Everything that is known of all tools.
pub(crate) struct Known<'a> {
    pub(crate) history: &'a History<'a>,
    pub(crate) decisions: &'a [Decision],
}

#[derive(Serialize)]
struct Line<'a> {
    v: u32,
    tool: &'a str,
    #[serde(flatten)]
    moment: &'a Moment,
}

pub(crate) fn run(
    cli: &Cli,
    tool: &str,
    known: &Known<'_>,
    definitions: &Definitions,
    thresholds: &Thresholds,
) -> Result<Exit, Failure> {
    let found = known.history.tools.iter().zip(known.decisions).find(|(t, _)| t.name == tool);
    let Some((track, decision)) = found else {
        let failure = Failure::usage(format!("--explain: nobody called or pinned '{tool}'"));
        let near = nearest(tool, known.history.tools.iter().map(|track| track.name));
        return Err(match near {
            Some(near) => failure.hint(format!("did you mean '{near}'?")),
            None => failure.hint("mws promote -n shows the tools that are known"),
        });
    };
    let moments = explain(known.history, track, definitions, thresholds);
    let mut out = Output::stdout();
    if cli.json {
        for moment in &moments {
            let line = Line { v: 1, tool, moment };
            out.line(serde_json::to_string(&line).unwrap_or_default())?;
        }
        out.line(table::json_line(decision))?;
    } else {
        for line in text(tool, decision, &moments, known.history.as_of, thresholds) {
            out.line(line)?;
        }
    }
    out.finish()?;
    Ok(Exit::Done)
}

/// The story in words, the decision first.
pub(crate) fn text(
    tool: &str,
    d: &Decision,
    moments: &[Moment],
    as_of: Timestamp,
    thresholds: &Thresholds,
) -> Vec<String> {
    let listed = if d.verdict.is_listed() { "listed" } else { "not listed" };
    let reason = table::reason(d, as_of, thresholds);
    let mut lines = vec![format!("{}: {listed}, {reason}", sanitize(tool))];
    let told = moments.iter().map(|m| format!("  {}  {}", m.ts.date(), sanitize(&m.text)));
    lines.extend(told);
    let r = &d.reached;
    lines.push(format!(
        "  calls: {} succeeded in {} {}, {} failed; {} while listed, {} through call_tool, \
         {} named though not listed, {} seen in transcripts only",
        d.calls,
        d.sessions,
        if d.sessions == 1 { "session" } else { "sessions" },
        d.failed,
        r.listed,
        r.call_tool,
        r.direct,
        r.unknown
    ));
    if let Some(days) = d.days_left {
        lines.push(format!("  without another success it falls out in {days} days"));
    }
    if let Some(e) = d.estimate {
        lines.push(format!(
            "  listing it costs {} tokens a session; in the last {} days that would have cost {} \
             and saved {} tokens of searches",
            e.tokens, thresholds.window_days, e.cost, e.saved
        ));
    }
    lines
}
