//! What kind of query it is, and what it finds.
//!
//! Invariant: an exact name is never outranked and a bare backend name lists that backend.
//! Deliberately absent: reply texts.

use crate::hash::Set;
use crate::index::Index;
use crate::spelt::Words;
use crate::{spelling, words};

/// Names like a wrong one that are put first.
const MOST_MEANT: usize = 3;

/// How a query was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The query is a tool's name.
    Exact,
    /// The query is a backend's name.
    Backend,
    /// Anything else.
    Ranked,
    /// The query is empty.
    Overview,
}

impl Kind {
    /// The word that stands in replies and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Backend => "backend",
            Self::Ranked => "ranked",
            Self::Overview => "overview",
        }
    }
}

/// Tools for a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// How they were found.
    pub kind: Kind,
    /// Places in the catalog, best first.
    pub tools: Vec<u32>,
    /// Nothing fits well.
    pub weak: bool,
    /// How many of the first tools stand there because the query names them among other words.
    pub named: usize,
    /// The query has the form of a name, and no tool has it.
    pub unknown_name: bool,
}

impl Index {
    /// Finds at most `limit` tools; exact names and a backend give all of theirs.
    pub fn rank(&self, query: &str, limit: usize) -> Found {
        self.rank_in(query, None, limit)
    }

    /// The same among the tools of one backend only, where one of that name exists.
    pub fn rank_in(&self, query: &str, backend: Option<&str>, limit: usize) -> Found {
        let query = query.trim();
        let found = |kind, tools| Found { kind, tools, weak: false, named: 0, unknown_name: false };
        let backend = backend.and_then(|name| self.backend_named(name));
        if query.is_empty() {
            let tools = backend.and_then(|place| self.backends.get(place as usize));
            return match tools {
                Some(backend) => found(Kind::Backend, backend.tools.clone()),
                None => found(Kind::Overview, Vec::new()),
            };
        }
        let folded = words::fold(query);
        if let Some(tools) = self.exact_folded(query, &folded) {
            return found(Kind::Exact, tools);
        }
        let (named, all) = self.names_within(query);
        if all {
            return found(Kind::Exact, named);
        }
        let words = Words::of(query);
        if let Some(tools) = self.whole_backend(&folded, &words).filter(|_| backend.is_none()) {
            return found(Kind::Backend, tools);
        }
        self.ranked(query, &words, backend, named, limit)
    }

    /// The place of a backend, by its name in any case.
    pub(crate) fn backend_named(&self, name: &str) -> Option<u32> {
        self.lookup.backend_names.get(&words::fold(name.trim())).copied()
    }

    fn ranked(
        &self,
        text: &str,
        words: &Words,
        backend: Option<u32>,
        named: Vec<u32>,
        limit: usize,
    ) -> Found {
        let mut query = self.expand(words);
        if let Some(backend) = backend {
            query.restrict(backend);
        }
        let scores = self.score(&query, limit);
        let unknown_name = named.is_empty() && is_name(text);
        let nearest = if unknown_name { self.nearest_names(text) } else { named.clone() };
        let mut tools = nearest.clone();
        let others = scores.tools.into_iter().map(|(tool, _)| tool);
        tools.extend(others.filter(|tool| !nearest.contains(tool)));
        tools.truncate(limit.max(named.len()));
        let weak = scores.weak && nearest.is_empty();
        Found { kind: Kind::Ranked, tools, weak, named: named.len(), unknown_name }
    }

    /// The tools whose names stand in a query, and whether it says nothing else. Only what is written
    /// like a name counts as one.
    fn names_within(&self, query: &str) -> (Vec<u32>, bool) {
        let (mut tools, mut all) = (Vec::new(), true);
        let between = |c: char| {
            c.is_whitespace() || matches!(c, ',' | ';' | '`' | '"' | '\'' | '(' | ')' | '[' | ']')
        };
        for part in query.split(between).map(|part| part.trim_end_matches(['.', ':', '?', '!'])) {
            let name = Some(part).filter(|part| is_name(part)).and_then(|part| self.exact(part));
            match name {
                Some(name) => tools.extend(name),
                None => all = all && (part.is_empty() || words::is_stop(&words::fold(part))),
            }
        }
        let mut seen = Set::default();
        tools.retain(|&tool| seen.insert(tool));
        (tools, all && !seen.is_empty())
    }

    /// Tools whose names, with or without backend, differ from a text by few letters.
    fn nearest_names(&self, text: &str) -> Vec<u32> {
        let wanted = words::fold(text.trim_end_matches('*'));
        let mut near: Vec<(usize, u32)> = Vec::new();
        self.lookup.name_shapes.near(&wanted, spelling::most_slips(&wanted), &mut |place| {
            let tool = place / 2;
            let Some(entry) = self.tools.get(tool as usize) else { return };
            let from = if place % 2 == 0 { 0 } else { entry.part };
            let name = entry.name.get(from as usize..).unwrap_or_default();
            let slips = spelling::slips(&wanted, &words::fold(name));
            near.extend(slips.map(|slips| (slips, tool)));
        });
        near.sort_unstable();
        let mut tools = Vec::new();
        for (_, tool) in near {
            if tools.len() < MOST_MEANT && !tools.contains(&tool) {
                tools.push(tool);
            }
        }
        tools
    }

    /// The tools of that name. A single plain word that several backends use as a name is no name
    /// but a word.
    fn exact(&self, query: &str) -> Option<Vec<u32>> {
        self.exact_folded(query, &words::fold(query))
    }

