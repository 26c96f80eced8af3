//! A query to weighted words.
//!
//! Invariant: every query word keeps its own meaning first; what may stand for it counts less.
//! Deliberately absent: rewriting of the query.

use std::ops::Range;

use crate::hash::Hashed;
use crate::index::{Index, Variant};
use crate::rows::Wide;
use crate::spelt::{JOINED, Spelt, Words};
use crate::vectors::Meant;
use crate::words;

/// A rare synonym must not tell more than the word that was asked for.
const SYNONYM_IDF: f32 = 1.15;
/// How much a word tells that nothing in the catalog can stand for.
const UNKNOWN_IDF: f32 = 3.0;

/// More words than this behind a backend's name make a sentence that happens to begin with it.
const FEW: usize = 3;

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
    pub(crate) fn expand(&self, words: &Words) -> Query {
        let (text, places) = self.as_written(words);
        let mut spelt: Vec<Spelt<'_>> =
            places.into_iter().filter_map(|at| Some(self.spell(text.get(at)?))).collect();
        let mut query = Query { backends: self.name_backends(&mut spelt), ..Query::default() };
        query.words.reserve(spelt.len());
        query.variants.reserve(2 * spelt.len());
        let together = self.together(&spelt);
        let is_foreign = spelt.iter().any(|word| word.stem_facts.is_foreign);
        let says_nothing = |word: &Spelt<'_>| word.facts.is_stop || is_foreign && word.is_filler();
        let is_hollow = spelt.iter().all(says_nothing);
        let (mut meant, mut done) = (Vec::with_capacity(spelt.len()), Vec::new());
        for (at, word) in spelt.iter().enumerate() {
            if !is_hollow && says_nothing(word) {
                meant.push(Meant::Word(word.word));
                continue;
            }
            let extra = together.iter().filter(|t| t.words.contains(&at)).map(|t| t.variant);
            let extra: Vec<Variant> = extra.collect();
            let before = done.iter().find(|(other, _)| extra.is_empty() && *other == word.word);
            if let Some((_, range)) = before {
                meant.extend_from_within(Range::clone(range));
                continue;
            }
            let start = meant.len();
            self.add_word(word, &extra, &mut query, &mut meant);
            done.extend(extra.is_empty().then_some((word.word, start..meant.len())));
        }
        query.row = self.vectors.as_ref().and_then(|vectors| vectors.of_words(&meant));
        let others = query.words.iter().filter(|word| !word.names_backend).count();
        let is_first = spelt.first().is_some_and(|word| word.names_backend);
        query.only_backends = is_first && others <= FEW;
        query
    }

    /// Adds what a word of the query may be found by, and what it means.
    fn add_word<'a>(
        &self,
        word: &Spelt<'a>,
        extra: &[Variant],
        query: &mut Query,
        meant: &mut Vec<Meant<'a>>,
    ) {
        query.verbs |= word.facts.verbs | word.stem_facts.verbs;
        let first = query.words.len();
        self.add_entries(word, extra, query);
        let entries = query.words.get(first..).unwrap_or_default();
        if word.stem_facts.is_foreign || word.stem_facts.is_short {
            let others = entries.iter().filter_map(|entry| query.best_other(entry));
            meant.extend(others.map(|other| Meant::Place(other.word)));
        } else {
            let guess = entries.first().and_then(|entry| query.variants(entry).first());
            let own = Meant::Word(word.word);
            meant.push(guess.map_or(own, |guess| Meant::WordOr(word.word, guess.word)));
        }
        query.keep_new(first);
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
        if let Some((left, right)) = self.halves(word.word.text).filter(|_| extra.is_empty()) {
            for part in [left, right] {
                self.add_entry(part, &[], word.names_backend, query);
            }
            return;
        }
        let variants = self.guesses(word.word, extra);
        let key = Key::Unknown(word.stem_hash);
        self.add(key, &variants, &[], word.names_backend, query);
    }

    /// What a word that no tool has may stand for.
    fn guesses(&self, word: Hashed<'_>, extra: &[Variant]) -> Vec<Variant> {
        let mut variants = extra.to_vec();
        let letters = words::letters(word.text).map(Hashed::of);
        if let Some(letters) = letters.and_then(|letters| self.surface(letters)) {
            variants.push(Variant { word: letters, weight: JOINED });
        }
        if variants.is_empty() {
            variants = self.begun(word.text);
        }
        let vectors = self.vectors.as_ref();
        match vectors.and_then(|vectors| Some(vectors.neighbours(&vectors.of_word(word)?))) {
            Some(near) => variants.extend(near),
            None if variants.is_empty() => variants = self.misspelt(word.text),
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
