//! What the report says to a person, by section.
//!
//! Invariant: estimates say that they are. Names are given as they are; whoever shows a section
//! makes them safe for its place.
//! Deliberately absent: sections about which there is nothing to say.

use std::collections::BTreeMap;

use mws_event::Timestamp;

use crate::By;
use crate::groups::Group;
use crate::report::Report;
use crate::sizes::Sizes;

const NAMES_MAX: usize = 10;

/// A heading with a table, and words before and after it.
#[derive(Default)]
pub(crate) struct Section {
    pub(crate) heading: &'static str,
    pub(crate) is_of_the_period: bool,
    pub(crate) lead: Vec<String>,
    pub(crate) head: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) notes: Vec<String>,
}

/// The sections that have something to say, in order.
pub(crate) fn sections(report: &Report) -> Vec<Section> {
    let of_the_period = |section: Section| Section { is_of_the_period: true, ..section };
    let all = [
        sizes(&report.sizes),
        working_set(report),
        of_the_period(calls(report)),
        of_the_period(searches(report)),
        of_the_period(failing(report)),
        of_the_period(slow(report)),
        of_the_period(never_called(report)),
        of_the_period(changes(report)),
        of_the_period(ingest(report)),
        of_the_period(trouble(report)),
    ];
    let has_content = |s: &Section| !(s.lead.is_empty() && s.rows.is_empty() && s.notes.is_empty());
    all.into_iter().filter(has_content).collect()
}

fn sizes(s: &Sizes) -> Section {
    let heading = "Listed";
    if s.listed_at.is_none() && s.catalog_tools == 0 {
        let lead = "nothing known: no catalog yet; it comes with the first tools/list";
        return Section { heading, lead: vec![lead.to_owned()], ..Section::default() };
    }
    let row = |what: &str, tools, bytes, tokens| {
        vec![what.to_owned(), count(tools), count(bytes), format!("~{}", count(tokens))]
    };
    let mut notes = Vec::new();
    match s.saved {
        Some(saved) if saved > 0.0 => {
            let tokens = s.catalog_tokens_estimate.saturating_sub(s.listed_tokens_estimate);
            notes.push(format!(
                "saved: {} of the bytes, ~{} tokens in each session (tokens by {})",
                percent(Some(saved)),
                count(tokens),
                if s.tokens_by == "bytes / 4" { "estimate: bytes / 4" } else { s.tokens_by }
            ));
        }
        Some(_) => notes.push("saved: nothing, the catalog is smaller than the listing".to_owned()),
        None => {}
    }
    notes.push(match s.listed_at {
        Some(ts) => format!("as the last tools/list sent it, {ts}"),
        None => {
            "no client has listed yet: the working set alone, without the two meta-tools".into()
        }
    });
    Section {
        heading,
        head: vec!["", "TOOLS", "BYTES", "TOKENS"],
        rows: vec![
            row("to a client", s.listed_tools, s.listed_bytes, s.listed_tokens_estimate),
            row("full catalog", s.catalog_tools, s.catalog_bytes, s.catalog_tokens_estimate),
        ],
        notes,
        ..Section::default()
    }
}

fn working_set(report: &Report) -> Section {
    let row = |tool: &crate::sizes::Listed| {
        let bytes = tool.bytes.map_or_else(|| "not in the catalog".to_owned(), count);
        let tokens =
            tool.tokens_estimate.map_or_else(|| "-".to_owned(), |n| format!("~{}", count(n)));
        vec![tool.name.clone(), tool.why.clone(), bytes, tokens]
    };
    let rows: Vec<_> = report.working_set.iter().map(row).collect();
    let empty = "empty: nothing is promoted or pinned yet";
    Section {
        heading: "Working set",
        lead: if rows.is_empty() { vec![empty.to_owned()] } else { Vec::new() },
        head: vec!["TOOL", "WHY", "BYTES", "TOKENS"],
        rows,
        ..Section::default()
    }
}

fn calls(report: &Report) -> Section {
    let c = &report.calls;
    let heading = "Calls";
    if c.total == 0 {
        return Section { heading, lead: vec!["none".to_owned()], ..Section::default() };
    }
    let noun = if c.total == 1 { "call" } else { "calls" };
    let mut lead = vec![format!("{} {noun}, {} failed", count(c.total), count(c.failed))];
    if c.proxied > 0 {
        lead.push(format!(
            "through the proxy {}: {} served directly by the working set; {} listed, {} by \
             call_tool, {} by name though not listed",
            count(c.proxied),
            percent(c.served_directly),
            count(c.listed),
            count(c.call_tool),
            count(c.direct)
        ));
    }
    let key = match report.by {
        By::Tool => "TOOL",
        By::Client => "CLIENT",
        By::Day => "DAY",
    };
    let head =
        vec![key, "CALLS", "FAILED", "SUCCESS", "MEDIAN MS", "P95 MS", "SESSIONS", "LAST SUCCESS"];
    Section {
        heading,
        lead,
        head,
        rows: report.groups.iter().map(group).collect(),
        ..Section::default()
    }
}

fn group(g: &Group) -> Vec<String> {
    let or_dash = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), count);
    vec![
        if g.key.is_empty() { "(unnamed)".to_owned() } else { g.key.clone() },
        count(g.calls),
        count(g.failed),
        percent(g.success_rate),
        or_dash(g.p50_ms),
        or_dash(g.p95_ms),
        count(g.sessions),
        g.last_ok.map_or_else(|| "never".to_owned(), Timestamp::date),
    ]
}

