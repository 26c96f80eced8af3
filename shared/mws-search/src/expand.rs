//! A query to weighted words.
//!
//! Invariant: every query word keeps its own meaning first; what may stand for it counts less.
//! Deliberately absent: rewriting of the query.

use std::borrow::Cow;
use std::ops::Range;

use crate::facts::{self, Facts};
use crate::hash;
use crate::index::{Index, Variant};
use crate::rows::Wide;
use crate::vectors::Meant;
use crate::words;

/// Words written together or apart.
const JOINED: f32 = 0.9;
/// A rare synonym must not tell more than the word that was asked for.
const SYNONYM_IDF: f32 = 1.15;
/// How much a word tells that nothing in the catalog can stand for.
const UNKNOWN_IDF: f32 = 3.0;

/// More words than this behind a backend's name make a sentence that happens to begin with it.
const FEW: usize = 3;

/// Words of a query that are read: more are pasted data, which says nothing about a tool.
const MOST_WORDS: usize = 120;

/// A query, ready to be ranked.
#[derive(Debug, Default)]
pub(crate) struct Query {
    pub(crate) words: Vec<QueryWord>,
    /// Verb classes asked for.
    pub(crate) verbs: u16,
    /// Backends that the query names.
    pub(crate) backends: Vec<u32>,
    /// Whether it is of the form `backend words`: a backend first, then few words.
    pub(crate) only_backends: bool,
    /// Where word vectors place the whole query.
    pub(crate) row: Option<Wide>,
    /// What stands for its words, one after the other.
    variants: Vec<Scored>,
}

#[derive(Debug)]
pub(crate) struct QueryWord {
    pub(crate) idf: f32,
    /// Whether this word is part of a backend's name.
    pub(crate) names_backend: bool,
    /// Where its variants are.
    variants: Range<usize>,
    key: Key,
}

/// Tells the words of a query apart: by their place in the index, else by the hash of their stem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Known(u32),
    Unknown(u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scored {
    pub(crate) word: u32,
    /// How near it is to the word asked for, at most 1.
    pub(crate) weight: f32,
    /// Weight times idf.
    pub(crate) worth: f32,
}

/// A word as the query spells it.
struct Spelt<'a> {
    text: &'a str,
    stem: Cow<'a, str>,
    /// The stem's place in the index.
    place: Option<u32>,
    facts: Facts,
    stem_facts: Facts,
    /// Part of a backend's name.
    names_backend: bool,
}

/// What some words from `at` on may stand for together.
struct Together {
    words: Range<usize>,
    variant: Variant,
}

impl Query {
    /// Looks in one backend only.
    pub(crate) fn restrict(&mut self, backend: u32) {
        (self.backends, self.only_backends) = (vec![backend], true);
    }

    /// Index words that stand for a word, with what a match is worth, best first.
    pub(crate) fn variants(&self, word: &QueryWord) -> &[Scored] {
        self.variants.get(word.variants.clone()).unwrap_or_default()
    }

    /// The best that stands for a word, other than the word itself where there is one.
    fn best_other(&self, word: &QueryWord) -> Option<&Scored> {
        let variants = self.variants(word);
        variants.iter().find(|v| v.weight < 1.0).or(variants.first())
    }

    /// Takes back all words behind the first `count` that stand there twice.
    fn keep_new(&mut self, count: usize) {
        let mut kept = count;
        for at in count..self.words.len() {
            let (before, rest) = self.words.split_at(at);
            let is_new = |word: &&QueryWord| before.iter().take(kept).all(|k| k.key != word.key);
            if rest.first().filter(is_new).is_some() {
                self.words.swap(kept, at);
                kept += 1;
            }
        }
        self.words.truncate(kept);
    }
}

