//! A query to weighted words.
//!
//! Invariant: every query word keeps its own meaning first; what may stand for it counts less.
//! Deliberately absent: rewriting of the query.

use crate::index::{Index, Variant};
use crate::rows::Wide;
use crate::vectors::Meant;
use crate::words::{self, Word};
use crate::{tables, verbs};

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
}

#[derive(Debug)]
pub(crate) struct QueryWord {
    /// Index words with what a match is worth.
    pub(crate) variants: Vec<Scored>,
    pub(crate) idf: f32,
    /// Whether this word is part of a backend's name.
    pub(crate) names_backend: bool,
    stem: String,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scored {
    pub(crate) word: u32,
    /// How near it is to the word asked for, at most 1.
    pub(crate) weight: f32,
    /// Weight times idf.
    pub(crate) worth: f32,
}

impl QueryWord {
    /// The best that stands for the word.
    fn best_other(&self) -> Option<&Scored> {
        self.variants.iter().find(|v| v.weight < 1.0).or(self.variants.first())
    }
}

impl Query {
    /// Looks in one backend only.
    pub(crate) fn restrict(&mut self, backend: u32) {
        (self.backends, self.only_backends) = (vec![backend], true);
    }
}

impl Index {
    pub(crate) fn expand(&self, text: &str) -> Query {
        let spelt = self.spelt(text);
        let stems: Vec<String> = spelt.iter().map(|word| self.stem(word)).collect();
        let (backends, named) = self.named_backends(&stems);
        let extra = self.extra(&spelt, &stems);
        let foreign = stems.iter().any(|stem| tables::is_foreign(stem));
        let says_nothing = |word: &str, stem: &str| {
            words::is_stop(word) || foreign && self.is_foreign_filler(word, stem)
        };
        let hollow = spelt.iter().zip(&stems).all(|(word, stem)| says_nothing(word, stem));
        let mut query = Query { backends, ..Query::default() };
        let mut meant = Vec::new();
        for (at, (word, stem)) in spelt.iter().zip(&stems).enumerate() {
            if !hollow && says_nothing(word, stem) {
                meant.push(Meant::Word(word));
                continue;
            }
            query.verbs |= verbs::of_word(word) | verbs::of_word(stem);
            let extra = extra.get(at).map(Vec::as_slice).unwrap_or_default();
            let is_named = named.get(at).copied().unwrap_or_default();
            let entries = self.entries(word, stem, extra, is_named);
            if foreign && tables::is_foreign(stem) || tables::is_short(stem) {
                meant.extend(
                    entries.iter().filter_map(|e| Some(Meant::Place(e.best_other()?.word))),
                );
            } else {
                let guess = entries.first().and_then(|entry| entry.variants.first());
                meant.push(guess.map_or(Meant::Word(word), |v| Meant::WordOr(word, v.word)));
            }
            for entry in entries {
                if !query.words.iter().any(|known| known.stem == entry.stem) {
                    query.words.push(entry);
                }
            }
        }
        query.row = self.vectors.as_ref().and_then(|vectors| vectors.of_words(&meant));
        let others = query.words.iter().filter(|word| !word.names_backend).count();
        query.only_backends = named.first() == Some(&true) && others <= FEW;
        query
    }

    /// The stem of a word; those of the catalog are known.
    fn stem(&self, word: &str) -> String {
        let known = self.surface(word).and_then(|place| self.word_at(place));
        known.map_or_else(|| words::stem(word), |known| known.text.clone())
    }

    /// What joins the words of a query in another language: articles, and pairs of characters across
    /// the border of two words.
    fn is_foreign_filler(&self, word: &str, stem: &str) -> bool {
        let known = self.lookup.words.contains_key(stem);
        tables::is_foreign_stop(word) || !known && words::is_pair(word)
    }

    /// The words of a query; one that case would split stays whole where tools write it so.
    fn spelt(&self, text: &str) -> Vec<String> {
        let mut spelt = Vec::new();
        let mut covered = 0;
        for Word { text, whole } in words::split(text, true).into_iter().take(MOST_WORDS) {
            if covered > 0 {
                covered -= text.len().min(covered);
            } else if whole && self.surface(&text).is_some() {
                covered = text.len();
                spelt.push(text);
            } else if !whole {
                spelt.push(text);
            }
        }
        spelt
    }

    /// Backends whose names stand in the query, and which of its words they take.
    fn named_backends(&self, stems: &[String]) -> (Vec<u32>, Vec<bool>) {
        let mut backends = Vec::new();
        let mut named = vec![false; stems.len()];
        for (at, stem) in stems.iter().enumerate() {
            for &place in self.lookup.backends.get(stem).into_iter().flatten() {
                let Some(backend) = self.backends.get(place as usize) else { continue };
                let end = at + backend.core.len();
                if stems.get(at..end) == Some(&backend.core) {
                    backends.push(place);
                    named[at..end].fill(true);
                }
            }
        }
        backends.sort_unstable();
        backends.dedup();
        (backends, named)
    }

