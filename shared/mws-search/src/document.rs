//! One tool, analysed: the part of indexing that depends on that tool alone.
//!
//! Invariant: equal tool, backend and version give an equal document, so documents can be kept and
//! only those of changed tools made again. Deliberately absent: anything about other tools.

use std::rc::Rc;

use crate::hash::Map;

use mws_catalog::{Backends, Tool};
use xxhash_rust::xxh3::xxh3_64;

use crate::codec::{Reader, Writer};
use crate::params;
use crate::verbs;
use crate::words;

/// Raised whenever analysis changes, so that kept documents are made again.
pub(crate) const VERSION: u32 = 2;

/// Characters of the description that are indexed, and of each parameter's description.
const DESCRIPTION: usize = 600;
const PARAMETER: usize = 160;

/// Where words stand in a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Field {
    Name,
    Backend,
    Params,
    Sentence,
    Rest,
    ParamText,
}

/// How many fields there are.
pub(crate) const FIELDS: usize = 6;

/// One indexed word of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) stem: Rc<str>,
    /// How often it stands in each field, at most 255.
    pub(crate) counts: [u8; FIELDS],
    /// Its first place in the name, from 1; 0 when it is not there.
    pub(crate) place: u8,
}

/// A tool as the index takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub(crate) name: String,
    /// Where the tool's own part of the name begins, in bytes.
    pub(crate) part: u32,
    pub(crate) backend: Option<String>,
    pub(crate) terms: Vec<Term>,
    /// Words in each field.
    pub(crate) lengths: [u32; FIELDS],
    /// What the name says the tool does, as a set of verb classes.
    pub(crate) verbs: u16,
    /// Words as written, with the place of their stem in `terms`.
    pub(crate) surfaces: Vec<(Rc<str>, u32)>,
}

impl Document {
    /// The tool's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Under which key the document of a tool is kept: it changes with everything analysis reads.
    pub fn key(tool: &Tool, backends: &Backends) -> u64 {
        let mut writer = Writer::default();
        writer.u32(VERSION);
        writer.u64(tool.hash());
        writer.text(backends.backend(tool.name()).unwrap_or_default());
        writer.text(backends.tool_part(tool.name()));
        xxh3_64(&writer.0)
    }

    /// The document as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u32(VERSION);
        writer.text(&self.name);
        writer.u32(self.part);
        writer.u8(u8::from(self.backend.is_some()));
        writer.text(self.backend.as_deref().unwrap_or_default());
        writer.u32(u32::from(self.verbs));
        for length in self.lengths {
            writer.u32(length);
        }
        writer.list(&self.terms, |w, term| {
            w.text(&term.stem);
            w.u8(term.place);
            w.0.extend(term.counts);
        });
        writer.list(&self.surfaces, |w, (text, term)| {
            w.text(text);
            w.u32(*term);
        });
        let check = xxh3_64(&writer.0);
        writer.u64(check);
        writer.0
    }

    /// The document again; `None` when the bytes are damaged or of another version.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (body, check) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
        let mut reader = Reader(body);
        if check != xxh3_64(body).to_le_bytes() || reader.u32()? != VERSION {
            return None;
        }
        let name = reader.text()?.to_owned();
        let part = reader.u32()?;
        let has_backend = reader.u8()? != 0;
        let backend = reader.text()?.to_owned();
        let verbs = u16::try_from(reader.u32()?).ok()?;
        let mut lengths = [0; FIELDS];
        for length in &mut lengths {
            *length = reader.u32()?;
        }
        let terms = reader.list(5 + FIELDS, |r| {
            let stem = r.text()?.into();
            let place = r.u8()?;
            let mut counts = [0; FIELDS];
            for count in &mut counts {
                *count = r.u8()?;
            }
            Some(Term { stem, counts, place })
        })?;
        let surfaces = reader.list(8, |r| {
            let text = r.text()?.into();
            let term = r.u32().filter(|&term| (term as usize) < terms.len())?;
            Some((text, term))
        })?;
        let backend = has_backend.then_some(backend);
        let fits = name.is_char_boundary(part as usize) && reader.0.is_empty();
        fits.then_some(Self { name, part, backend, terms, lengths, verbs, surfaces })
    }
}

