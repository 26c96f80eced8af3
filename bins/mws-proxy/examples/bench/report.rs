//! The table, the JSON, and the verdict.
//!
//! Invariant: a row passes when it is within its limit times the slack; sizes get no slack.
//! Deliberately absent: history.

use serde_json::{Value, json};

use crate::load::Figures;

/// How far measured figures may be beyond the limit before the gate fails.
const SLACK: f64 = 1.3;

/// The limit of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    must: f64,
    goal: f64,
    least: bool,
    slack: f64,
}

impl Limit {
    pub(crate) fn most(must: f64, goal: f64) -> Self {
        Self { must, goal, least: false, slack: SLACK }
    }

    pub(crate) fn least(must: f64, goal: f64) -> Self {
        Self { least: true, ..Self::most(must, goal) }
    }

    /// For what does not vary from run to run.
    pub(crate) fn exact(self) -> Self {
        Self { slack: 1.0, ..self }
    }

    fn meets(self, value: f64, limit: f64, slack: f64) -> bool {
        if self.least { value >= limit / slack } else { value <= limit * slack }
    }
}

/// All rows so far.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<(String, f64, Limit)>,
    notes: Vec<Value>,
}

impl Report {
    pub(crate) fn row(&mut self, name: &str, value: f64, limit: Limit) {
        let verdict = match () {
            () if limit.meets(value, limit.goal, 1.0) => "goal",
            () if limit.meets(value, limit.must, 1.0) => "ok",
            () if limit.meets(value, limit.must, limit.slack) => "slack",
            () => "FAILS",
        };
        let sign = if limit.least { ">=" } else { "<=" };
        let (must, goal) = (limit.must, limit.goal);
        println!(
            "{name:<46} {value:>8.2}   must {sign} {must:<6.2} goal {sign} {goal:<6.2} {verdict}"
        );
        self.rows.push((name.to_owned(), value, limit));
    }

    /// Absolute figures, for information.
    pub(crate) fn note(&mut self, name: &str, [direct, splice, proxy]: [Figures; 3]) {
        for (target, f) in [("direct", direct), ("splice", splice), ("proxy", proxy)] {
            println!(
                "    {name}, {target}: p50 {:.1} µs, p99 {:.1} µs, {:.0} calls/s, {:.1} µs CPU a call",
                f.p50, f.p99, f.rate, f.cpu
            );
            self.notes.push(json!({
                "name": name, "target": target, "p50_us": f.p50, "p99_us": f.p99,
                "calls_per_s": f.rate, "cpu_us": f.cpu,
            }));
        }
    }

    pub(crate) fn peer(&mut self, command: &str, peer: Figures, own: Figures) {
        let (cpu, p50) = (peer.cpu / own.cpu, peer.p50 / own.p50);
        println!(
            "    peer ({command}): {:.0} µs CPU a call, {cpu:.1} times ours; p50 {:.0} µs, {p50:.1} times ours",
            peer.cpu, peer.p50
        );
        self.notes.push(json!({
            "name": "peer", "command": command, "cpu_us": peer.cpu, "cpu_ratio": cpu, "p50_us": peer.p50,
            "p50_ratio": p50,
        }));
    }

    /// Prints the JSON; true when every row is within its limit and the slack.
    pub(crate) fn finish(&self) -> bool {
        let passes = |(_, value, limit): &(String, f64, Limit)| {
            value.is_finite() && limit.meets(*value, limit.must, limit.slack)
        };
        let row = |row: &(String, f64, Limit)| {
            let (name, value, limit) = row;
            let side = if limit.least { "least" } else { "most" };
            json!({
                "name": name, "value": value, "limit": side, "must": limit.must, "goal": limit.goal,
                "passes": passes(row),
            })
        };
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        println!("{}", json!({"rows": rows, "notes": self.notes}));
        self.rows.iter().all(passes)
    }
}
