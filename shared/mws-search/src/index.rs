//! The index in memory: words, where they stand, and what may stand for them.
//!
//! Invariant: every number that refers to a tool, a word or a range lies within its list; both ways
//! to make an index (assembling, reading a snapshot) see to that. Deliberately absent: the tools'
//! definitions; those stay in the catalog.

use std::collections::BTreeMap;

use crate::hash::{self, Hashed, Map, Set};

use mws_catalog::{Backends, Catalog};
use xxhash_rust::xxh3::xxh3_64;

use crate::codec::Writer;
use crate::document::{self, Analyser, Document};
use crate::shape::Shapes;
use crate::vectors::Vectors;
use crate::{tables, words};

/// What the user adds to the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Backend → words about it.
    pub hints: BTreeMap<String, String>,
    /// More synonyms, in the form of the built-in table: words that mean the same on one line, `=`
    /// before forms of one word, `>` behind a word that may mean the others.
    pub synonyms: String,
}

impl Options {
    /// Changes whenever the options do, or the built-in tables or the analysis.
    pub fn hash(&self) -> u64 {
        let mut writer = Writer::default();
        writer.u64(tables::hash());
        writer.u32(document::VERSION);
        writer.count(self.hints.len());
        for (backend, hint) in &self.hints {
            writer.text(backend);
            writer.text(hint);
        }
        writer.text(&self.synonyms);
        xxh3_64(&writer.0)
    }
}

/// A searchable catalog.
#[derive(Debug, Default)]
pub struct Index {
    pub(crate) catalog_hash: u64,
    pub(crate) options_hash: u64,
    pub(crate) tools: Vec<Entry>,
    pub(crate) backends: Vec<Backend>,
    /// Sorted by text.
    pub(crate) words: Vec<IndexWord>,
    pub(crate) postings: Vec<Posting>,
    pub(crate) variants: Vec<Variant>,
    /// Words as tools spell them, sorted, with their stem's place in `words`.
    pub(crate) surfaces: Vec<Surface>,
    /// Short forms of phrases that the catalog uses: words of the phrase, as places in `words`.
    pub(crate) phrases: BTreeMap<String, Vec<u32>>,
    /// What a table of word vectors adds, where the builder had one.
    pub(crate) vectors: Option<Vectors>,
    pub(crate) lookup: Lookup,
}