/// Analyses tools, and keeps the words that it met: catalogs repeat theirs.
#[derive(Default)]
pub struct Analyser {
    words: Map<Rc<str>, u32>,
    known: Vec<Known>,
    stems: Map<Rc<str>, u32>,
    /// For each stem the tool that had it last, and the place of its term there.
    terms: Vec<(u32, u32)>,
    /// Tools so far; the number of the one at work.
    tools: u32,
    /// Empty lists with room: a document's grow in these and then move to what they need.
    spare: (Vec<Term>, Vec<(Rc<str>, u32)>),
}

/// A word met before.
struct Known {
    text: Rc<str>,
    stem: Rc<str>,
    stem_at: u32,
    /// The letters of a word that ends in digits.
    letters: Option<u32>,
    is_stop: bool,
    /// The tool that had it last.
    last: u32,
}

impl Analyser {
    /// Analyses one tool of a catalog whose backends are given.
    pub fn document(&mut self, tool: &Tool, backends: &Backends) -> Document {
        let name = tool.name();
        let part = backends.tool_part(name);
        let backend = backends.backend(name);
        self.tools += 1;
        let mut document = Document {
            name: name.to_owned(),
            part: u32::try_from(name.len() - part.len()).unwrap_or_default(),
            backend: backend.map(str::to_owned),
            terms: std::mem::take(&mut self.spare.0),
            lengths: [0; FIELDS],
            verbs: verbs::of_name(part),
            surfaces: std::mem::take(&mut self.spare.1),
        };
        self.names(&mut document, Field::Name, part);
        self.names(&mut document, Field::Backend, backend.unwrap_or_default());
        let (sentence, rest) = sentences(tool.description());
        self.prose(&mut document, Field::Sentence, sentence);
        self.prose(&mut document, Field::Rest, rest);
        params::visit(tool.input_schema().unwrap_or_default(), &mut |name, text| {
            self.names(&mut document, Field::Params, name);
            self.prose(&mut document, Field::ParamText, cut(text, PARAMETER));
        });
        self.spare.0 = fitted(&mut document.terms);
        self.spare.1 = fitted(&mut document.surfaces);
        document
    }

    fn names(&mut self, document: &mut Document, field: Field, text: &str) {
        words::each(text, false, &mut |word, _| {
            let word = self.word(word);
            self.add(document, field, word);
        });
    }

    fn prose(&mut self, document: &mut Document, field: Field, text: &str) {
        words::each(text, true, &mut |word, whole| {
            let word = self.word(word);
            if whole || self.known.get(word as usize).is_some_and(|known| !known.is_stop) {
                self.add(document, field, word);
            }
        });
    }

    fn add(&mut self, document: &mut Document, field: Field, word: u32) {
        document.lengths[field as usize] += 1;
        let place = u8::try_from(document.lengths[Field::Name as usize]).unwrap_or(u8::MAX);
        self.count(document, field, word, place);
        let letters = self.known.get(word as usize).and_then(|known| known.letters);
        if let Some(letters) = letters {
            self.count(document, field, letters, place);
        }
    }

    fn count(&mut self, document: &mut Document, field: Field, word: u32, place: u8) {
        let Some(known) = self.known.get_mut(word as usize) else { return };
        let Some((tool, term)) = self.terms.get_mut(known.stem_at as usize) else { return };
        if *tool != self.tools {
            (*tool, *term) = (self.tools, u32::try_from(document.terms.len()).unwrap_or(u32::MAX));
            let stem = Rc::clone(&known.stem);
            document.terms.push(Term { stem, counts: [0; FIELDS], place: 0 });
        }
        if known.last != self.tools {
            known.last = self.tools;
            document.surfaces.push((Rc::clone(&known.text), *term));
        }
        let Some(term) = document.terms.get_mut(*term as usize) else { return };
        let count = &mut term.counts[field as usize];
        *count = count.saturating_add(1);
        if field == Field::Name && term.place == 0 {
            term.place = place;
        }
    }

