//! What kind of query it is, and what it finds.
//!
//! Invariant: an exact name is never outranked and a bare backend name lists that backend.
//! Deliberately absent: reply texts.

use crate::index::Index;
use crate::words;

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
}

impl Index {
    /// Finds at most `limit` tools; an exact name and a backend give all of theirs.
    pub fn rank(&self, query: &str, limit: usize) -> Found {
        let query = query.trim();
        let found = |kind, tools| Found { kind, tools, weak: false };
        if query.is_empty() {
            return found(Kind::Overview, Vec::new());
        }
        if let Some(tools) = self.exact(query) {
            return found(Kind::Exact, tools);
        }
        if let Some(tools) = self.whole_backend(query) {
            return found(Kind::Backend, tools);
        }
        let scores = self.score(&self.expand(query), limit);
        let tools = scores.tools.into_iter().map(|(tool, _)| tool).collect();
        Found { kind: Kind::Ranked, tools, weak: scores.weak }
    }

    /// The tools of that name. A single plain word that several backends use as a name is no name
    /// but a word.
    fn exact(&self, query: &str) -> Option<Vec<u32>> {
        // As the overview marks a listed tool, and as clients name the tools of a server.
        let query = query.trim_end_matches('*');
        let inner = query.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
        let query = inner.map_or(query, |(_, name)| name);
        let tools = self.lookup.names.get(&words::fold(query))?;
        let full = |&tool: &u32| self.name(tool) == Some(query);
        if let Some(tool) = tools.iter().copied().find(full) {
            return Some(vec![tool]);
        }
        let plain = query.chars().all(char::is_alphanumeric);
        (tools.len() == 1 || !plain).then(|| tools.clone())
    }

    fn whole_backend(&self, query: &str) -> Option<Vec<u32>> {
        if let Some(&place) = self.lookup.backend_names.get(&words::fold(query)) {
            return self.backends.get(place as usize).map(|backend| backend.tools.clone());
        }
        let stems: Vec<String> = words::plain(query).iter().map(|word| words::stem(word)).collect();
        let places = self.lookup.backends.get(stems.first()?)?;
        let mut named = places.iter().filter_map(|&place| self.backends.get(place as usize));
        let backend = named.find(|backend| backend.core == stems)?;
        named.all(|other| other.core != stems).then(|| backend.tools.clone())
    }
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
    fn ties_go_to_the_shorter_name_then_to_upstream_order() {
        let index = index(&["b_same", "a_same", "longer_same"]);
        assert_eq!(found(&index, "same").1, [0, 1, 2]);
    }
}
