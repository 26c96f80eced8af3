//! The report for a terminal.
//!
//! Invariant: names from elsewhere are made safe for a terminal.
//! Deliberately absent: what is said; that is [`crate::sections`].

use mws_cli::{Style, paint, sanitize};

use crate::report::Report;
use crate::sections::{Section, sections};

/// The whole text; headings are bold with `color`.
pub(crate) fn text(report: &Report, color: bool) -> String {
    let mut text = String::new();
    for section in sections(report) {
        if !text.is_empty() {
            text.push('\n');
        }
        let since = report.since.filter(|_| section.is_of_the_period);
        let since = since.map_or_else(String::new, |since| format!(" since {since}"));
        text.push_str(&paint(section.heading, Style::Bold, color));
        text.push_str(&format!("{since}\n"));
        for line in lines(&section) {
            text.push_str(&format!("  {}\n", line.trim_end()));
        }
    }
    text
}

fn lines(section: &Section) -> Vec<String> {
    let safe = |line: &String| sanitize(line).into_owned();
    let mut lines: Vec<String> = section.lead.iter().map(safe).collect();
    if !section.rows.is_empty() {
        let rows: Vec<Vec<String>> =
            section.rows.iter().map(|row| row.iter().map(safe).collect()).collect();
        lines.extend(aligned(&section.head, &rows));
    }
    lines.extend(section.notes.iter().map(safe));
    lines
}

/// Columns two spaces apart; the first is text, as is any that holds something but figures.
fn aligned(head: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let is_figure = |cell: &String| cell.chars().all(|c| c.is_ascii_digit() || ",.~%-".contains(c));
    let column = |i: usize| rows.iter().map(move |row| &row[i]);
    let width =
        |i: usize| column(i).map(|cell| cell.chars().count()).max().unwrap_or(0).max(head[i].len());
    let columns: Vec<(usize, bool)> =
        (0..head.len()).map(|i| (width(i), i > 0 && column(i).all(is_figure))).collect();
    let line = |cells: Vec<&str>| {
        let cell = |(cell, &(width, right)): (&str, &(usize, bool))| {
            if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        };
        cells.into_iter().zip(&columns).map(cell).collect::<Vec<_>>().join("  ")
    };
    let body = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    std::iter::once(line(head.to_vec())).chain(body).collect()
}
