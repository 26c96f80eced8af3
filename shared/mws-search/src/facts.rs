//! What is known of a word whatever the catalog.
//!
//! Invariant: one look tells all of it, as every word of every query is looked up. Deliberately absent:
//! what words mean; the tables and the index say that.

use std::sync::LazyLock;

use crate::hash::Map;
use crate::{tables, verbs, words};

/// What is known of a word, or of a stem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The word carries no meaning of its own.
    pub(crate) is_stop: bool,
    /// Nor does this one in a query in another language.
    pub(crate) is_foreign_stop: bool,
    /// The stem is one of another language.
    pub(crate) is_foreign: bool,
    /// The stem is a short form.
    pub(crate) is_short: bool,
    /// Classes of verbs, of a word or its stem.
    pub(crate) verbs: u16,
}

/// What is known of a word in lower case, or of a stem.
pub(crate) fn of(word: &str) -> Facts {
    static FACTS: LazyLock<Map<String, Facts>> = LazyLock::new(all);
    FACTS.get(word).copied().unwrap_or_default()
}

fn all() -> Map<String, Facts> {
    let mut all: Map<String, Facts> = Map::default();
    for word in words::stops() {
        all.entry(word.to_owned()).or_default().is_stop = true;
    }
    for word in tables::foreign_stops() {
        all.entry(word).or_default().is_foreign_stop = true;
    }
    for stem in tables::foreign() {
        all.entry(stem.clone()).or_default().is_foreign = true;
    }
    for stem in tables::short() {
        all.entry(stem).or_default().is_short = true;
    }
    for (word, classes) in verbs::all() {
        all.entry(word.to_owned()).or_default().verbs = classes;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_every_kind_are_known() {
        assert!(of("please").is_stop && !of("plea").is_stop);
        assert!(of("und").is_foreign_stop && !of("und").is_stop);
        assert!(of("loschen").is_foreign && of("repo").is_short);
        assert_ne!(of("delet").verbs & verbs::DELETE, 0);
        assert_eq!(of("umbrella"), Facts::default());
    }
}