    /// For every word, what it may stand for together with its neighbours.
    fn extra(&self, spelt: &[String], stems: &[String]) -> Vec<Vec<Variant>> {
        let mut extra = vec![Vec::new(); spelt.len()];
        let (mut joined, mut phrase) = (String::new(), String::new());
        for length in [2, 3] {
            for at in 0..(spelt.len() + 1).saturating_sub(length) {
                let mut found: Vec<Variant> = Vec::new();
                join(&spelt[at..at + length], "", &mut joined);
                if let Some(word) = self.surface(&joined) {
                    found.push(Variant { word, weight: JOINED });
                }
                join(&stems[at..at + length], " ", &mut phrase);
                if let Some(phrase) = self.word(&phrase) {
                    found.extend(self.variants(phrase));
                }
                if found.is_empty() {
                    continue;
                }
                for list in extra.iter_mut().skip(at).take(length) {
                    list.extend(&found);
                }
            }
        }
        extra
    }

    /// One word, or the several words that a short or joined form stands for.
    fn entries(&self, word: &str, stem: &str, extra: &[Variant], named: bool) -> Vec<QueryWord> {
        let own = self.lookup.words.get(stem).copied();
        if let Some(phrase) = self.phrases.get(stem) {
            let own: Vec<Variant> =
                own.map(|word| Variant { word, weight: 1.0 }).into_iter().collect();
            return phrase.iter().map(|&part| self.entry(part, &own, named)).collect();
        }
        let known = own.and_then(|place| self.word_at(place));
        let in_catalog = known.is_some_and(|word| word.idf > 0.0);
        let mut variants = extra.to_vec();
        if let Some(place) = own.filter(|_| in_catalog || known.is_some()) {
            return vec![self.entry(place, &variants, named)];
        }
        if let Some((left, right)) = self.halves(word).filter(|_| variants.is_empty()) {
            return [left, right].map(|part| self.entry(part, &[], named)).into();
        }
        if let Some(letters) = words::letters(word).and_then(|letters| self.surface(letters)) {
            variants.push(Variant { word: letters, weight: JOINED });
        }
        if variants.is_empty() {
            variants = self.begun(word);
        }
        let meaning = self
            .vectors
            .as_ref()
            .and_then(|vectors| vectors.of_word(word).map(|row| vectors.neighbours(&row)));
        match meaning {
            Some(near) => variants.extend(near),
            None if variants.is_empty() => variants = self.misspelt(word),
            None => {}
        }
        vec![self.finish(stem.to_owned(), None, &variants, named)]
    }

    /// A word of the index with its variants and some more.
    fn entry(&self, place: u32, extra: &[Variant], named: bool) -> QueryWord {
        let Some(word) = self.word_at(place) else {
            return self.finish(String::new(), None, extra, named);
        };
        let variants = [extra, self.variants(word)].concat();
        self.finish(word.text.clone(), Some(place), &variants, named)
    }

    fn finish(
        &self,
        stem: String,
        own: Option<u32>,
        variants: &[Variant],
        names_backend: bool,
    ) -> QueryWord {
        let idf_of = |word: u32| self.word_at(word).map_or(0.0, |word| word.idf);
        let own_idf = own.map_or(0.0, idf_of);
        let widest = variants.iter().map(|v| idf_of(v.word)).fold(0.0, f32::max);
        let (idf, cap) = match (own_idf > 0.0, widest > 0.0) {
            (true, _) => (own_idf, own_idf * SYNONYM_IDF),
            (false, true) => (widest, f32::INFINITY),
            (false, false) => (UNKNOWN_IDF, f32::INFINITY),
        };
        let itself = own.filter(|_| own_idf > 0.0).map(|word| Variant { word, weight: 1.0 });
        let mut scored: Vec<Scored> = itself
            .iter()
            .chain(variants)
            .map(|&Variant { word, weight }| Scored {
                word,
                weight,
                worth: weight * idf_of(word).min(cap),
            })
            .collect();
        scored.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.word.cmp(&b.word)));
        let mut seen = Vec::with_capacity(scored.len());
        scored.retain(|v| {
            let fresh = !seen.contains(&v.word);
            seen.push(v.word);
            fresh
        });
        QueryWord { variants: scored, idf, names_backend, stem }
    }
}

/// Puts words together in a text that is used again.
fn join(words: &[String], between: &str, text: &mut String) {
    text.clear();
    for (at, word) in words.iter().enumerate() {
        text.push_str(if at == 0 { "" } else { between });
        text.push_str(word);
    }
}
