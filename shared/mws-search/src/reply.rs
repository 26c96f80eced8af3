//! The reply of `search_tools`.
//!
//! Invariant: schemas are the upstream's bytes or absent, never shortened; every reply but that to
//! an exact name keeps [`BUDGET`]. Deliberately absent: scores.

use mws_catalog::{Catalog, Tool};
use serde_json::json;

use crate::find::{Found, Kind};
use crate::index::Index;
use crate::signature::signature;

/// The most bytes of JSON text in a reply, except to an exact name.
pub const BUDGET: usize = 6144;

/// How many tools come with their whole schema.
const SCHEMAS: usize = 3;
/// Characters of description for tools with a schema and for those after them; each step is tried
/// when the one before does not fit.
const TRIMS: [(usize, usize); 4] = [(1000, 240), (500, 160), (240, 100), (120, 60)];

/// What a search answers.
#[derive(Clone, Debug)]
pub struct Reply {
    /// How the query was understood.
    pub kind: Kind,
    /// Nothing fits well.
    pub weak: bool,
    /// Names of the tools in the reply, best first; those that only an overview lists are not here.
    pub results: Vec<String>,
    /// How many were left out to keep the budget: tools, in an overview backends.
    pub more: usize,
    text: String,
}

impl Reply {
    /// The reply as JSON text.
    pub fn to_json(&self) -> String {
        self.text.clone()
    }
}

/// Searches a catalog with its index; `listed` says which tools the client sees anyway.
///
/// Tools that the index names and the catalog lacks are left out.
pub fn search(
    index: &Index,
    catalog: &Catalog,
    query: &str,
    listed: &dyn Fn(&str) -> bool,
    limit: usize,
) -> Reply {
    let found = index.rank(query, limit);
    if found.kind == Kind::Overview {
        return overview(index, listed);
    }
    let names = found.tools.iter().filter_map(|&tool| index.name(tool));
    let tools: Vec<&Tool> = names.filter_map(|name| catalog.get(name)).collect();
    if found.kind == Kind::Exact {
        let entries: Vec<String> = tools.iter().map(|tool| whole(tool, None)).collect();
        return finish(&found, &tools, entries, tools.len());
    }
    ranked(&found, &tools)
}

/// The fullest form that keeps the budget: descriptions are trimmed first, then schemas go, then the
/// lowest tools.
fn ranked(found: &Found, tools: &[&Tool]) -> Reply {
    for trim in TRIMS {
        let entries = entries(tools, trim, &[true; SCHEMAS]);
        let reply = finish(found, tools, entries, tools.len());
        if reply.text.len() <= BUDGET {
            return reply;
        }
    }
    let tightest = TRIMS[TRIMS.len() - 1];
    let form = |schemas: &[bool], shown: usize| {
        let shown_tools = tools.get(..shown).unwrap_or(tools);
        finish(found, tools, entries(shown_tools, tightest, schemas), shown)
    };
    let mut shown = tools.len();
    while shown > 1 && form(&[], shown).text.len() > BUDGET {
        shown -= 1;
    }
    let mut schemas = vec![false; SCHEMAS.min(shown)];
    for at in 0..schemas.len() {
        schemas[at] = true;
        if form(&schemas, shown).text.len() > BUDGET {
            schemas[at] = false;
        }
    }
    form(&schemas, shown)
}

fn entries(tools: &[&Tool], trim: (usize, usize), schemas: &[bool]) -> Vec<String> {
    let entry = |(at, tool): (usize, &&Tool)| {
        let (first, later) = trim;
        if schemas.get(at).copied().unwrap_or_default() {
            whole(tool, Some(first))
        } else {
            brief(tool, if at < SCHEMAS { first } else { later })
        }
    };
    tools.iter().enumerate().map(entry).collect()
}

/// A tool with its schema.
fn whole(tool: &Tool, trim: Option<usize>) -> String {
    let description = described(tool, trim.unwrap_or(usize::MAX));
    let schema = tool.input_schema().map(|schema| format!(",\"inputSchema\":{schema}"));
    format!("{{\"name\":{}{description}{}}}", json!(tool.name()), schema.unwrap_or_default())
}

/// A tool with its signature.
fn brief(tool: &Tool, trim: usize) -> String {
    let description = described(tool, trim);
    let signature = json!(signature(tool.input_schema().unwrap_or_default()));
    format!("{{\"name\":{}{description},\"signature\":{signature}}}", json!(tool.name()))
}

fn described(tool: &Tool, trim: usize) -> String {
    let text = tool.description().trim();
    if text.is_empty() {
        return String::new();
    }
    let text = match text.char_indices().nth(trim) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    };
    format!(",\"description\":{}", json!(text))
}

fn finish(found: &Found, tools: &[&Tool], entries: Vec<String>, shown: usize) -> Reply {
    let weak = if found.weak { ",\"weak\":true" } else { "" };
    let kind = found.kind.as_str();
    let more = tools.len().saturating_sub(shown);
    let tail = tail(more);
    let text = format!("{{\"kind\":\"{kind}\"{weak},\"results\":[{}]{tail}}}", entries.join(","));
    let names = tools.iter().take(shown).map(|tool| tool.name().to_owned());
    Reply { kind: found.kind, weak: found.weak, results: names.collect(), more, text }
}

fn tail(more: usize) -> String {
    if more == 0 { String::new() } else { format!(",\"more\":{more}") }
}

/// Every backend with the names of its tools; fewer names, then counts, then the largest backends.
fn overview(index: &Index, listed: &dyn Fn(&str) -> bool) -> Reply {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    let marked = |tool: &u32| {
        let name = index.name(*tool)?;
        Some(if listed(name) { format!("{name}*") } else { name.to_owned() })
    };
    for backend in &index.backends {
        groups.push((&backend.name, backend.tools.iter().filter_map(marked).collect()));
    }
    let alone = (0..).zip(&index.tools).filter(|(_, tool)| tool.backend.is_none());
    let alone: Vec<String> = alone.filter_map(|(tool, _)| marked(&tool)).collect();
    if !alone.is_empty() {
        groups.push(("", alone));
    }
    for names in [usize::MAX, 20, 10, 5, 3, 1, 0] {
        let reply = overview_of(&groups, names, groups.len());
        if reply.text.len() <= BUDGET {
            return reply;
        }
    }
    groups.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    let fits = |shown: &usize| overview_of(&groups, 0, *shown).text.len() <= BUDGET;
    let shown = (0..groups.len()).rev().find(fits).unwrap_or_default();
    overview_of(&groups, 0, shown)
}

fn overview_of(groups: &[(&str, Vec<String>)], names: usize, shown: usize) -> Reply {
    let backends: Vec<String> = groups
        .iter()
        .take(shown)
        .map(|(name, tools)| {
            let names: Vec<&String> = tools.iter().take(names).collect();
            let list = if names.is_empty() {
                String::new()
            } else {
                format!(",\"names\":{}", json!(names))
            };
            format!("{{\"name\":{},\"count\":{}{list}}}", json!(name), tools.len())
        })
        .collect();
    let more = groups.len() - shown;
    let (list, tail) = (backends.join(","), tail(more));
    let text = format!("{{\"kind\":\"overview\",\"backends\":[{list}],\"results\":[]{tail}}}");
    Reply { kind: Kind::Overview, weak: false, results: Vec::new(), more, text }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
