//! The report for node_exporter's textfile collector.
//!
//! Invariant: gauges only: the log is cut by retention, so no figure is sure to grow.
//! Deliberately absent: session and client names, whose number has no bound.

use std::fmt::Write;

use crate::report::Report;

/// The text format, version 0.0.4. `now` of the report is among the figures, so that a
/// report that is no longer made can be noticed.
pub(crate) fn prometheus(report: &Report) -> String {
    let (sizes, calls, health) = (&report.sizes, &report.calls, &report.health);
    let mut out = Text(String::new());
    out.one("report_timestamp_seconds", "When this report was made.", {
        report.until.unix_ms() as f64 / 1_000.0
    });
    out.one("listed_tools", "Tools listed, meta-tools included.", sizes.listed_tools);
    out.one("listed_bytes", "Bytes of the listed tools.", sizes.listed_bytes);
    out.one("catalog_tools", "Tools of the upstream.", sizes.catalog_tools);
    out.one("catalog_bytes", "Bytes of the upstream's tools.", sizes.catalog_bytes);
    out.family(
        "calls",
        "Calls through the proxy, by how the tool was reached.",
        [
            (vec![("via", "listed")], calls.listed),
            (vec![("via", "call_tool")], calls.call_tool),
            (vec![("via", "direct")], calls.direct),
        ],
    );
    out.one("calls_failed", "Calls that failed, whoever saw them.", calls.failed);
    if let Some(share) = calls.served_directly {
        out.one("hit_ratio", "Share of the proxied calls whose tool was listed.", share);
    }
    out.one("searches", "Answers of search_tools.", report.searches.count);
    out.one("search_bytes", "Bytes of the answers of search_tools.", report.searches.bytes);
    if let Some(rank) = report.searches.outcome.mean_reciprocal_rank {
        out.one("search_mean_reciprocal_rank", "Of the tools called after a search.", rank);
    }
    let failures = health.trouble.upstream_failures.iter();
    out.family("upstream_failures", "Failures of the upstream, by operation and kind.", {
        failures.map(|(what, n)| (vec![("failure", what.as_str())], *n))
    });
    let rejected = health.trouble.rejected_artifacts.iter();
    out.family("artifacts_rejected", "Damaged files refused; the last good one served.", {
        rejected.map(|(name, n)| (vec![("artifact", name.as_str())], *n))
    });
    out.one("dropped_events", "Events that the proxy lost.", health.trouble.dropped_events);
    out.one("missing_events", "Events missing between others.", health.missing_events);
    out.one("damaged_lines", "Lines of the log that are no event.", health.damaged_lines);
    if let Some(last) = report.ingest.last {
        let seconds = last.unix_ms() as f64 / 1_000.0;
        out.one("ingest_timestamp_seconds", "When transcripts were last read.", seconds);
    }
    out.one("ingest_bad_lines", "Damaged lines in transcripts.", report.ingest.bad_lines);
    out.0
}

struct Text(String);

impl Text {
    fn one(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, help, [(Vec::new(), value)]);
    }

    fn family<'a, V: std::fmt::Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Vec<(&'a str, &'a str)>, V)>,
    ) {
        let _ = writeln!(self.0, "# HELP mws_{name} {help}\n# TYPE mws_{name} gauge");
        for (labels, value) in samples {
            let labels: Vec<String> =
                labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escape(value))).collect();
            let labels =
                if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(self.0, "mws_{name}{labels} {value}");
        }
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
