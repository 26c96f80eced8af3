//! The reply of `search_tools`.
//!
//! Invariant: schemas are the upstream's bytes or absent, never shortened; every reply but that to
//! an exact name keeps [`BUDGET`]. Deliberately absent: scores.

use std::borrow::Cow;
use std::cell::OnceCell;

use mws_catalog::{Catalog, Tool};
use serde_json::json;

use crate::document::sentences;
use crate::find::{Found, Kind};
use crate::index::Index;
use crate::signature::signature;

/// The most bytes of JSON text in a reply, except to an exact name.
pub const BUDGET: usize = 6144;

/// How many tools come with their whole schema.
const SCHEMAS: usize = 3;
/// Characters of description for tools with a schema and of the sentence behind a signature; each
/// step is tried when the one before does not fit.
const TRIMS: [(usize, usize); 4] = [(1000, 160), (500, 120), (240, 90), (120, 60)];

/// Characters of the sentence behind a signature that stands for a schema.
const BRIEF: usize = 240;

const WEAK: &str = "Nothing fits well; these are the closest. Other words, an exact tool name or a backend name may find more.";
const WEAK_EMPTY: &str =
    "Nothing fits. Other words, a tool name or a backend name may; an empty query lists all tools.";
const UNKNOWN: &str = "No tool has this name. Did you mean one of these?";
const EVERYWHERE: &str = "No backend has that name; all were searched.";
const CUT: &str = "For a tool's schema, search its exact name.";

/// What is asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// Words, names, or nothing.
    pub query: &'a str,
    /// Looks only in this backend, where there is one of that name.
    pub backend: Option<&'a str>,
    /// Most tools in a ranked reply.
    pub limit: usize,
    /// How much comes with each tool.
    pub detail: Detail,
}

/// How much a reply says of each tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Schemas for the best, signatures for the others.
    #[default]
    Best,
    /// Signatures for all.
    Brief,
    /// Schemas for as many as fit.
    Full,
}

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
    answer(index, catalog, listed, &Request { query, limit, ..Request::default() })
}

/// Searches with everything that may be asked.
pub fn answer(
    index: &Index,
    catalog: &Catalog,
    listed: &dyn Fn(&str) -> bool,
    request: &Request<'_>,
) -> Reply {
    let found = index.rank_in(request.query, request.backend, request.limit);
    let everywhere = request.backend.is_some_and(|name| index.backend_named(name).is_none());
    if found.kind == Kind::Overview {
        return overview(index, listed);
    }
    let names = found.tools.iter().filter_map(|&tool| index.name(tool));
    let tools: Vec<&Tool> = names.filter_map(|name| catalog.get(name)).collect();
    let lines = vec![OnceCell::new(); tools.len()];
    let page = Page { found: &found, tools: &tools, lines, everywhere };
    if found.kind == Kind::Exact {
        let entries: Vec<String> = tools.iter().map(|tool| whole(tool, None)).collect();
        return page.finish(&entries, false);
    }
    let schemas = match request.detail {
        Detail::Best => SCHEMAS.max(found.named),
        Detail::Brief => 0,
        Detail::Full => tools.len(),
    };
    page.fit(schemas.min(tools.len()))
}

/// Tools on the way to a reply.
struct Page<'a> {
    found: &'a Found,
    tools: &'a [&'a Tool],
    /// The parameters of each tool: schemas are long, and every form is tried.
    lines: Vec<OnceCell<String>>,
    /// A backend was named that there is not.
    everywhere: bool,
}

impl Page<'_> {
    /// The fullest form that keeps the budget: descriptions are trimmed first, then schemas go, then
    /// the lowest tools.
    fn fit(&self, schemas: usize) -> Reply {
        for trim in TRIMS {
            let reply = self.form(trim, &vec![true; schemas], self.tools.len());
            if reply.text.len() <= BUDGET {
                return reply;
            }
        }
        let tightest = TRIMS[TRIMS.len() - 1];
        let keeps =
            |schemas: &[bool], shown| self.form(tightest, schemas, shown).text.len() <= BUDGET;
        // The largest number that fits: more tools never make a shorter text.
        let (mut shown, mut over) = (0, self.tools.len() + 1);
        while over - shown > 1 {
            let middle = shown.midpoint(over);
            if keeps(&vec![false; schemas], middle) { shown = middle } else { over = middle }
        }
        let mut given = vec![false; schemas.min(shown)];
        for at in 0..given.len() {
            given[at] = true;
            given[at] = keeps(&given, shown);
        }
        self.form(tightest, &given, shown)
    }

    /// The first `shown` tools; `schemas` says for each of the first whether its schema comes along.
    fn form(&self, (long, short): (usize, usize), schemas: &[bool], shown: usize) -> Reply {
        let entry = |(at, tool): (usize, &&Tool)| match schemas.get(at) {
            Some(true) => whole(tool, Some(long)),
            Some(false) => self.brief(at, tool, long.min(BRIEF)),
            None => self.brief(at, tool, short),
        };
        let entries: Vec<String> = self.tools.iter().take(shown).enumerate().map(entry).collect();
        self.finish(&entries, schemas.contains(&false))
    }

    /// A tool on one line.
    fn brief(&self, at: usize, tool: &Tool, trim: usize) -> String {
        let make = || signature(tool.input_schema().unwrap_or_default());
        let parameters = self.lines.get(at).map_or("", |line| line.get_or_init(make));
        let (sentence, _) = sentences(tool.description());
        let sentence = cut(sentence.trim(), trim);
        let dash = if sentence.is_empty() { "" } else { " — " };
        let line = format!("{}{parameters}{dash}{sentence}", tool.name());
        let line = line.replace(char::is_control, " ");
        format!("{{\"name\":{},\"signature\":{}}}", json!(tool.name()), json!(line))
    }

    fn finish(&self, entries: &[String], cut: bool) -> Reply {
        let Found { kind, weak, unknown_name, .. } = *self.found;
        let notes = [
            self.everywhere.then_some(EVERYWHERE),
            (unknown_name && !weak).then_some(UNKNOWN),
            weak.then_some(if entries.is_empty() { WEAK_EMPTY } else { WEAK }),
            cut.then_some(CUT),
        ];
        let notes: Vec<&str> = notes.into_iter().flatten().collect();
        let note = match notes.is_empty() {
            true => String::new(),
            false => format!(",\"note\":{}", json!(notes.join(" "))),
        };
        let mark = if weak { ",\"weak\":true" } else { "" };
        let more = self.tools.len().saturating_sub(entries.len());
        let (word, list, tail) = (kind.as_str(), entries.join(","), tail(more));
        let text = format!("{{\"kind\":\"{word}\"{mark}{note},\"results\":[{list}]{tail}}}");
        let names = self.tools.iter().take(entries.len()).map(|tool| tool.name().to_owned());
        Reply { kind, weak, results: names.collect(), more, text }
    }
}

/// A tool with its schema.
fn whole(tool: &Tool, trim: Option<usize>) -> String {
    let text = tool.description().trim();
    let description = match text.is_empty() {
        true => String::new(),
        false => format!(",\"description\":{}", json!(cut(text, trim.unwrap_or(usize::MAX)))),
    };
    let schema = tool.input_schema().map(|schema| format!(",\"inputSchema\":{schema}"));
    format!("{{\"name\":{}{description}{}}}", json!(tool.name()), schema.unwrap_or_default())
}

/// The first `limit` characters, with a mark where more follow.
fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()).into(),
        None => text.into(),
    }
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
