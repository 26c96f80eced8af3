//! What `tools/list` shows: the meta-tools, then the working set.
//!
//! Invariant: the same catalog, working set and settings give the same bytes, which clients' prompt
//! caches depend on.
//! Deliberately absent: the rest of the list result; see [`crate::proxy`].

use std::collections::BTreeSet;

use mws_catalog::{ListingOptions, META_TOOLS, client_problem};

use crate::catalog::Tools;
use crate::meta;

/// A rendered listing.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The `tools` array.
    pub(crate) json: String,
    /// Names in it, without the meta-tools.
    pub(crate) names: BTreeSet<String>,
}

/// What decides about the form of a listing.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) options: ListingOptions,
    pub(crate) server_name: String,
    pub(crate) pins: BTreeSet<String>,
}

impl Listing {
    /// Renders the listing of `working_set` and the pins.
    pub(crate) fn render(
        tools: Option<&Tools>,
        working_set: Option<&BTreeSet<String>>,
        rules: &Rules,
    ) -> Self {
        let mut parts = meta::definitions(rules.options.always_load);
        let mut names = BTreeSet::new();
        let wanted: BTreeSet<&String> =
            working_set.into_iter().flatten().chain(&rules.pins).collect();
        for name in wanted {
            let Some(tool) = tools.and_then(|tools| tools.catalog.get(name)) else { continue };
            // A tool that some client would choke on stays reachable through call_tool.
            let fit =
                rules.pins.contains(name) || client_problem(tool, &rules.server_name).is_none();
            if fit && !meta::is_meta(name) {
                parts.push(tool.listed(&rules.options));
                names.insert(name.clone());
            }
        }
        Self { json: format!("[{}]", parts.join(",")), names }
    }

    /// Number of tools shown, meta-tools included.
    pub(crate) fn len(&self) -> u64 {
        self.names.len() as u64 + META_TOOLS.len() as u64
    }
}
