//! What `tools/list` shows: the meta-tools, then the working set.
//!
//! Invariant: the same catalog, working set and settings give the same bytes, which clients' prompt
//! caches depend on.
//! Deliberately absent: the rest of the list result; see [`crate::proxy`].

use std::collections::{BTreeMap, BTreeSet};

use mws_catalog::{ListingOptions, client_problem};
use mws_config::{ColdStart, OnChange};

use crate::accepted::{Change, changes};
use crate::catalog::Tools;
use crate::meta;
use crate::working_set::WorkingSet;

/// The estimate that is used everywhere.
const BYTES_PER_TOKEN: usize = 4;

/// A rendered listing.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The `tools` array.
    pub(crate) json: String,
    /// Names in it, without the meta-tools.
    pub(crate) names: BTreeSet<String>,
    /// Tools of the working set whose definition is not the accepted one.
    pub(crate) changed: BTreeMap<String, Change>,
}

/// What decides about the form of a listing.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) options: ListingOptions,
    pub(crate) server_name: String,
    pub(crate) pins: BTreeSet<String>,
    pub(crate) cold_start: ColdStart,
    pub(crate) on_change: OnChange,
}

impl Listing {
    /// Renders the listing of `working_set` and the pins.
    pub(crate) fn render(
        tools: Option<&Tools>,
        working_set: Option<&WorkingSet>,
        rules: &Rules,
    ) -> Self {
        let mut parts = meta::definitions(rules.options.always_load);
        let mut names = BTreeSet::new();
        let changed = tools.zip(working_set).map(|(tools, set)| changes(tools, set));
        let changed = changed.unwrap_or_default();
        let mut wanted = at_start(tools, working_set, rules);
        let chosen = working_set.into_iter().flat_map(|set| &set.names).chain(&rules.pins);
        wanted.extend(chosen.map(String::as_str));
        wanted.retain(|name| rules.on_change == OnChange::Warn || !changed.contains_key(*name));
        for name in wanted {
            let Some(tool) = tools.and_then(|tools| tools.catalog.get(name)) else { continue };
            // A tool that some client would choke on stays reachable through call_tool.
            let fit =
                rules.pins.contains(name) || client_problem(tool, &rules.server_name).is_none();
            if fit && !meta::is_meta(name) {
                parts.push(tool.listed(&rules.options));
                names.insert(name.to_owned());
            }
        }
        Self { json: format!("[{}]", parts.join(",")), names, changed }
    }

    /// Number of tools shown, meta-tools included.
    pub(crate) fn len(&self) -> u64 {
        self.names.len() as u64 + meta::NAMES.len() as u64
    }
}

/// Names to list besides the others while no tool has been promoted yet.
fn at_start<'a>(
    tools: Option<&'a Tools>,
    working_set: Option<&WorkingSet>,
    rules: &Rules,
) -> BTreeSet<&'a str> {
    let ColdStart::AllUnderTokens(limit) = rules.cold_start else { return BTreeSet::new() };
    let is_cold = working_set.is_none_or(|set| set.is_cold);
    let all = tools.filter(|_| is_cold).map_or(&[][..], |tools| tools.catalog.tools());
    let bytes: usize = all.iter().map(|tool| tool.listed(&rules.options).len()).sum();
    let fits = bytes.div_ceil(BYTES_PER_TOKEN) < limit as usize;
    all.iter().filter(|_| fits).map(mws_catalog::Tool::name).collect()
}
