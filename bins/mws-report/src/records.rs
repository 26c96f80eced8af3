//! What the log says besides calls: searches, listings, changes, trouble, reading of transcripts.
//!
//! Invariant: a record counts once, however often its line is repeated, and in any order.
//! Deliberately absent: records outside the period, except the last listing, which is a state.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use mws_event::{Event, Kind, Record, Timestamp};
use serde::Serialize;

use crate::groups::percentile;
use crate::outcome::Outcome;
use crate::sizes::LastList;

const CHANGES_MAX: usize = 5;

/// The sums.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) searches: Searches,
    pub(crate) list: Option<LastList>,
    /// The last changes of the working set's names, newest first.
    pub(crate) changes: Vec<Change>,
    /// The last changes of the upstream's tool list, newest first.
    pub(crate) catalog_changes: Vec<CatalogChange>,
    pub(crate) trouble: Trouble,
    pub(crate) ingest: Ingest,
}

/// Answers of `search_tools`.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Searches {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) results: u64,
    /// How many of each kind of reply.
    pub(crate) kinds: BTreeMap<String, u64>,
    pub(crate) p50_ms: Option<u64>,
    pub(crate) p95_ms: Option<u64>,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// A publication that changed names.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    pub(crate) ts: Timestamp,
    pub(crate) tools: u64,
    pub(crate) promoted: Vec<String>,
    pub(crate) demoted: Vec<String>,
}

/// The upstream's tool list became another one.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CatalogChange {
    pub(crate) ts: Timestamp,
    pub(crate) tools: u64,
    pub(crate) added: u64,
    pub(crate) removed: u64,
}

/// What went wrong in the period.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Trouble {
    /// Events that the proxy could not record.
    pub(crate) dropped_events: u64,
    /// How often each published file was refused.
    pub(crate) rejected_artifacts: BTreeMap<String, u64>,
    /// How often each operation failed, as `list: timeout`.
    pub(crate) upstream_failures: BTreeMap<String, u64>,
}

/// Runs of `mws-ingest` in the period.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Ingest {
    pub(crate) runs: u64,
    pub(crate) last: Option<Timestamp>,
    pub(crate) files: u64,
    pub(crate) read_bytes: u64,
    pub(crate) calls: u64,
    pub(crate) bad_lines: u64,
    pub(crate) salvaged: u64,
    pub(crate) warnings: u64,
    /// Calls without a result, as of the last run.
    pub(crate) open_calls: u64,
}

impl Records {
    /// Folds the records from `since` until before `horizon`.
    pub(crate) fn fold(events: &[Event], since: Timestamp, horizon: Timestamp) -> Self {
        let mut records: Vec<&Record> = once_each(events);
        records.retain(|record| record.ts < horizon);
        records.sort_by_key(|record| (record.ts, &record.id));
        let mut sums = Self::default();
        let mut search_ms = Vec::new();
        for record in records {
            sums.note_listing(record);
            if record.ts >= since {
                sums.add(record, &mut search_ms);
            }
        }
        search_ms.sort_unstable();
        sums.searches.outcome = Outcome::of(events, since, horizon);
        sums.searches.p50_ms = percentile(&search_ms, 50);
        sums.searches.p95_ms = percentile(&search_ms, 95);
        newest_first(&mut sums.changes);
        newest_first(&mut sums.catalog_changes);
        sums
    }

    fn note_listing(&mut self, record: &Record) {
        if let Kind::List { listed, catalog, bytes, catalog_bytes, .. } = record.kind {
            self.list = Some(LastList { ts: record.ts, listed, bytes, catalog, catalog_bytes });
        }
    }

    fn add(&mut self, record: &Record, search_ms: &mut Vec<u64>) {
        let count = |counts: &mut BTreeMap<String, u64>, key: String| {
            *counts.entry(key).or_default() += 1;
        };
        match &record.kind {
            Kind::Search { bytes, results, kind, ms, .. } => {
                self.searches.count += 1;
                self.searches.bytes += bytes;
                self.searches.results += results;
                let kind = kind.as_deref().unwrap_or("unknown");
                count(&mut self.searches.kinds, kind.to_owned());
                search_ms.extend(ms);
            }
            Kind::WorkingSetPublished { tools, promoted, demoted, .. }
                if !(promoted.is_empty() && demoted.is_empty()) =>
            {
                let (promoted, demoted) = (promoted.clone(), demoted.clone());
                self.changes.push(Change { ts: record.ts, tools: *tools, promoted, demoted });
            }
            &Kind::CatalogChanged { tools, added, removed, .. } => {
                self.catalog_changes.push(CatalogChange { ts: record.ts, tools, added, removed });
            }
            Kind::Dropped { n } => self.trouble.dropped_events += n,
            Kind::ArtifactRejected { artifact } => {
                count(&mut self.trouble.rejected_artifacts, artifact.clone());
            }
            Kind::UpstreamFailed { op, kind, .. } => {
                count(&mut self.trouble.upstream_failures, format!("{op}: {kind}"));
            }
            Kind::IngestRun { .. } => self.ingest.add(record),
            _ => {}
        }
    }
}

fn newest_first<T>(changes: &mut Vec<T>) {
    changes.reverse();
    changes.truncate(CHANGES_MAX);
}

impl Ingest {
    fn add(&mut self, record: &Record) {
        let Kind::IngestRun {
            files, read_bytes, calls, open, bad_lines, salvaged, warnings, ..
        } = record.kind
        else {
            return;
        };
        self.runs += 1;
        self.last = Some(record.ts);
        self.files += files;
        self.read_bytes += read_bytes;
        self.calls += calls;
        self.bad_lines += bad_lines;
        self.salvaged += salvaged;
        self.warnings += warnings;
        self.open_calls = open;
    }
}

pub(crate) fn once_each(events: &[Event]) -> Vec<&Record> {
    let mut seen = HashSet::new();
    let mut records = Vec::new();
    for event in events {
        if let Event::Record(record) = event
            && seen.insert(known_by(record.id.as_deref(), record))
        {
            records.push(record);
        }
    }
    records
}

/// Lines of the earlier version have no id; their content tells them apart.
pub(crate) fn known_by<'a>(id: Option<&'a str>, line: &'a impl std::fmt::Debug) -> Cow<'a, str> {
    id.map_or_else(|| Cow::Owned(format!("{line:?}")), Cow::Borrowed)
}