    /// The same, for a query that has been folded.
    fn exact_folded(&self, text: &str, folded: &str) -> Option<Vec<u32>> {
        // As the overview marks a listed tool, and as clients name the tools of a server.
        let query = text.trim_end_matches('*');
        let inner = query.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
        let query = inner.map_or(query, |(_, name)| name);
        let tools = match query == text {
            true => self.named(folded),
            false => self.named(&words::fold(query)),
        };
        let full = |&tool: &u32| self.name(tool) == Some(query);
        if let Some(tool) = tools.iter().copied().find(full) {
            return Some(vec![tool]);
        }
        let plain = query.chars().all(char::is_alphanumeric);
        (tools.len() == 1 || !plain && !tools.is_empty()).then_some(tools)
    }

    /// The tools of a backend of which the query says nothing but the name.
    fn whole_backend(&self, folded: &str, words: &Words) -> Option<Vec<u32>> {
        let named = self.lookup.backend_names.get(folded).copied();
        let place = named.or_else(|| self.backend_of_stems(words))?;
        self.backends.get(place as usize).map(|backend| backend.tools.clone())
    }
}

/// Whether a text is written like a tool's name: one word with joints.
fn is_name(text: &str) -> bool {
    let joint = |c: char| matches!(c, '_' | '-' | '.' | ':' | '/' | '*');
    if !text.is_ascii() || text.contains(char::is_whitespace) {
        return false;
    }
    let inner = text.trim_matches(joint);
    let is_camel = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    inner.contains(joint) || inner.as_bytes().windows(2).any(is_camel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use mws_catalog::Catalog;

    fn index(names: &[&str]) -> Index {
        let tools: Vec<String> =
            names.iter().map(|name| format!("{{\"name\":{name:?}}}")).collect();
        let text = format!("{{\"tools\":[{}]}}", tools.join(","));
        Index::build(&Catalog::parse(text.as_bytes()).unwrap().0, &Options::default())
    }

    fn found(index: &Index, query: &str) -> (Kind, Vec<u32>) {
        let found = index.rank(query, 10);
        (found.kind, found.tools)
    }

    const NAMES: [&str; 6] = [
        "fs__read_file",
        "disk__read_file",
        "disk__search",
        "web-mcp-server__search",
        "fs__fetch",
        "disk__Fetch_All",
    ];

    #[test]
    fn exact_names_in_every_dress() {
        let index = index(&NAMES);
        for query in ["fs__read_file", "FS__Read_File", "fs__read_file*", "mcp__box__fs__read_file"]
        {
            assert_eq!(found(&index, query), (Kind::Exact, vec![0]), "{query}");
        }
        assert_eq!(found(&index, "fetch_all"), (Kind::Exact, vec![5]));
        assert_eq!(found(&index, "read_file"), (Kind::Exact, vec![0, 1]));
    }

    #[test]
    fn a_word_that_several_backends_use_is_ranked() {
        let index = index(&NAMES);
        let (kind, tools) = found(&index, "search");
        assert_eq!((kind, tools.len()), (Kind::Ranked, 2));
        assert_eq!(found(&index, "fetch"), (Kind::Exact, vec![4]));
    }

    #[test]
    fn backends_by_name_and_by_what_tells_them_apart() {
        let index = index(&NAMES);
        assert_eq!(found(&index, "DISK"), (Kind::Backend, vec![1, 2, 5]));
        assert_eq!(found(&index, "web"), (Kind::Backend, vec![3]));
        assert_eq!(found(&index, "web mcp server"), (Kind::Ranked, vec![3]));
        assert_eq!(found(&index, "disk search"), (Kind::Ranked, vec![2, 1, 5]));
    }

    #[test]
    fn several_names_are_all_exact() {
        let index = index(&NAMES);
        for query in ["fs__read_file, disk__Fetch_All", "FS__READ_FILE and `disk__fetch_all`?"] {
            assert_eq!(found(&index, query), (Kind::Exact, vec![0, 5]), "{query}");
        }
        assert_eq!(found(&index, "fetch_all read_file"), (Kind::Exact, vec![5, 0, 1]));
        let mixed = index.rank("compare disk__Fetch_All with a search", 10);
        assert_eq!((mixed.kind, mixed.named, mixed.tools[0]), (Kind::Ranked, 1, 5));
        assert!(mixed.tools.len() > 2);
    }

    #[test]
    fn a_wrong_name_finds_those_like_it() {
        let index = index(&NAMES);
        for (query, first) in [("fs__raed_file", 0), ("disk__fetchall", 5), ("web__serch", 3)] {
            let found = index.rank(query, 10);
            assert_eq!(
                (found.kind, found.tools[0], found.unknown_name),
                (Kind::Ranked, first, true),
                "{query}"
            );
        }
        assert!(index.rank("zzz__qqqqqqq", 10).weak);
        assert!(!index.rank("read a file", 10).unknown_name);
    }

    #[test]
    fn a_backend_given_beside_the_query_restricts_it() {
        let index = index(&NAMES);
        let found = |query, backend| index.rank_in(query, Some(backend), 10).tools;
        assert_eq!(found("read file", "DISK"), [1, 5]);
        assert_eq!(found("", "disk"), [1, 2, 5]);
        assert_eq!(found("read", "nowhere"), index.rank("read", 10).tools);
        assert_eq!(found("fs__read_file", "disk"), [0]);
    }

    #[test]
    fn ties_go_to_the_shorter_name_then_to_upstream_order() {
        let index = index(&["b_same", "a_same", "longer_same"]);
        assert_eq!(found(&index, "same").1, [0, 1, 2]);
    }
}
