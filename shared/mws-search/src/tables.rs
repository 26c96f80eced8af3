//! The word tables: synonyms, abbreviations, other languages.
//!
//! Invariant: a table only adds ways to reach a tool; without it every word still finds itself.
//! Deliberately absent: grammar of other languages; the table lists the forms that it knows.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::hash::{Map, Set};
use std::sync::LazyLock;

use xxhash_rust::xxh3::xxh3_64;

use crate::words;

/// How much a variant counts against the word itself.
pub(crate) const SYNONYM: f32 = 0.5;
pub(crate) const FORM: f32 = 0.85;
/// The same in another language.
const LANGUAGE: f32 = 0.9;

const SYNONYMS: &str = include_str!("../data/synonyms.txt");
const ABBREVIATIONS: &str = include_str!("../data/abbreviations.txt");
const LANGUAGES: &str = include_str!("../data/languages.txt");

/// What may stand for a stem, or for a phrase of stems, with weights.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    ids: Map<String, u32>,
    /// From, to, weight; sorted, one for each pair.
    links: Vec<(u32, u32, f32)>,
    /// Short form → the words of the phrase it stands for.
    pub(crate) phrases: BTreeMap<String, Vec<String>>,
}

impl Tables {
    /// The built-in tables and the user's synonyms.
    pub(crate) fn new(user: &str) -> Cow<'static, Self> {
        static BUILT_IN: LazyLock<Tables> = LazyLock::new(Tables::built_in);
        if user.trim().is_empty() {
            return Cow::Borrowed(&BUILT_IN);
        }
        let mut tables = BUILT_IN.clone();
        tables.add_synonyms(user);
        tables.sort();
        Cow::Owned(tables)
    }

    fn built_in() -> Self {
        let mut tables = Self::default();
        tables.add_synonyms(SYNONYMS);
        for line in lines(ABBREVIATIONS) {
            let words = tables.words(line);
            tables.link(&words, &words, FORM);
            if let Some((short, long)) = line.split_once(char::is_whitespace) {
                let phrase = key(long.trim());
                if phrase.contains(' ') {
                    let words = phrase.split(' ').map(str::to_owned).collect();
                    tables.phrases.insert(key(short), words);
                }
            }
        }
        for (english, others) in concepts() {
            let english = tables.words(english);
            for other in others.split_whitespace().filter(|other| foreign().contains(&key(other))) {
                let other = tables.words(other);
                tables.link(&other, &english, LANGUAGE);
                tables.link(&english, &other, LANGUAGE);
            }
        }
        tables.sort();
        tables
    }

    fn add_synonyms(&mut self, table: &str) {
        for line in lines(table) {
            if let Some(line) = line.strip_prefix('=') {
                let words = self.words(line);
                self.link(&words, &words, FORM);
            } else if let Some((word, others)) = line.split_once('>') {
                let (from, to) = (self.words(word), self.words(others));
                self.link(&from, &to, SYNONYM);
            } else {
                let words = self.words(line);
                self.link(&words, &words, SYNONYM);
            }
        }
    }

    /// All entries, with their numbers.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&String, u32)> {
        self.ids.iter().map(|(text, &id)| (text, id))
    }

    /// The number of an entry.
    pub(crate) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    /// What may stand for an entry: numbers and weights.
    pub(crate) fn variants(&self, from: u32) -> impl Iterator<Item = (u32, f32)> {
        let start = self.links.partition_point(|link| link.0 < from);
        let rest = self.links.get(start..).unwrap_or_default();
        rest.iter().take_while(move |link| link.0 == from).map(|link| (link.1, link.2))
    }

    fn words(&mut self, line: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        for phrase in line.split_whitespace() {
            let next = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
            ids.push(*self.ids.entry(key(phrase)).or_insert(next));
        }
        ids
    }

    fn link(&mut self, from: &[u32], to: &[u32], weight: f32) {
        for &from in from {
            let others = to.iter().filter(|&&to| to != from);
            self.links.extend(others.map(|&to| (from, to, weight)));
        }
    }

    fn sort(&mut self) {
        self.links.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(b.2.total_cmp(&a.2)));
        self.links.dedup_by_key(|link| (link.0, link.1));
    }
}

