//! The report for people.
//!
//! Invariant: names from elsewhere are made safe for a terminal; estimates say that they are.
//! Deliberately absent: sections about which there is nothing to say.

use mws_cli::{Style, paint, sanitize};
use mws_event::Timestamp;

use crate::By;
use crate::groups::Group;
use crate::report::Report;
use crate::sizes::Sizes;

/// The whole text; headings are bold with `color`.
pub(crate) fn text(report: &Report, color: bool) -> String {
    let sections = [
        ("Listed", sizes(&report.sizes)),
        ("Working set", working_set(report)),
        ("Calls", calls(report)),
        ("Searches", searches(report)),
        ("Last promotions and demotions", changes(report)),
        ("Transcripts", ingest(report)),
        ("Trouble", trouble(report)),
    ];
    let mut text = String::new();
    for (heading, lines) in sections.iter().filter(|(_, lines)| !lines.is_empty()) {
        if !text.is_empty() {
            text.push('\n');
        }
        let since = report.since.filter(|_| is_of_the_period(heading));
        let since = since.map_or_else(String::new, |since| format!(" since {since}"));
        text.push_str(&paint(heading, Style::Bold, color));
        text.push_str(&format!("{since}\n"));
        for line in lines {
            text.push_str(&format!("  {}\n", line.trim_end()));
        }
    }
    text
}

fn is_of_the_period(heading: &str) -> bool {
    !matches!(heading, "Listed" | "Working set")
}

fn sizes(s: &Sizes) -> Vec<String> {
    if s.listed_at.is_none() && s.catalog_tools == 0 {
        return vec![
            "nothing known: no catalog yet; it comes with the first tools/list".to_owned(),
        ];
    }
    let row = |what: &str, tools, bytes, tokens| {
        [what.to_owned(), count(tools), count(bytes), format!("~{}", count(tokens))]
    };
    let mut lines = aligned(
        &["", "TOOLS", "BYTES", "TOKENS"],
        &[
            row("to a client", s.listed_tools, s.listed_bytes, s.listed_tokens_estimate),
            row("full catalog", s.catalog_tools, s.catalog_bytes, s.catalog_tokens_estimate),
        ],
    );
    match s.saved {
        Some(saved) if saved > 0.0 => {
            let tokens = s.catalog_tokens_estimate.saturating_sub(s.listed_tokens_estimate);
            let (saved, tokens) = (percent(Some(saved)), count(tokens));
            lines.push(format!(
                "saved: {saved} of the bytes, ~{tokens} tokens in each session (estimate: bytes / 4)"
            ));
        }
        Some(_) => lines.push("saved: nothing, the catalog is smaller than the listing".to_owned()),
        None => {}
    }
    lines.push(match s.listed_at {
        Some(ts) => format!("as the last tools/list sent it, {ts}"),
        None => {
            "no client has listed yet: the working set alone, without the two meta-tools".into()
        }
    });
    lines
}

fn working_set(report: &Report) -> Vec<String> {
    let rows: Vec<[String; 3]> = report
        .working_set
        .iter()
        .map(|tool| {
            let bytes = tool.bytes.map_or_else(|| "not in the catalog".to_owned(), count);
            [sanitize(&tool.name).into_owned(), sanitize(&tool.why).into_owned(), bytes]
        })
        .collect();
    if rows.is_empty() {
        return vec!["empty: nothing is promoted or pinned yet".to_owned()];
    }
    aligned(&["TOOL", "WHY", "BYTES"], &rows)
}