impl Index {
    pub(crate) fn expand(&self, text: &str) -> Query {
        let (buffer, places) = self.split(text);
        let mut spelt: Vec<Spelt<'_>> =
            places.into_iter().filter_map(|at| Some(self.spell(buffer.get(at)?))).collect();
        let mut query = Query { backends: self.name_backends(&mut spelt), ..Query::default() };
        let together = self.together(&spelt);
        let is_foreign = spelt.iter().any(|word| word.stem_facts.is_foreign);
        let says_nothing = |word: &Spelt<'_>| word.facts.is_stop || is_foreign && word.is_filler();
        let is_hollow = spelt.iter().all(says_nothing);
        let mut meant = Vec::new();
        for (at, word) in spelt.iter().enumerate() {
            if !is_hollow && says_nothing(word) {
                meant.push(Meant::Word(word.text));
                continue;
            }
            query.verbs |= word.facts.verbs | word.stem_facts.verbs;
            let first = query.words.len();
            let extra = together.iter().filter(|t| t.words.contains(&at)).map(|t| t.variant);
            self.add_entries(word, &extra.collect::<Vec<_>>(), &mut query);
            let entries = query.words.get(first..).unwrap_or_default();
            if word.stem_facts.is_foreign || word.stem_facts.is_short {
                let others = entries.iter().filter_map(|entry| query.best_other(entry));
                meant.extend(others.map(|other| Meant::Place(other.word)));
            } else {
                let guess = entries.first().and_then(|entry| query.variants(entry).first());
                meant.push(
                    guess.map_or(Meant::Word(word.text), |v| Meant::WordOr(word.text, v.word)),
                );
            }
            query.keep_new(first);
        }
        query.row = self.vectors.as_ref().and_then(|vectors| vectors.of_words(&meant));
        let others = query.words.iter().filter(|word| !word.names_backend).count();
        let is_first = spelt.first().is_some_and(|word| word.names_backend);
        query.only_backends = is_first && others <= FEW;
        query
    }

    /// The words of a query as one text, and where they are in it; one that case would split stays
    /// whole where tools write it so.
    fn split(&self, text: &str) -> (String, Vec<Range<usize>>) {
        let (mut buffer, mut places) = (String::with_capacity(2 * text.len()), Vec::new());
        let (mut seen, mut covered) = (0, 0);
        words::each(text, true, &mut |word, whole| {
            seen += 1;
            if seen > MOST_WORDS {
                return;
            }
            if covered > 0 {
                covered -= word.len().min(covered);
                return;
            }
            if whole && self.surface(word).is_none() {
                return;
            }
            covered = if whole { word.len() } else { 0 };
            let start = buffer.len();
            buffer.push_str(word);
            places.push(start..buffer.len());
        });
        (buffer, places)
    }

    /// Looks a word up; the stems of the catalog's words are known.
    fn spell<'a>(&'a self, text: &'a str) -> Spelt<'a> {
        let known = self.surface(text).and_then(|place| Some((self.word_at(place)?, place)));
        let (stem, place) = match known {
            Some((word, place)) => (Cow::Borrowed(word.text.as_str()), Some(place)),
            None => {
                let stem = words::stem(text);
                let place = self.place(&stem);
                (stem, place)
            }
        };
        let facts = facts::of(text);
        let stem_facts = if stem == text { facts } else { facts::of(&stem) };
        Spelt { text, stem, place, facts, stem_facts, names_backend: false }
    }

    /// Backends whose names stand in the query; marks the words that name them.
    fn name_backends(&self, spelt: &mut [Spelt<'_>]) -> Vec<u32> {
        let mut backends = Vec::new();
        for at in 0..spelt.len() {
            let places = spelt.get(at).and_then(|word| self.lookup.backends.get(&*word.stem));
            for &place in places.into_iter().flatten() {
                let Some(backend) = self.backends.get(place as usize) else { continue };
                let Some(words) = spelt.get_mut(at..at + backend.core.len()) else { continue };
                if words.iter().zip(&backend.core).all(|(word, core)| word.stem == *core) {
                    backends.push(place);
                    words.iter_mut().for_each(|word| word.names_backend = true);
                }
            }
        }
        backends.sort_unstable();
        backends.dedup();
        backends
    }

    /// What neighbours may stand for together: a word written apart, or a phrase.
    fn together(&self, spelt: &[Spelt<'_>]) -> Vec<Together> {
        let mut found = Vec::new();
        let mut text = String::new();
        for length in [2, 3] {
            for (at, words) in spelt.windows(length).enumerate() {
                let mut add = |variant| found.push(Together { words: at..at + length, variant });
                text.clear();
                words.iter().for_each(|word| text.push_str(word.text));
                if let Some(word) = self.surface(&text) {
                    add(Variant { word, weight: JOINED });
                }
                let first = words.first().map_or(0, |word| hash::of(&word.stem));
                if !self.lookup.openers.contains(&first) {
                    continue;
                }
                text.clear();
                for (at, word) in words.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { " " });
                    text.push_str(&word.stem);
                }
                let phrase = self.place(&text).and_then(|place| self.word_at(place));
                phrase.into_iter().flat_map(|word| self.variants(word)).for_each(|&v| add(v));
            }
        }
        found
    }

