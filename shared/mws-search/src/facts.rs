//! What is known of a word whatever the catalog.
//!
//! Invariant: one look tells all of it, as every word of every query is looked up. Deliberately absent:
//! what words mean; the tables and the index say that.

use std::sync::LazyLock;

use crate::hash::{self, Hashed, Map};
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
pub(crate) fn of(word: Hashed<'_>) -> Facts {
    static FACTS: LazyLock<Map<u64, (String, Facts)>> = LazyLock::new(|| {
        all().into_iter().map(|(word, facts)| (hash::of(&word), (word, facts))).collect()
    });
    let known = FACTS.get(&word.hash).filter(|(known, _)| known == word.text);
    known.map_or_else(Facts::default, |(_, facts)| *facts)
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
        let of = |word| of(Hashed::of(word));
        assert!(of("please").is_stop && !of("plea").is_stop);
        assert!(of("und").is_foreign_stop && !of("und").is_stop);
        assert!(of("loschen").is_foreign && of("repo").is_short);
        assert_ne!(of("delet").verbs & verbs::DELETE, 0);
        assert_eq!(of("umbrella"), Facts::default());
        assert!(all().iter().all(|(word, facts)| of(word) == *facts));
    }
}
