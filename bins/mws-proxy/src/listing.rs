//! What `tools/list` shows: the meta-tools, then the working set.
//!
//! Invariant: the same catalog, working set and settings give the same bytes, which clients' prompt
//! caches depend on; they are made once, however often they are asked for.
//! Deliberately absent: when to make them anew; see [`crate::proxy`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use mws_catalog::{Backends, ListingOptions, META_TOOLS, client_problem};
use mws_config::{ColdStart, OnChange};

use crate::accepted::{Change, changes};
use crate::bridge;
use crate::catalog::Tools;
use crate::edit::Object;
use crate::guide::Guide;
use crate::meta;
use crate::rpc::Era;
use crate::session_bridge::strict_tools;
use crate::working_set::WorkingSet;

/// The estimate that is used everywhere.
const BYTES_PER_TOKEN: usize = 4;
/// The longest a listing may be kept by a client, in milliseconds: the working set may change.
const TTL_MS: u64 = 60_000;

/// A rendered listing.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Size of the `tools` array.
    pub(crate) bytes: u64,
    /// The whole result, for stateless clients and for sessions.
    modern: String,
    session: String,
    /// For sessions in front of a stateless upstream; made when the first of them asks.
    strict: OnceLock<String>,
    /// Names in it, without the meta-tools.
    pub(crate) names: BTreeSet<String>,
    /// What the server's instructions say of the search.
    pub(crate) instructions: String,
    /// Tools of the working set whose definition is not the accepted one.
    pub(crate) changed: BTreeMap<String, Change>,
}

/// What decides about the form of a listing.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) options: ListingOptions,
    pub(crate) server_name: String,
    pub(crate) pins: BTreeSet<String>,
    /// Backend → words about it.
    pub(crate) hints: BTreeMap<String, String>,
    /// Whether the server's instructions say how to search.
    pub(crate) instructions: bool,
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
        let backends = tools.map(|tools| Backends::of(&tools.catalog)).unwrap_or_default();
        let guide = Guide::of(&backends, &rules.hints);
        let mut parts = meta::definitions(&guide, rules.options.always_load);
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
        let list = format!("[{}]", parts.join(","));
        let rest = tools.map(|tools| tools.rest.as_str());
        let (modern, session) =
            (result(&list, rest, Era::Modern), result(&list, rest, Era::Session));
        let instructions = guide.instructions;
        Self {
            bytes: list.len() as u64,
            modern,
            session,
            strict: OnceLock::new(),
            names,
            instructions,
            changed,
        }
    }

    /// The result of `tools/list` for a client of this era.
    pub(crate) fn result(&self, era: Era) -> &str {
        match era {
            Era::Modern => &self.modern,
            Era::Session => &self.session,
        }
    }

    /// The result for a session that is carried over to a stateless upstream.
    pub(crate) fn strict_result(&self) -> &str {
        self.strict.get_or_init(|| {
            let mut result = Object::of(Some(&self.session));
            let list = result.get("tools").map(strict_tools);
            result.set("tools", list.unwrap_or_default());
            result.to_json()
        })
    }

    /// Number of tools shown, meta-tools included.
    pub(crate) fn len(&self) -> u64 {
        self.names.len() as u64 + META_TOOLS.len() as u64
    }
}

/// The upstream's result with this list in it, as a client of `era` takes it.
fn result(list: &str, rest: Option<&str>, era: Era) -> String {
    let mut result = Object::of(None);
    result.set("tools", list);
    for (key, value) in Object::of(rest).into_members() {
        result.set(&key, value);
    }
    match era {
        Era::Modern => {
            let ttl = result.get("ttlMs").and_then(|ttl| ttl.parse::<u64>().ok()).unwrap_or(0);
            result.set("ttlMs", ttl.min(TTL_MS).to_string());
            bridge::complete(&mut result, "tools/list");
        }
        Era::Session => {
            for key in ["resultType", "ttlMs", "cacheScope"] {
                result.remove(key);
            }
        }
    }
    result.to_json()
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
