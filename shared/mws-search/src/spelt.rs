//! The words of a query as written, and what each is for the index.
//!
//! Invariant: a query is split once, whatever asks for its words. Deliberately absent: what may stand
//! for a word that no tool has.

use std::borrow::Cow;
use std::ops::Range;

use crate::facts::{self, Facts};
use crate::hash::{self, Hashed};
use crate::index::{Index, Variant};
use crate::words;

/// Words written together or apart.
pub(crate) const JOINED: f32 = 0.9;

/// Words of a query that are read: more are pasted data, which says nothing about a tool.
const MOST_WORDS: usize = 120;

/// A query, split into words.
pub(crate) struct Words {
    text: String,
    /// Where each word is, and whether it is the whole of those that follow.
    places: Vec<(Range<usize>, bool)>,
}

impl Words {
    pub(crate) fn of(query: &str) -> Self {
        let mut text = String::with_capacity(2 * query.len());
        let mut places = Vec::with_capacity(2 + query.len() / 4);
        words::each(query, true, &mut |word, whole| {
            let start = text.len();
            text.push_str(word);
            places.push((start..text.len(), whole));
        });
        Self { text, places }
    }

    fn all(&self) -> impl Iterator<Item = (&str, bool)> {
        let word = |at: &Range<usize>| self.text.get(at.clone()).unwrap_or_default();
        self.places.iter().map(move |(at, whole)| (word(at), *whole))
    }

    /// The words that are no wholes, as in [`words::plain`].
    pub(crate) fn plain(&self) -> impl Iterator<Item = &str> {
        self.all().filter(|(_, whole)| !whole).map(|(word, _)| word)
    }
}

/// A word as the query spells it.
pub(crate) struct Spelt<'a> {
    pub(crate) word: Hashed<'a>,
    pub(crate) stem: Cow<'a, str>,
    pub(crate) stem_hash: u64,
    /// The stem's place in the index.
    pub(crate) place: Option<u32>,
    pub(crate) facts: Facts,
    pub(crate) stem_facts: Facts,
    /// Part of a backend's name.
    pub(crate) names_backend: bool,
}

/// What some words from `at` on may stand for together.
pub(crate) struct Together {
    pub(crate) words: Range<usize>,
    pub(crate) variant: Variant,
}

impl Index {
    /// The words that are read as one text, and where they are in it; one that case would split stays
    /// whole where tools write it so.
    pub(crate) fn as_written(&self, words: &Words) -> (String, Vec<Range<usize>>) {
        let mut text = String::with_capacity(words.text.len());
        let mut places = Vec::with_capacity(words.places.len().min(MOST_WORDS));
        let mut covered = 0;
        for (word, whole) in words.all().take(MOST_WORDS) {
            if covered > 0 {
                covered -= word.len().min(covered);
                continue;
            }
            if whole && self.surface(Hashed::of(word)).is_none() {
                continue;
            }
            covered = if whole { word.len() } else { 0 };
            let start = text.len();
            text.push_str(word);
            places.push(start..text.len());
        }
        (text, places)
    }

    /// Looks a word up; the stems of the catalog's words are known.
    pub(crate) fn spell<'a>(&'a self, text: &'a str) -> Spelt<'a> {
        let word = Hashed::of(text);
        let known = self.surface(word).and_then(|place| Some((self.word_at(place)?, place)));
        let stem = match known {
            Some((word, _)) => Cow::Borrowed(word.text.as_str()),
            None => words::stem(text),
        };
        let is_stem = stem == text;
        let hashed = if is_stem { word } else { Hashed::of(&stem) };
        let facts = facts::of(word);
        let stem_facts = if is_stem { facts } else { facts::of(hashed) };
        let place = known.map(|(_, place)| place).or_else(|| self.place(hashed));
        let stem_hash = hashed.hash;
        Spelt { word, stem, stem_hash, place, facts, stem_facts, names_backend: false }
    }

    /// Backends whose names stand in the query; marks the words that name them.
    pub(crate) fn name_backends(&self, spelt: &mut [Spelt<'_>]) -> Vec<u32> {
        let mut backends = Vec::new();
        for at in 0..spelt.len() {
            let places = spelt.get(at).and_then(|word| self.lookup.backends.get(&word.stem_hash));
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
    pub(crate) fn together(&self, spelt: &[Spelt<'_>]) -> Vec<Together> {
        let mut found = Vec::new();
        let mut text = String::new();
        for (at, first) in spelt.iter().enumerate() {
            let opens = self.lookup.openers.contains(&first.stem_hash);
            for length in [2, 3] {
                let Some(words) = spelt.get(at..at + length) else { continue };
                let mut add = |variant| found.push(Together { words: at..at + length, variant });
                text.clear();
                words.iter().for_each(|word| text.push_str(word.word.text));
                if let Some(word) = self.surface(Hashed::of(&text)) {
                    add(Variant { word, weight: JOINED });
                }
                if !opens {
                    continue;
                }
                text.clear();
                for (at, word) in words.iter().enumerate() {
                    text.push_str(if at == 0 { "" } else { " " });
                    text.push_str(&word.stem);
                }
                let phrase = self.place(Hashed::of(&text)).and_then(|place| self.word_at(place));
                phrase.into_iter().flat_map(|word| self.variants(word)).for_each(|&v| add(v));
            }
        }
        found
    }

    /// The one backend whose name has these words and no others.
    pub(crate) fn backend_of_stems(&self, words: &Words) -> Option<u32> {
        let count = words.plain().count();
        let is_so = |&place: &u32| {
            let core = self.backends.get(place as usize).map(|backend| &backend.core);
            core.is_some_and(|core| {
                core.len() == count
                    && core.iter().zip(words.plain()).all(|(c, w)| *c == words::stem(w))
            })
        };
        let first = words::stem(words.plain().next()?);
        let places = self.lookup.backends.get(&hash::of(&first))?;
        let mut named = places.iter().copied().filter(is_so);
        named.next().filter(|_| named.next().is_none())
    }
}

impl Spelt<'_> {
    /// Whether this is what joins the words of a query in another language: articles, and pairs of
    /// characters across the border of two words.
    pub(crate) fn is_filler(&self) -> bool {
        self.facts.is_foreign_stop || self.place.is_none() && words::is_pair(self.word.text)
    }
}
