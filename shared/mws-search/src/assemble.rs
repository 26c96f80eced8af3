//! Documents to an index: word weights (BM25F), variants from the tables, backends.
//!
//! Invariant: depends on the documents, their order and the options alone. Deliberately absent:
//! weights that were fitted to queries; they are round numbers.

use std::collections::BTreeMap;

use crate::hash::{Hashed, Map, Set};

use crate::document::{Document, FIELDS, Field};
use crate::index::{Backend, Entry, Index, IndexWord, Options, Posting, Surface, Variant};
use crate::tables::Tables;
use crate::words;

/// How much a word in each field counts, and how much the field's length takes from that: name,
/// backend, parameters, first sentence, rest of the description, parameter descriptions.
const WEIGHT: [f32; FIELDS] = [3.0, 1.2, 1.2, 3.0, 0.6, 0.2];
const LENGTH: [f32; FIELDS] = [0.1, 0.0, 0.6, 0.5, 0.5, 0.5];
const SATURATION: f32 = 1.2;
/// Repeating a word in a field more often than this says nothing more.
const MOST_COUNTED: u8 = 3;
/// Words of a backend's name that tell nothing about it.
const HOLLOW: [&str; 9] =
    ["mcp", "server", "servers", "service", "client", "plugin", "official", "tool", "tools"];

impl Index {
    /// Puts analysed tools together; they stand in the catalog's order.
    pub fn assemble(documents: &[Document], catalog_hash: u64, options: &Options) -> Self {
        let mut index = Self { catalog_hash, options_hash: options.hash(), ..Self::default() };
        index.add_tools(documents);
        let about = |(backend, hint): (&String, &String)| (words::fold(backend), stems(hint));
        let hints: Hints = options.hints.iter().map(about).collect();
        let found = postings(documents, &hints);
        let tables = Tables::new(&options.synonyms);
        index.add_words(found, &tables);
        index.add_surfaces(documents);
        index.add_phrases(&tables);
        index
    }

    fn add_tools(&mut self, documents: &[Document]) {
        let mut places: Map<&str, u32> = Map::default();
        for (tool, document) in (0..).zip(documents) {
            let backend = document.backend.as_deref().map(|name| {
                let next = u32::try_from(self.backends.len()).unwrap_or(u32::MAX);
                let place = *places.entry(name).or_insert(next);
                if place == next {
                    let backend =
                        Backend { name: name.to_owned(), tools: vec![], core: core(name) };
                    self.backends.push(backend);
                }
                place
            });
            if let Some(backend) = backend.and_then(|at| self.backends.get_mut(at as usize)) {
                backend.tools.push(tool);
            }
            self.tools.push(Entry {
                name: document.name.clone(),
                part: document.part,
                words: document.lengths[Field::Name as usize],
                backend,
                verbs: document.verbs,
            });
        }
    }

    fn add_words(&mut self, found: Found<'_>, tables: &Tables) {
        let mut in_catalog: Map<u32, &str> = Map::default();
        for (text, _) in &found.lists {
            in_catalog.extend(tables.id(text).map(|id| (id, *text)));
        }
        let reaches = |id: u32| tables.variants(id).any(|(to, _)| in_catalog.contains_key(&to));
        let extra = tables
            .entries()
            .filter(|&(text, id)| !found.places.contains_key(text.as_str()) && reaches(id));
        let mut texts: Vec<&str> = found
            .lists
            .iter()
            .map(|(text, _)| *text)
            .chain(extra.map(|(text, _)| text.as_str()))
            .collect();
        texts.sort_unstable();
        let places: Map<&str, u32> = texts.iter().copied().zip(0..).collect();
        self.words.reserve(texts.len());
        self.postings.reserve(found.lists.iter().map(|(_, list)| list.len()).sum());
        for &text in &texts {
            let postings = found.of(text);
            let range = append(&mut self.postings, postings.iter().copied());
            let others = tables.id(text).into_iter().flat_map(|id| tables.variants(id));
            let variants = others.filter_map(|(to, weight)| {
                places.get(in_catalog.get(&to)?).map(|&word| Variant { word, weight })
            });
            let variants = append(&mut self.variants, variants);
            let idf = idf(self.tools.len(), postings.len());
            self.words.push(IndexWord { text: text.to_owned(), idf, postings: range, variants });
        }
        self.lookup.words = self.word_places();
    }

    fn add_surfaces(&mut self, documents: &[Document]) {
        let mut surfaces: Map<&str, u32> = Map::default();
        let mut seen: Set<usize> = Set::default();
        surfaces.reserve(2 * documents.len());
        seen.reserve(2 * documents.len());
        for document in documents {
            for (text, term) in &document.surfaces {
                if !seen.insert(address(text)) {
                    continue;
                }
                let stem = document.terms.get(*term as usize).map(|term| &*term.stem);
                if let Some(word) = stem.and_then(|stem| self.place(Hashed::of(stem))) {
                    surfaces.insert(text, word);
                }
            }
        }
        let surface = |(text, word): (&str, u32)| Surface { text: text.to_owned(), word };
        self.surfaces = surfaces.into_iter().map(surface).collect();
        self.surfaces.sort_unstable_by(|a, b| a.text.cmp(&b.text));
    }

    fn add_phrases(&mut self, tables: &Tables) {
        for (short, phrase) in &tables.phrases {
            let known = |stem: &String| {
                let place = self.place(Hashed::of(stem))?;
                self.word_at(place).filter(|word| word.idf > 0.0).map(|_| place)
            };
            if let Some(words) = phrase.iter().map(known).collect() {
                self.phrases.insert(short.clone(), words);
            }
        }
        *self = std::mem::take(self).with_lookup();
    }
}