/// Changes whenever a built-in table does.
pub(crate) fn hash() -> u64 {
    let tables = [SYNONYMS, ABBREVIATIONS, LANGUAGES];
    tables.iter().fold(0, |sum: u64, table| sum.rotate_left(1) ^ xxh3_64(table.as_bytes()))
}

/// Stems of words of other languages that are in none of the English tables.
pub(crate) fn foreign() -> &'static Set<String> {
    static WORDS: LazyLock<Set<String>> = LazyLock::new(|| {
        let english: Set<String> = [SYNONYMS, ABBREVIATIONS]
            .into_iter()
            .flat_map(lines)
            .chain(concepts().map(|(english, _)| english))
            .flat_map(words::plain)
            .map(|word| words::stem(&word).into_owned())
            .collect();
        let others = concepts().flat_map(|(_, others)| others.split_whitespace());
        others.map(key).filter(|key| !english.contains(key)).collect()
    });
    &WORDS
}

/// Stems of short forms.
pub(crate) fn short() -> impl Iterator<Item = String> {
    lines(ABBREVIATIONS).filter_map(|line| line.split_whitespace().next()).map(key)
}

/// Words that carry no meaning of their own in a query in another language.
pub(crate) fn foreign_stops() -> impl Iterator<Item = String> {
    let hollow = lines(LANGUAGES).filter_map(|line| line.strip_prefix(':'));
    hollow.flat_map(words::plain)
}

/// English words and those of other languages for them.
fn concepts() -> impl Iterator<Item = (&'static str, &'static str)> {
    lines(LANGUAGES)
        .filter_map(|line| line.split_once(':'))
        .filter(|(english, _)| !english.is_empty())
}

fn lines(table: &str) -> impl Iterator<Item = &str> {
    table.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The entry for a word or a phrase: its stems, joined by a space.
fn key(phrase: &str) -> String {
    let words = phrase.split('_').flat_map(words::plain);
    words.map(|word| words::stem(&word).into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(tables: &Tables, from: &str, to: &str) -> Option<f32> {
        let (from, to) = (tables.id(from)?, tables.id(to)?);
        tables.variants(from).find(|&(other, _)| other == to).map(|(_, weight)| weight)
    }

    #[test]
    fn links_go_both_ways_or_one() {
        let tables = Tables::new("");
        assert_eq!(weight(&tables, "delet", "remov"), Some(SYNONYM));
        assert_eq!(weight(&tables, "sign in", "login"), Some(FORM));
        assert_eq!(weight(&tables, "repo", "repositori"), Some(FORM));
        assert!(weight(&tables, "umbrella", "rain").is_some());
        assert_eq!(weight(&tables, "rain", "umbrella"), None);
        assert_eq!(tables.phrases["pr"], ["pull", "request"]);
    }

    #[test]
    fn the_user_adds_words() {
        let tables = Tables::new("# mine\nZettel notes\n=\n> \nx\n");
        assert_eq!(weight(&tables, "zettel", "note"), Some(SYNONYM));
    }

    #[test]
    fn other_languages_lead_to_english_and_back() {
        let tables = Tables::new("");
        for (other, english) in
            [("loschen", "delet"), ("文件 件夹", "folder"), ("написать", "write")]
        {
            assert_eq!(weight(&tables, other, english), Some(LANGUAGE), "{other}");
            assert_eq!(weight(&tables, english, other), Some(LANGUAGE), "{other}");
        }
        assert_eq!(weight(&tables, "loschen", "supprim"), None);
        let foreign = foreign();
        assert!(foreign.contains("loschen"));
        assert!(!foreign.contains("delet") && !foreign.contains("file"));
    }

    #[test]
    fn no_table_line_is_useless() {
        for line in lines(SYNONYMS).chain(lines(ABBREVIATIONS)) {
            let words = line.trim_start_matches('=').split_whitespace().map(key);
            let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
            assert!(words.len() > 1 && words.iter().all(|w| w.split(' ').count() < 4), "{line}");
        }
    }
}
