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
        let tools = self.lookup.names.get(&words::fold(query))?;
        let full = |&tool: &u32| self.name(tool) == Some(query);
        if let Some(tool) = tools.iter().copied().find(full) {
            return Some(vec![tool]);
        }
        let plain = query.chars().all(char::is_alphanumeric);
        (tools.len() == 1 || !plain).then(|| tools.clone())
    }

    fn whole_backend(&self, query: &str) -> Option<Vec<u32>> {
        let folded = words::fold(query);
        let same = |backend: &&crate::index::Backend| words::fold(&backend.name) == folded;
        if let Some(backend) = self.backends.iter().find(same) {
            return Some(backend.tools.clone());
        }
        let stems: Vec<String> = words::plain(query).iter().map(|word| words::stem(word)).collect();
        let places = self.lookup.backends.get(stems.first()?)?;
        let mut named = places.iter().filter_map(|&place| self.backends.get(place as usize));
        let backend = named.find(|backend| backend.core == stems)?;
        named.all(|other| other.core != stems).then(|| backend.tools.clone())
    }
}
