//! The word tables: synonyms and abbreviations.
//!
//! Invariant: a table only adds ways to reach a tool; without it every word still finds itself.
//! Deliberately absent: other languages; they come as a table of their own.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::words;

/// How much a variant counts against the word itself.
pub(crate) const SYNONYM: f32 = 0.5;
pub(crate) const FORM: f32 = 0.85;

const SYNONYMS: &str = include_str!("../data/synonyms.txt");
const ABBREVIATIONS: &str = include_str!("../data/abbreviations.txt");

/// Stem (or phrase of two stems) → what may stand for it, with weights.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) variants: BTreeMap<String, BTreeMap<String, f32>>,
    /// Short form → the words of the phrase it stands for.
    pub(crate) phrases: BTreeMap<String, Vec<String>>,
}

impl Tables {
    /// The built-in tables and the user's synonyms.
    pub(crate) fn new(user: &str) -> Self {
        let mut tables = Self::default();
        for line in lines(SYNONYMS).chain(lines(user)) {
            if let Some(line) = line.strip_prefix('=') {
                tables.group(&keys(line), FORM);
            } else if let Some((word, others)) = line.split_once('>') {
                tables.one_way(&keys(word), &keys(others));
            } else {
                tables.group(&keys(line), SYNONYM);
            }
        }
        for line in lines(ABBREVIATIONS) {
            tables.abbreviation(&keys(line));
        }
        tables
    }

    fn group(&mut self, keys: &[String], weight: f32) {
        for from in keys {
            for to in keys {
                self.link(from, to, weight);
            }
        }
    }

    fn one_way(&mut self, from: &[String], to: &[String]) {
        for from in from {
            for to in to {
                self.link(from, to, SYNONYM);
            }
        }
    }

    fn abbreviation(&mut self, keys: &[String]) {
        if let Some((short, long)) = keys.first().zip(keys.get(1)) {
            self.link(short, long, FORM);
            self.link(long, short, FORM);
            let words: Vec<String> = long.split(' ').map(str::to_owned).collect();
            if words.len() > 1 {
                self.phrases.insert(short.clone(), words);
            }
        }
    }

    fn link(&mut self, from: &str, to: &str, weight: f32) {
        if from != to {
            let known = self.variants.entry(from.to_owned()).or_default();
            let held = known.entry(to.to_owned()).or_insert(weight);
            *held = held.max(weight);
        }
    }
}

/// Changes whenever a built-in table does.
pub(crate) fn hash() -> u64 {
    xxh3_64(SYNONYMS.as_bytes()) ^ xxh3_64(ABBREVIATIONS.as_bytes())
}

fn lines(table: &str) -> impl Iterator<Item = &str> {
    table.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The entries of a line: stems, those of a phrase joined by a space.
fn keys(line: &str) -> Vec<String> {
    let stems = |phrase: &str| -> Vec<String> {
        phrase.split('_').flat_map(words::plain).map(|word| words::stem(&word)).collect()
    };
    line.split_whitespace().map(|phrase| stems(phrase).join(" ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_go_both_ways_or_one() {
        let tables = Tables::new("");
        let weight =
            |from: &str, to: &str| tables.variants.get(from).and_then(|v| v.get(to)).copied();
        assert_eq!(weight("delet", "remov"), Some(SYNONYM));
        assert_eq!(weight("sign in", "login"), Some(FORM));
        assert_eq!(weight("repo", "repositori"), Some(FORM));
        assert!(weight("umbrella", "rain").is_some() && weight("rain", "umbrella").is_none());
        assert_eq!(tables.phrases["pr"], ["pull", "request"]);
    }

    #[test]
    fn the_user_adds_words() {
        let tables = Tables::new("# mine\nZettel notes\n=\n> \nx\n");
        assert_eq!(tables.variants["zettel"]["note"], SYNONYM);
    }

    #[test]
    fn no_table_line_is_useless() {
        for line in lines(SYNONYMS).chain(lines(ABBREVIATIONS)) {
            let words = keys(line.trim_start_matches('='));
            assert!(words.len() > 1 && words.iter().all(|w| w.split(' ').count() < 4), "{line}");
        }
    }
}
