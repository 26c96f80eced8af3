//! The report as one page.
//!
//! Invariant: self-contained: no script, no network, light and dark; every name is escaped.
//! Deliberately absent: figures that the JSON does not have.

mod svg;

use std::borrow::Cow;
use std::fmt::Write;

use crate::frontier::Cell;
use crate::report::Report;
use crate::sections::{Section, count, sections};
use crate::timeline::Day;
use svg::{Column, Point};

const STYLE: &str = include_str!("style.css");
const REACHED: [&str; 4] = ["listed", "by call_tool", "by name, not listed", "transcript only"];
const COLUMNS_MAX: usize = 60;

/// The page; `frontier` is what a replay found, empty without one.
pub(crate) fn page(report: &Report, frontier: &[Cell]) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Working set report</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>Working set</h1>\n<p class=\"period\">{}</p>\n",
        period(report)
    );
    html.push_str(&tiles(report));
    html.push_str("<div class=\"plots\">\n");
    if !report.days.is_empty() {
        html.push_str(&calls_plot(&report.days));
    }
    if report.days.iter().any(|day| day.session_tokens_estimate.is_some()) {
        html.push_str(&tokens_plot(&report.days, report.sizes.tokens_by));
    }
    if !frontier.is_empty() {
        html.push_str(&frontier_plot(frontier));
    }
    html.push_str("</div>\n");
    for section in sections(report) {
        html.push_str(&section_html(&section));
    }
    html + "</body>\n</html>\n"
}

fn period(report: &Report) -> String {
    let since = report.since.map_or_else(|| "whole log".to_owned(), |ts| format!("since {ts}"));
    format!("{since}, until {}", report.until)
}

fn tiles(report: &Report) -> String {
    let percent = |share: Option<f64>| {
        share.map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", share * 100.0))
    };
    let tiles = [
        ("tools listed", report.sizes.listed_tools.to_string()),
        ("tokens a listing", format!("~{}", count(report.sizes.listed_tokens_estimate))),
        ("full catalog", format!("~{}", count(report.sizes.catalog_tokens_estimate))),
        ("saved", percent(report.sizes.saved.filter(|saved| *saved > 0.0))),
        ("hit rate", percent(report.calls.served_directly)),
        ("calls", count(report.calls.total)),
    ];
    let mut html = "<div class=\"tiles\">\n".to_owned();
    for (what, figure) in tiles {
        let _ = writeln!(html, "<div><b>{}</b><span>{what}</span></div>", escape(&figure));
    }
    html + "</div>\n"
}

fn figure(heading: &str, legend: &[&str], svg: &str, note: &str) -> String {
    let mut html = format!("<figure><figcaption>{}</figcaption>\n", escape(heading));
    for (n, name) in legend.iter().enumerate() {
        let _ = write!(html, "<span class=\"key\"><i class=\"k{n}\"></i>{}</span>", escape(name));
    }
    html + &format!("\n{svg}\n<p>{}</p></figure>\n", escape(note))
}

fn calls_plot(days: &[Day]) -> String {
    let columns: Vec<Column> = spans(days).map(calls_of).collect();
    let svg = svg::bars(&REACHED, &columns, "calls");
    figure("Calls over time", &REACHED, &svg, &span_note(days))
}

fn calls_of(days: &[Day]) -> Column {
    let sum = |of: fn(&Day) -> u64| days.iter().map(of).sum::<u64>() as f64;
    Column {
        label: label(days).to_owned(),
        values: vec![
            sum(|day| day.listed),
            sum(|day| day.call_tool),
            sum(|day| day.direct),
            sum(|day| day.transcript_only),
        ],
    }
}

fn tokens_plot(days: &[Day], tokens_by: &str) -> String {
    let mean = |of: fn(&Day) -> Option<u64>| {
        let of_span = move |days: &[Day]| {
            let known: Vec<u64> = days.iter().filter_map(of).collect();
            (!known.is_empty()).then(|| known.iter().sum::<u64>() as f64 / known.len() as f64)
        };
        spans(days).map(of_span).collect::<Vec<_>>()
    };
    let names = ["listing and searches", "full catalog instead"];
    let series = [
        (names[0], mean(|day| day.session_tokens_estimate)),
        (names[1], mean(|day| day.catalog_tokens_estimate)),
    ];
    let labels: Vec<&str> = spans(days).map(label).collect();
    let svg = svg::lines(&series, &labels, "tokens");
    figure("Tokens a session", &names, &svg, &format!("Tokens counted by {tokens_by}."))
}

fn frontier_plot(cells: &[Cell]) -> String {
    let point = |cell: &Cell| Point {
        x: cell.mean_tokens,
        y: cell.hit_rate * 100.0,
        is_marked: cell.frontier,
        title: format!(
            "{}: {:.1} % of later calls listed, {:.0} tokens",
            cell.policy,
            cell.hit_rate * 100.0,
            cell.mean_tokens
        ),
    };
    let points: Vec<Point> = cells.iter().map(point).collect();
    let svg = svg::scatter(&points, "% of later calls listed over tokens listed");
    let note = "Each dot is one choice of thresholds replayed over the history; on the line are \
                those that no other beats in both measures. Up: % of later calls whose tool was \
                listed. Right: mean tokens listed.";
    figure("What other thresholds would have done", &[], &svg, note)
}

/// Days, or equal runs of days when they are many.
fn spans(days: &[Day]) -> impl Iterator<Item = &[Day]> {
    days.chunks(days.len().div_ceil(COLUMNS_MAX).max(1))
}

fn label(days: &[Day]) -> &str {
    days.first().map_or("", |day| day.date.as_str())
}

fn span_note(days: &[Day]) -> String {
    match days.len().div_ceil(COLUMNS_MAX) {
        0 | 1 => "A bar is a day (UTC) with calls or listings.".to_owned(),
        n => format!("A bar is {n} days (UTC) with calls or listings, named after the first."),
    }
}

fn section_html(section: &Section) -> String {
    let mut html = format!("<section><h2>{}</h2>\n", escape(section.heading));
    for line in &section.lead {
        let _ = writeln!(html, "<p>{}</p>", escape(line));
    }
    if !section.rows.is_empty() {
        html.push_str("<div class=\"wide\"><table>\n<tr>");
        for head in &section.head {
            let _ = write!(html, "<th>{}</th>", escape(head));
        }
        html.push_str("</tr>\n");
        for row in &section.rows {
            html.push_str("<tr>");
            for cell in row {
                let _ = write!(html, "<td>{}</td>", escape(cell));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</table></div>\n");
    }
    for line in &section.notes {
        let _ = writeln!(html, "<p>{}</p>", escape(line));
    }
    html + "</section>\n"
}

/// For text and quoted attributes. Hidden characters are shown by their numbers.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    let text = mws_cli::sanitize(text);
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}