/// Where a text is: the documents of one analyser share theirs, which need be looked up only once.
fn address(text: &str) -> usize {
    text.as_ptr().addr()
}

fn append<T>(list: &mut Vec<T>, items: impl Iterator<Item = T>) -> (u32, u32) {
    let start = list.len();
    list.extend(items);
    let place = |at| u32::try_from(at).unwrap_or(u32::MAX);
    (place(start), place(list.len()))
}

/// Words and the tools that have them, weighted.
#[derive(Default)]
struct Found<'a> {
    /// Word → its place in `lists`.
    places: Map<&'a str, usize>,
    lists: Vec<(&'a str, Vec<Posting>)>,
}

impl Found<'_> {
    fn of(&self, text: &str) -> &[Posting] {
        let list = self.places.get(text).and_then(|&at| self.lists.get(at));
        list.map(|(_, postings)| postings.as_slice()).unwrap_or_default()
    }
}

/// Every word of the documents.
fn postings<'a>(documents: &'a [Document], hints: &'a Hints) -> Found<'a> {
    let averages = averages(documents);
    let mut addresses: Map<usize, usize> = Map::default();
    addresses.reserve(2 * documents.len());
    let Found { mut places, mut lists } = Found::default();
    let mut book = |stem: &'a str, posting: Posting| {
        let known = addresses.entry(address(stem));
        let at = *known.or_insert_with(|| *places.entry(stem).or_insert(lists.len()));
        match lists.get_mut(at) {
            Some((_, list)) => list.push(posting),
            None => lists.push((stem, vec![posting])),
        }
    };
    for (tool, document) in (0..).zip(documents) {
        let hint = match &document.backend {
            Some(backend) if !hints.is_empty() => hints.get(&words::fold(backend)),
            _ => None,
        };
        let hint = hint.map(Vec::as_slice).unwrap_or_default();
        let scales = scales(document.lengths, averages);
        for term in &document.terms {
            let mut counts = term.counts;
            counts[Field::Backend as usize] += u8::from(hint.iter().any(|h| **h == *term.stem));
            let impact = impact(counts, scales);
            book(&term.stem, Posting { tool, impact, place: term.place });
        }
        for stem in hint.iter().filter(|h| !document.terms.iter().any(|t| *t.stem == ***h)) {
            let mut counts = [0; FIELDS];
            counts[Field::Backend as usize] = 1;
            book(stem.as_str(), Posting { tool, impact: impact(counts, scales), place: 0 });
        }
    }
    Found { places, lists }
}

/// Folded backend → stems of the words about it.
type Hints = BTreeMap<String, Vec<String>>;

fn stems(text: &str) -> Vec<String> {
    let mut stems: Vec<String> = words::plain(text)
        .into_iter()
        .filter(|word| !words::is_stop(word))
        .map(|word| words::stem(&word).into_owned())
        .collect();
    stems.sort();
    stems.dedup();
    stems
}

fn averages(documents: &[Document]) -> [f32; FIELDS] {
    let mut sums = [0.0; FIELDS];
    for document in documents {
        for (sum, &length) in sums.iter_mut().zip(&document.lengths) {
            *sum += length as f32;
        }
    }
    sums.map(|sum| (sum / documents.len().max(1) as f32).max(1.0))
}

/// What the length of each field of a tool takes from a word in it.
fn scales(lengths: [u32; FIELDS], averages: [f32; FIELDS]) -> [f32; FIELDS] {
    std::array::from_fn(|f| 1.0 - LENGTH[f] + LENGTH[f] * lengths[f] as f32 / averages[f])
}

fn impact(counts: [u8; FIELDS], scales: [f32; FIELDS]) -> f32 {
    let field = |f: usize| WEIGHT[f] * f32::from(counts[f].min(MOST_COUNTED)) / scales[f];
    let weight: f32 = (0..FIELDS).map(field).sum();
    weight * (SATURATION + 1.0) / (weight + SATURATION)
}

/// How much it tells that a tool has a word which `holders` of `tools` have.
pub(crate) fn idf(tools: usize, holders: usize) -> f32 {
    if holders == 0 {
        return 0.0;
    }
    let (tools, holders) = (tools as f32, holders as f32);
    // Not `f32::ln`: that of the C library may differ in its last bit from one machine to the next.
    libm::logf(1.0 + (tools - holders + 0.5) / (holders + 0.5))
}

/// The stems by which a backend is called.
fn core(name: &str) -> Vec<String> {
    let words = words::plain(name);
    let telling: Vec<&String> =
        words.iter().filter(|word| !HOLLOW.contains(&word.as_str())).collect();
    let words = if telling.is_empty() { words.iter().collect() } else { telling };
    words.into_iter().map(|word| words::stem(word).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_follow_field_count_and_length() {
        let weigh = |field: usize, count: u8, length: u32| {
            let mut counts = [0; FIELDS];
            counts[field] = count;
            impact(counts, scales([length; FIELDS], [10.0; FIELDS]))
        };
        assert!(weigh(0, 1, 3) > weigh(2, 1, 3));
        assert!(weigh(3, 1, 5) > weigh(3, 1, 50));
        assert_eq!(weigh(4, 3, 10), weigh(4, 200, 10));
        assert!(idf(100, 1) > idf(100, 50) && idf(100, 100) > 0.0);
    }

    #[test]
    fn a_backend_is_called_without_its_hollow_words() {
        assert_eq!(core("bing-cn-mcp"), ["bing", "cn"]);
        assert_eq!(core("mcp-server"), ["mcp", "server"]);
    }
}
