//! `--replay`: the history walked again, under one policy day by day or under many in figures.
//!
//! Invariant: nothing is written but stdout. Policies are shared among the processors and printed
//! in the order asked for.
//! Deliberately absent: the walk itself, which is pure and lives in `mws-policy`.

use std::thread;

use mws_cli::{Exit, Failure, Output};
use mws_config::{Rule, Thresholds};
use mws_event::Timestamp;
use mws_policy::{Day, Figures, Replay, Used, frontier};
use serde::Serialize;

use crate::{Cli, grid, replay_text};

/// A policy and what it led to.
pub(crate) struct Cell {
    pub(crate) label: String,
    pub(crate) policy: Thresholds,
    pub(crate) figures: Figures,
    /// No other policy here has more hits for as little, or as many for less.
    pub(crate) is_efficient: bool,
    pub(crate) is_in_force: bool,
}

/// Walks and prints.
pub(crate) fn run(
    cli: &Cli,
    replay: &Replay<'_>,
    in_force: &Thresholds,
    policies: &[Thresholds],
    as_of: Timestamp,
) -> Result<Exit, Failure> {
    let story = if cli.grid.is_empty() { replay.story(&replay.walk(in_force)) } else { Vec::new() };
    let compared = if cli.grid.is_empty() { both_rules(replay, in_force) } else { policies.into() };
    let cells = cells(replay, &cli.grid, &compared, in_force);
    let lines = match cli.json {
        true => json(&story, &cells, as_of),
        false => replay_text::lines(&story, &cells),
    };
    let mut out = Output::stdout();
    for line in lines {
        out.line(line)?;
    }
    out.finish()?;
    Ok(Exit::Done)
}

/// The policy in force and, where prices are known, the same by the other rule.
fn both_rules(replay: &Replay<'_>, in_force: &Thresholds) -> Vec<Thresholds> {
    let other = match in_force.rule {
        Rule::Thresholds => Rule::Value,
        Rule::Value => Rule::Thresholds,
    };
    let other = Thresholds { rule: other, ..*in_force };
    std::iter::once(*in_force).chain(replay.has_prices().then_some(other)).collect()
}

fn cells(
    replay: &Replay<'_>,
    grid: &[String],
    policies: &[Thresholds],
    in_force: &Thresholds,
) -> Vec<Cell> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let share = policies.len().div_ceil(workers).max(1);
    let figures = |policies: &[Thresholds]| -> Vec<Figures> {
        policies.iter().map(|policy| replay.figures(&replay.walk(policy))).collect()
    };
    let figures: Vec<Figures> = thread::scope(|scope| {
        let shares: Vec<_> = policies.chunks(share).collect();
        let threads: Vec<_> = shares.iter().map(|share| scope.spawn(|| figures(share))).collect();
        let done = threads.into_iter().zip(shares);
        // A thread that did not end well is one whose work is done here, where the failure shows.
        done.flat_map(|(thread, share)| thread.join().unwrap_or_else(|_| figures(share))).collect()
    });
    let marks = frontier(&figures);
    let cells = policies.iter().zip(figures).zip(marks);
    let cell = |((policy, figures), is_efficient): ((&Thresholds, Figures), bool)| Cell {
        label: grid::label(grid, policy),
        policy: *policy,
        figures,
        is_efficient,
        is_in_force: policy == in_force,
    };
    cells.map(cell).collect()
}

#[derive(Serialize)]
struct ToolLine<'a> {
    v: u32,
    ts: Timestamp,
    event: &'static str,
    tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

#[derive(Serialize)]
struct DayLine<'a> {
    v: u32,
    ts: Timestamp,
    event: &'static str,
    listed: usize,
    tokens: Option<u64>,
    calls: u64,
    hits: u64,
    promoted: Vec<&'a str>,
    kept: &'a [&'a str],
    demoted: &'a [&'a str],
}

#[derive(Serialize)]
struct PolicyLine<'a> {
    v: u32,
    ts: Timestamp,
    event: &'static str,
    policy: &'a str,
    thresholds: Used,
    in_force: bool,
    frontier: bool,
    days: u64,
    sessions: u64,
    calls: u64,
    hits: u64,
    hit_rate: Option<f64>,
    calls_not_listed: u64,
    hits_not_listed: u64,
    hit_rate_not_listed: Option<f64>,
    mean_tools: Option<f64>,
    mean_tokens: Option<f64>,
    extra_hops: u64,
    searches: u64,
    list_tokens: Option<u64>,
    search_tokens: u64,
    total_tokens: Option<u64>,
    promoted: u64,
    demoted: u64,
    flaps: u64,
    demote_regrets: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ends_with: Option<Vec<&'a str>>,
}

/// What came in and went out, each day after it, and at last the figures.
fn json(story: &[Day<'_>], cells: &[Cell], as_of: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    for day in story {
        let ts = day.ts;
        for (tool, by_pin) in &day.promoted {
            let why = Some(if *by_pin { "pinned" } else { "promoted" });
            lines.push(text(&ToolLine { v: 1, ts, event: "tool_promoted", tool, why }));
        }
        for tool in &day.demoted {
            lines.push(text(&ToolLine { v: 1, ts, event: "tool_demoted", tool, why: None }));
        }
        if ts < as_of {
            lines.push(text(&DayLine {
                v: 1,
                ts,
                event: "day_replayed",
                listed: day.promoted.len() + day.kept.len(),
                tokens: day.tokens,
                calls: day.calls,
                hits: day.hits,
                promoted: day.promoted.iter().map(|(tool, _)| *tool).collect(),
                kept: &day.kept,
                demoted: &day.demoted,
            }));
        }
    }
    let end = story.last().map(Day::listed);
    lines.extend(
        cells
            .iter()
            .map(|cell| text(&policy_line(cell, as_of, end.clone().filter(|_| cell.is_in_force)))),
    );
    lines
}

fn policy_line<'a>(
    cell: &'a Cell,
    ts: Timestamp,
    ends_with: Option<Vec<&'a str>>,
) -> PolicyLine<'a> {
    let f = &cell.figures;
    PolicyLine {
        v: 1,
        ts,
        event: "policy_replayed",
        policy: &cell.label,
        thresholds: Used::from(&cell.policy),
        in_force: cell.is_in_force,
        frontier: cell.is_efficient,
        days: f.days,
        sessions: f.sessions,
        calls: f.calls,
        hits: f.hits,
        hit_rate: ratio(f.hits, f.calls),
        calls_not_listed: f.calls_not_listed,
        hits_not_listed: f.hits_not_listed,
        hit_rate_not_listed: ratio(f.hits_not_listed, f.calls_not_listed),
        mean_tools: ratio(f.tool_days, f.days),
        mean_tokens: f.token_days.and_then(|tokens| ratio(tokens, f.days)),
        extra_hops: f.extra_hops(),
        searches: f.searches,
        list_tokens: f.list_tokens,
        search_tokens: f.search_tokens,
        total_tokens: f.list_tokens.map(|tokens| tokens.saturating_add(f.search_tokens)),
        promoted: f.promoted,
        demoted: f.demoted,
        flaps: f.flaps,
        demote_regrets: f.regrets,
        ends_with,
    }
}

/// `part / whole`; none of nothing.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn text(line: &impl Serialize) -> String {
    // Only maps with odd keys and failing writers make serialisation fail; there are none here.
    serde_json::to_string(line).unwrap_or_default()
}