fn searches(report: &Report) -> Section {
    let s = &report.searches;
    if s.count == 0 {
        return Section::default();
    }
    let kinds = s.kinds.iter().map(|(kind, n)| format!("{} {kind}", count(*n)));
    let noun = if s.count == 1 { "search" } else { "searches" };
    let mut lead = vec![format!(
        "{} {noun} ({}), {} bytes of replies, {} on average",
        count(s.count),
        kinds.collect::<Vec<_>>().join(", "),
        count(s.bytes),
        count(s.bytes / s.count)
    )];
    if let (Some(p50), Some(p95)) = (s.p50_ms, s.p95_ms) {
        lead.push(format!("median {p50} ms, p95 {p95} ms"));
    }
    let o = &s.outcome;
    lead.push(format!(
        "followed within 10 minutes by a call {}, by another search {}, by neither {}",
        count(o.then_called),
        count(o.then_searched),
        count(o.then_nothing)
    ));
    if let Some(rank) = o.mean_reciprocal_rank {
        let first = o.ranks.get(&1).copied().unwrap_or(0);
        lead.push(format!(
            "of {} called tools that the search before had found, {} stood first; mean reciprocal \
             rank {rank:.2}",
            count(o.ranks.values().sum()),
            count(first)
        ));
    }
    Section { heading: "Searches", lead, ..Section::default() }
}

fn failing(report: &Report) -> Section {
    let rows = report.usage.failing.iter();
    Section {
        heading: "Failing tools",
        notes: note_on(&report.usage.failing, "under 90 % of three calls or more succeeded"),
        head: vec!["TOOL", "CALLS", "FAILED"],
        rows: rows.map(|t| vec![t.name.clone(), count(t.calls), count(t.failed)]).collect(),
        ..Section::default()
    }
}

fn slow(report: &Report) -> Section {
    let rows = report.usage.slow.iter();
    Section {
        heading: "Slow tools",
        notes: note_on(
            &report.usage.slow,
            "the 95th percentile of three calls or more is 2 s or over",
        ),
        head: vec!["TOOL", "MEDIAN MS", "P95 MS"],
        rows: rows.map(|t| vec![t.name.clone(), count(t.p50_ms), count(t.p95_ms)]).collect(),
        ..Section::default()
    }
}

fn note_on<T>(tools: &[T], note: &str) -> Vec<String> {
    if tools.is_empty() { Vec::new() } else { vec![note.to_owned()] }
}

fn never_called(report: &Report) -> Section {
    let unused = &report.usage.never_called;
    if unused.is_empty() {
        return Section::default();
    }
    let tokens: u64 = unused.iter().map(|tool| tool.tokens_estimate).sum();
    let names: Vec<&str> = unused.iter().take(NAMES_MAX).map(|tool| tool.name.as_str()).collect();
    let rest = unused.len() - names.len();
    let more =
        if rest > 0 { format!(" and {rest} more (--json names all)") } else { String::new() };
    Section {
        heading: "Never called",
        lead: vec![
            format!(
                "{} of {} tools, ~{} tokens",
                count(unused.len() as u64),
                count(report.sizes.catalog_tools),
                count(tokens)
            ),
            format!("the largest: {}{more}", names.join(", ")),
        ],
        ..Section::default()
    }
}

fn changes(report: &Report) -> Section {
    let line = |change: &crate::records::Change| {
        let names = |mark: &str, names: &[String]| {
            names.iter().map(|name| format!(" {mark}{name}")).collect::<String>()
        };
        let (came, went) = (names("+", &change.promoted), names("-", &change.demoted));
        format!("{}  {} tools {came}{went}", change.ts, count(change.tools))
    };
    let catalog = |change: &crate::records::CatalogChange| {
        let (added, removed) = (count(change.added), count(change.removed));
        format!(
            "{}  catalog of {} tools: {added} new, {removed} gone",
            change.ts,
            count(change.tools)
        )
    };
    Section {
        heading: "Last changes",
        lead: report.changes.iter().map(line).collect(),
        notes: report.catalog_changes.iter().map(catalog).collect(),
        ..Section::default()
    }
}

fn ingest(report: &Report) -> Section {
    let i = &report.ingest;
    let line = |last: Timestamp| {
        format!(
            "{} {}, the last {last}: {} files and {} bytes read, {} calls found, {} still open, {} \
             damaged lines, {} records salvaged, {} warnings",
            count(i.runs),
            if i.runs == 1 { "run" } else { "runs" },
            count(i.files),
            count(i.read_bytes),
            count(i.calls),
            count(i.open_calls),
            count(i.bad_lines),
            count(i.salvaged),
            count(i.warnings)
        )
    };
    Section {
        heading: "Transcripts",
        lead: i.last.map(line).into_iter().collect(),
        ..Section::default()
    }
}

fn trouble(report: &Report) -> Section {
    let h = &report.health;
    let named = |what: &str, counts: &BTreeMap<String, u64>| {
        let line = |(name, n): (&String, &u64)| format!("{what} {name}: {}", count(*n));
        counts.iter().map(line).collect::<Vec<_>>()
    };
    let figures = [
        ("damaged lines in the log", h.damaged_lines),
        ("lines of a later format version", h.newer_lines),
        ("unreadable files of the log", h.unreadable_files),
        ("events missing from the log", h.missing_events),
        ("calls dated more than 24 h ahead", h.future_calls),
        ("events dropped by the proxy", h.trouble.dropped_events),
    ];
    let figures = figures.iter().filter(|(_, n)| *n > 0);
    let mut lead: Vec<String> = figures.map(|(what, n)| format!("{what}: {}", count(*n))).collect();
    let rejected = "kept the last good one instead of a damaged";
    lead.extend(named(rejected, &h.trouble.rejected_artifacts));
    lead.extend(named("upstream failed at", &h.trouble.upstream_failures));
    Section { heading: "Trouble", lead, ..Section::default() }
}

/// A number with commas between thousands.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", share * 100.0))
}