    /// The number of a word, which is new or known.
    fn word(&mut self, word: &str) -> u32 {
        if let Some(&at) = self.words.get(word) {
            return at;
        }
        let letters = words::letters(word).map(|letters| self.word(letters));
        let text: Rc<str> = word.into();
        let stem: Rc<str> = words::stem(word).into();
        let next = u32::try_from(self.terms.len()).unwrap_or(u32::MAX);
        let stem_at = *self.stems.entry(Rc::clone(&stem)).or_insert(next);
        if stem_at == next {
            self.terms.push((0, 0));
        }
        let at = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        let is_stop = words::is_stop(word);
        self.words.insert(Rc::clone(&text), at);
        self.known.push(Known { text, stem, stem_at, letters, is_stop, last: 0 });
        at
    }
}

/// Moves a list to memory of its size; what it leaves is empty.
fn fitted<T>(list: &mut Vec<T>) -> Vec<T> {
    let fitted = Vec::from_iter(list.drain(..));
    std::mem::replace(list, fitted)
}

/// The first sentence of a description, and what follows, both within the limit.
pub(crate) fn sentences(description: &str) -> (&str, &str) {
    let text = cut(description.trim(), DESCRIPTION);
    let ends = text.char_indices().filter_map(|(at, c)| {
        let end = at + c.len_utf8();
        let next = || text.get(end..).and_then(|rest| rest.chars().next());
        let is_end = match c {
            '\n' | '。' | '！' | '？' => true,
            '.' | '!' | '?' => next().is_none_or(char::is_whitespace),
            _ => false,
        };
        is_end.then_some(end)
    });
    let end = ends.into_iter().find(|&end| end > 8).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// The first `limit` characters.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let end = text.char_indices().nth(limit).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mws_catalog::Catalog;

    fn documents(text: &str) -> Vec<Document> {
        let catalog = Catalog::parse(text.as_bytes()).unwrap().0;
        let backends = Backends::of(&catalog);
        let mut analyser = Analyser::default();
        catalog.tools().iter().map(|tool| analyser.document(tool, &backends)).collect()
    }

    const MAIL: &str = r#"{"tools":[{"name":"mail__sendMail","description":"Sends mail. Slow on GitHub.","inputSchema":{"properties":{"to":{"description":"who"}}}}]}"#;

    #[test]
    fn words_are_counted_by_field() {
        let document = &documents(MAIL)[0];
        let term = |stem: &str| document.terms.iter().find(|t| *t.stem == *stem).unwrap();
        assert_eq!((term("mail").counts, term("mail").place), ([1, 1, 0, 1, 0, 0], 2));
        assert_eq!(term("send").counts, [1, 0, 0, 1, 0, 0]);
        assert_eq!(term("github").counts[Field::Rest as usize], 1);
        assert_eq!(term("to").counts[Field::Params as usize], 1);
        assert_eq!(document.lengths[Field::Name as usize], 2);
    }

    #[test]
    fn bytes_round_trip_and_damage_is_seen() {
        let document = &documents(MAIL)[0];
        let bytes = document.to_bytes();
        assert_eq!(Document::from_bytes(&bytes).as_ref(), Some(document));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x41;
            assert_eq!(Document::from_bytes(&damaged), None);
            assert_eq!(Document::from_bytes(&bytes[..at]), None);
        }
    }

    #[test]
    fn the_first_sentence_ends_where_it_ends() {
        assert_eq!(sentences("Reads e.g. v1.2 files. More"), ("Reads e.g.", " v1.2 files. More"));
        assert_eq!(sentences("获取天气预报信息。更多"), ("获取天气预报信息。", "更多"));
        assert_eq!(sentences(""), ("", ""));
    }
}