fn calls(report: &Report) -> Vec<String> {
    let c = &report.calls;
    if c.total == 0 {
        return vec!["none".to_owned()];
    }
    let mut lines = vec![format!("{} calls, {} failed", count(c.total), count(c.failed))];
    if c.proxied > 0 {
        lines.push(format!(
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
        [key, "CALLS", "FAILED", "SUCCESS", "MEDIAN MS", "P95 MS", "SESSIONS", "LAST SUCCESS"];
    lines.extend(aligned(&head, &report.groups.iter().map(group).collect::<Vec<_>>()));
    lines
}

fn group(g: &Group) -> [String; 8] {
    let or_dash = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), count);
    let key = if g.key.is_empty() { "(unnamed)".into() } else { sanitize(&g.key) };
    [
        key.into_owned(),
        count(g.calls),
        count(g.failed),
        percent(g.success_rate),
        or_dash(g.p50_ms),
        or_dash(g.p95_ms),
        count(g.sessions),
        g.last_ok.map_or_else(|| "never".to_owned(), Timestamp::date),
    ]
}

fn searches(report: &Report) -> Vec<String> {
    let s = &report.searches;
    if s.count == 0 {
        return Vec::new();
    }
    let kinds = s.kinds.iter().map(|(kind, n)| format!("{} {}", count(*n), sanitize(kind)));
    let mean = count(s.bytes / s.count);
    let mut lines = vec![format!(
        "{} searches ({}), {} bytes of replies, {mean} on average",
        count(s.count),
        kinds.collect::<Vec<_>>().join(", "),
        count(s.bytes)
    )];
    if let (Some(p50), Some(p95)) = (s.p50_ms, s.p95_ms) {
        lines.push(format!("median {p50} ms, p95 {p95} ms"));
    }
    lines
}

fn changes(report: &Report) -> Vec<String> {
    let line = |change: &crate::records::Change| {
        let names = |mark: &str, names: &[String]| {
            names.iter().map(|name| format!(" {mark}{}", sanitize(name))).collect::<String>()
        };
        let (came, went) = (names("+", &change.promoted), names("-", &change.demoted));
        format!("{}  {} tools {came}{went}", change.ts, count(change.tools))
    };
    report.changes.iter().map(line).collect()
}

fn ingest(report: &Report) -> Vec<String> {
    let i = &report.ingest;
    let Some(last) = i.last else { return Vec::new() };
    vec![format!(
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
    )]
}

fn trouble(report: &Report) -> Vec<String> {
    let h = &report.health;
    let named = |what: &str, counts: &std::collections::BTreeMap<String, u64>| {
        let line = |(name, n): (&String, &u64)| format!("{what} {}: {}", sanitize(name), count(*n));
        counts.iter().map(line).collect::<Vec<_>>()
    };
    let figures = [
        ("damaged lines in the log", h.damaged_lines),
        ("lines of a later format version", h.newer_lines),
        ("unreadable files of the log", h.unreadable_files),
        ("calls dated more than 24 h ahead", h.future_calls),
        ("events dropped by the proxy", h.trouble.dropped_events),
    ];
    let figures = figures.iter().filter(|(_, n)| *n > 0);
    let mut lines: Vec<String> =
        figures.map(|(what, n)| format!("{what}: {}", count(*n))).collect();
    lines.extend(named("rejected artifact", &h.trouble.rejected_artifacts));
    lines.extend(named("upstream failed at", &h.trouble.upstream_failures));
    lines
}

/// Columns two spaces apart; the first is text, as is any that holds something but figures.
fn aligned<const N: usize>(head: &[&str; N], rows: &[[String; N]]) -> Vec<String> {
    let is_figure = |cell: &String| cell.chars().all(|c| c.is_ascii_digit() || ",.~%-".contains(c));
    let column = |i: usize| rows.iter().map(move |row| &row[i]);
    let width =
        |i: usize| column(i).map(|cell| cell.chars().count()).max().unwrap_or(0).max(head[i].len());
    let widths: [usize; N] = std::array::from_fn(width);
    let right: [bool; N] = std::array::from_fn(|i| i > 0 && column(i).all(is_figure));
    let line = |cells: &[String; N]| {
        let cell = |i: usize| {
            let (cell, width) = (&cells[i], widths[i]);
            if right[i] { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        };
        std::array::from_fn::<String, N, _>(cell).join("  ")
    };
    std::iter::once(line(&head.map(str::to_owned))).chain(rows.iter().map(line)).collect()
}

/// A number with commas between thousands.
fn count(n: u64) -> String {
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