    /// Adds one word, or the several words that a short or joined form stands for.
    fn add_entries(&self, word: &Spelt<'_>, extra: &[Variant], query: &mut Query) {
        let phrase = word.stem_facts.is_short.then(|| self.phrases.get(&*word.stem)).flatten();
        if let Some(phrase) = phrase {
            let own = word.place.map(|word| Variant { word, weight: 1.0 });
            let own = own.as_slice();
            phrase.iter().for_each(|&part| self.add_entry(part, own, word.names_backend, query));
            return;
        }
        if let Some(place) = word.place {
            return self.add_entry(place, extra, word.names_backend, query);
        }
        if let Some((left, right)) = self.halves(word.text).filter(|_| extra.is_empty()) {
            for part in [left, right] {
                self.add_entry(part, &[], word.names_backend, query);
            }
            return;
        }
        let variants = self.guesses(word.text, extra);
        let key = Key::Unknown(hash::of(&word.stem));
        self.add(key, &variants, &[], word.names_backend, query);
    }

    /// What a word that no tool has may stand for.
    fn guesses(&self, word: &str, extra: &[Variant]) -> Vec<Variant> {
        let mut variants = extra.to_vec();
        if let Some(letters) = words::letters(word).and_then(|letters| self.surface(letters)) {
            variants.push(Variant { word: letters, weight: JOINED });
        }
        if variants.is_empty() {
            variants = self.begun(word);
        }
        let vectors = self.vectors.as_ref();
        match vectors.and_then(|vectors| Some(vectors.neighbours(&vectors.of_word(word)?))) {
            Some(near) => variants.extend(near),
            None if variants.is_empty() => variants = self.misspelt(word),
            None => {}
        }
        variants
    }

    /// Adds a word of the index with its variants and some more.
    fn add_entry(&self, place: u32, extra: &[Variant], named: bool, query: &mut Query) {
        let own = self.word_at(place).map_or(&[][..], |word| self.variants(word));
        self.add(Key::Known(place), extra, own, named, query);
    }

    fn add(&self, key: Key, some: &[Variant], more: &[Variant], named: bool, query: &mut Query) {
        let idf_of = |word: u32| self.word_at(word).map_or(0.0, |word| word.idf);
        let own = match key {
            Key::Known(place) => Some(place).filter(|&place| idf_of(place) > 0.0),
            Key::Unknown(_) => None,
        };
        let variants = || some.iter().chain(more).copied();
        let (idf, cap) = match own {
            Some(place) => (idf_of(place), idf_of(place) * SYNONYM_IDF),
            None => {
                let widest = variants().map(|v| idf_of(v.word)).fold(0.0, f32::max);
                (if widest > 0.0 { widest } else { UNKNOWN_IDF }, f32::INFINITY)
            }
        };
        let start = query.variants.len();
        let itself = own.map(|word| Variant { word, weight: 1.0 });
        query.variants.extend(itself.into_iter().chain(variants()).map(
            |Variant { word, weight }| Scored {
                word,
                weight,
                worth: weight * idf_of(word).min(cap),
            },
        ));
        let length = best_of_each(query.variants.get_mut(start..).unwrap_or_default());
        query.variants.truncate(start + length);
        let variants = start..start + length;
        query.words.push(QueryWord { idf, names_backend: named, variants, key });
    }
}

impl Spelt<'_> {
    /// Whether this is what joins the words of a query in another language: articles, and pairs of
    /// characters across the border of two words.
    fn is_filler(&self) -> bool {
        self.facts.is_foreign_stop || self.place.is_none() && words::is_pair(self.text)
    }
}

/// Sorts variants, the nearest first, and leaves each word once; how many are left.
fn best_of_each(variants: &mut [Scored]) -> usize {
    variants.sort_unstable_by(|a, b| b.weight.total_cmp(&a.weight).then(a.word.cmp(&b.word)));
    let mut kept = 0;
    for at in 0..variants.len() {
        let variant = variants[at];
        if variants.iter().take(kept).all(|other| other.word != variant.word) {
            variants[kept] = variant;
            kept += 1;
        }
    }
    kept
}