/// What can be worked out again from the rest.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    /// Hash of a word → its place.
    pub(crate) words: Map<u64, u32>,
    /// Hashes of the words that phrases among the words begin with.
    pub(crate) openers: Set<u64>,
    /// Folded name of a backend → its place.
    pub(crate) backend_names: Map<String, u32>,
    /// Hash of the first stem of a backend's name → backends.
    pub(crate) backends: Map<u64, Vec<u32>>,
    /// Hash of a folded name, or of one without backend, and the tool; sorted.
    pub(crate) names: Vec<(u64, u32)>,
    /// Hash of a surface → its place.
    pub(crate) surfaces: Map<u64, u32>,
    /// What surfaces look like.
    pub(crate) shapes: Shapes,
    /// What names look like: twice the tool's place, one more for its own part of the name.
    pub(crate) name_shapes: Shapes,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Where the tool's own part of the name begins, in bytes.
    pub(crate) part: u32,
    /// How many words that part has.
    pub(crate) words: u32,
    pub(crate) backend: Option<u32>,
    pub(crate) verbs: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Backend {
    pub(crate) name: String,
    pub(crate) tools: Vec<u32>,
    /// Stems of the name, without words like `mcp` and `server`.
    pub(crate) core: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IndexWord {
    pub(crate) text: String,
    /// How much the word tells; 0 when no tool has it.
    pub(crate) idf: f32,
    pub(crate) postings: (u32, u32),
    pub(crate) variants: (u32, u32),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Posting {
    pub(crate) tool: u32,
    /// The word's weight in that tool, saturated and normalised for length.
    pub(crate) impact: f32,
    /// Place in the tool's name, from 1; 0 when it is not there.
    pub(crate) place: u8,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Variant {
    pub(crate) word: u32,
    pub(crate) weight: f32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Surface {
    pub(crate) text: String,
    pub(crate) word: u32,
}

impl Index {
    /// Analyses and indexes a whole catalog.
    pub fn build(catalog: &Catalog, options: &Options) -> Self {
        let backends = Backends::of(catalog);
        let mut analyser = Analyser::default();
        let documents: Vec<Document> =
            catalog.tools().iter().map(|tool| analyser.document(tool, &backends)).collect();
        Self::assemble(&documents, catalog.hash(), options)
    }

    /// Which catalog this is the index of.
    pub fn catalog_hash(&self) -> u64 {
        self.catalog_hash
    }

    /// With which options it was made.
    pub fn options_hash(&self) -> u64 {
        self.options_hash
    }

    /// How many tools it holds.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The name of a tool, by its place in the catalog.
    pub fn name(&self, tool: u32) -> Option<&str> {
        self.tools.get(tool as usize).map(|entry| entry.name.as_str())
    }

    /// The tools of that folded name, with or without backend, in the catalog's order.
    pub(crate) fn named(&self, name: &str) -> Vec<u32> {
        let hash = hash::of(name);
        let from = self.lookup.names.partition_point(|(other, _)| *other < hash);
        let rest = self.lookup.names.get(from..).unwrap_or_default();
        let same = rest.iter().take_while(|(other, _)| *other == hash).map(|(_, tool)| *tool);
        let is_so = |&tool: &u32| {
            self.tools.get(tool as usize).is_some_and(|entry| {
                let part = entry.name.get(entry.part as usize..).unwrap_or_default();
                words::fold(&entry.name) == name || words::fold(part) == name
            })
        };
        same.filter(is_so).collect()
    }

    /// The place of a word.
    pub(crate) fn place(&self, word: Hashed<'_>) -> Option<u32> {
        let place = *self.lookup.words.get(&word.hash)?;
        self.word_at(place).filter(|known| known.text == word.text).map(|_| place)
    }

    pub(crate) fn word_at(&self, word: u32) -> Option<&IndexWord> {
        self.words.get(word as usize)
    }

    pub(crate) fn postings(&self, word: &IndexWord) -> &[Posting] {
        slice(&self.postings, word.postings)
    }

    pub(crate) fn variants(&self, word: &IndexWord) -> &[Variant] {
        slice(&self.variants, word.variants)
    }

    /// The place of the stem of a word that tools have.
    pub(crate) fn surface(&self, word: Hashed<'_>) -> Option<u32> {
        let place = *self.lookup.surfaces.get(&word.hash)?;
        let known = self.surfaces.get(place as usize).filter(|known| known.text == word.text)?;
        Some(known.word)
    }

    /// Words by their hashes.
    pub(crate) fn word_places(&self) -> Map<u64, u32> {
        self.words.iter().map(|word| hash::of(&word.text)).zip(0..).collect()
    }

    /// Fills what is worked out from the rest; where words are is known.
    pub(crate) fn with_lookup(mut self) -> Self {
        let mut lookup = Lookup { words: self.lookup.words, ..Lookup::default() };
        let openers = self.words.iter().filter_map(|word| word.text.split_once(' '));
        lookup.openers = openers.map(|(first, _)| hash::of(first)).collect();
        for (place, backend) in (0..).zip(&self.backends) {
            lookup.backend_names.entry(words::fold(&backend.name)).or_insert(place);
            if let Some(first) = backend.core.first() {
                lookup.backends.entry(hash::of(first)).or_default().push(place);
            }
        }
        for (place, tool) in (0..).zip(&self.tools) {
            let full = words::fold(&tool.name);
            let part = words::fold(tool.name.get(tool.part as usize..).unwrap_or_default());
            lookup.names.push((hash::of(&full), place));
            lookup.name_shapes.add(&full, place * 2);
            if part != full {
                lookup.names.push((hash::of(&part), place));
                lookup.name_shapes.add(&part, place * 2 + 1);
            }
        }
        lookup.names.sort_unstable();
        lookup.surfaces =
            self.surfaces.iter().map(|surface| hash::of(&surface.text)).zip(0..).collect();
        for (place, surface) in (0..).zip(&self.surfaces) {
            lookup.shapes.add(&surface.text, place);
        }
        self.lookup = lookup;
        self
    }
}

fn slice<T>(items: &[T], (start, end): (u32, u32)) -> &[T] {
    items.get(start as usize..end as usize).unwrap_or_default()
}
