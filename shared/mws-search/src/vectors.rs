//! Word vectors: what words mean, where the tables know no link between them.
//!
//! Invariant: a text's vector is the sum of its words', so nothing here needs a model; everything
//! that does not depend on the query is made beforehand. Deliberately absent: the table itself, which
//! the one who builds snapshots brings along, and any ranking by vectors alone.

use mws_catalog::{Backends, Catalog, Tool};
use xxhash_rust::xxh3::xxh3_64;

use crate::document::cut;
use crate::hash::Hashed;
use crate::index::{Index, Variant};
use crate::rows::{Rows, Wide};
use crate::words;

/// Numbers in a vector.
pub(crate) const DIMENSIONS: usize = 64;

const MAGIC: &[u8; 4] = b"MWSV";
/// The largest vocabulary that is read.
const MOST_WORDS: usize = 1 << 20;
/// Characters of the description that make a tool's vector, and how much the name alone counts.
const DESCRIPTION: usize = 140;
const NAME_SHARE: f32 = 0.3;
/// How many near words a word may stand for, how near they must be, and what they count at most.
const NEIGHBOURS: usize = 6;
const NEAR: f32 = 0.6;
const NEIGHBOUR: f32 = 0.7;

type Vector = [f32; DIMENSIONS];

/// A direction, coarse: number times `scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) numbers: [i8; DIMENSIONS],
    pub(crate) scale: f32,
}

impl Row {
    fn of(vector: &Vector) -> Self {
        let most = vector.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        let scale = most.max(f32::MIN_POSITIVE) / 127.0;
        Self { numbers: vector.map(|x| round(x / scale)), scale }
    }
}

/// What speaks for a word of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meant<'a> {
    /// The word.
    Word(Hashed<'a>),
    /// The word, or this word of the catalog when the table lacks it.
    WordOr(Hashed<'a>, u32),
    /// A word of the catalog.
    Place(u32),
}

/// A table of words and their vectors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WordVectors {
    /// All words in byte order, one a line.
    pub(crate) text: String,
    /// Where each word begins in `text`; one more at the end.
    pub(crate) starts: Vec<u32>,
    pub(crate) rows: Vec<Row>,
    pub(crate) hash: u64,
    /// Places of the words by their hash, from 1; the number of slots is a power of two.
    slots: Vec<u32>,
}

impl WordVectors {
    /// Reads the table that `scripts/make-wordvec` writes; `None` when the bytes are none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let number =
            |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
        let (count, length) = (number(4)?, number(12)?);
        let fits = bytes.starts_with(MAGIC) && number(8)? == DIMENSIONS && count <= MOST_WORDS;
        let (text, rest) = bytes.get(16..).filter(|_| fits)?.split_at_checked(length)?;
        let (scales, numbers) = rest.split_at_checked(count * 4)?;
        if numbers.len() != count * DIMENSIONS {
            return None;
        }
        let row = |(scale, numbers): (&[u8], &[u8])| {
            let scale = f32::from_le_bytes(scale.try_into().ok()?);
            let mut row = Row { numbers: [0; DIMENSIONS], scale };
            for (to, from) in row.numbers.iter_mut().zip(numbers) {
                *to = i8::from_le_bytes([*from]);
            }
            (scale.is_finite() && scale >= 0.0).then_some(row)
        };
        let rows = scales.chunks_exact(4).zip(numbers.chunks_exact(DIMENSIONS)).map(row);
        let rows: Vec<Row> = rows.collect::<Option<_>>()?;
        Self::new(std::str::from_utf8(text).ok()?.to_owned(), rows, xxh3_64(bytes))
    }

    pub(crate) fn new(text: String, rows: Vec<Row>, hash: u64) -> Option<Self> {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let mut starts = vec![0];
        starts.extend(ends.map(|(at, _)| at as u32 + 1));
        starts.push(u32::try_from(text.len()).ok()?.checked_add(1)?);
        let fits = starts.len() == rows.len() + 1;
        let slots = vec![0; (rows.len() * 2).next_power_of_two()];
        let table = Self { text, starts, rows, hash, slots };
        fits.then(|| table.with_slots())
    }

    fn with_slots(mut self) -> Self {
        for at in 0..self.rows.len() {
            let mut slot = self.slot(Hashed::of(self.word(at)));
            while self.slots.get(slot).is_some_and(|&taken| taken > 0) {
                slot = (slot + 1) & (self.slots.len() - 1);
            }
            if let Some(free) = self.slots.get_mut(slot) {
                *free = u32::try_from(at + 1).unwrap_or_default();
            }
        }
        self
    }

    fn slot(&self, word: Hashed<'_>) -> usize {
        word.hash as usize & self.slots.len().saturating_sub(1)
    }

    /// Tells tables apart.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    fn word(&self, at: usize) -> &str {
        let bound = |at: usize| self.starts.get(at).map_or(0, |&start| start as usize);
        self.text.get(bound(at)..bound(at + 1).saturating_sub(1)).unwrap_or_default()
    }

    pub(crate) fn find(&self, word: Hashed<'_>) -> Option<&Row> {
        let mut slot = self.slot(word);
        loop {
            let place = (*self.slots.get(slot)? as usize).checked_sub(1)?;
            if self.word(place) == word.text {
                return self.rows.get(place);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    fn add_text(&self, text: &str, sum: &mut Vector) {
        words::each(text, false, &mut |word, _| {
            if let Some(row) = self.find(Hashed::of(word)) {
                add(sum, row);
            }
        });
    }
}

/// What vectors add to an index.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Vectors {
    pub(crate) table: WordVectors,
    /// One for each tool, in their order.
    pub(crate) tools: Rows,
    /// Words of the catalog, as places in its list.
    pub(crate) words: Vec<u32>,
    /// The directions of these words.
    pub(crate) word_rows: Rows,
}

impl Index {
    /// Adds what a table of word vectors knows. The index must be of this catalog.
    pub fn add_vectors(&mut self, catalog: &Catalog, table: &WordVectors) {
        let backends = Backends::of(catalog);
        let vector = |tool: &Tool| tool_row(tool, backends.tool_part(tool.name()), table);
        let tools = catalog.tools().iter().map(vector).collect();
        let (words, word_rows) = self.word_rows(table);
        self.vectors = Some(Vectors { table: table.clone(), tools, words, word_rows });
    }

    /// [`WordVectors::hash`] of the table that was added.
    pub fn vectors_hash(&self) -> Option<u64> {
        self.vectors.as_ref().map(|vectors| vectors.table.hash)
    }

    /// A word stands where all its forms in the catalog stand together.
    fn word_rows(&self, table: &WordVectors) -> (Vec<u32>, Rows) {
        let mut sums: Vec<Option<Vector>> = vec![None; self.words.len()];
        for surface in &self.surfaces {
            let row = table.find(Hashed::of(&surface.text));
            if let (Some(row), Some(sum)) = (row, sums.get_mut(surface.word as usize)) {
                add(sum.get_or_insert([0.0; DIMENSIONS]), row);
            }
        }
        let known = (0..).zip(&sums).filter_map(|(word, sum)| Some((word, (*sum)?)));
        known.map(|(word, sum)| (word, Row::of(&unit(sum)))).unzip()
    }
}

impl Vectors {
    /// The words of the catalog nearest to a direction.
    pub(crate) fn neighbours(&self, row: &Wide) -> Vec<Variant> {
        let mut near: Vec<(f32, u32)> = Vec::new();
        self.word_rows.each(row, &mut |at, cosine| {
            if cosine > NEAR {
                near.extend(self.words.get(at).map(|word| (cosine, *word)));
            }
        });
        near.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        near.truncate(NEIGHBOURS + 1);
        let weight = |cosine: f32| NEIGHBOUR * ((cosine - NEAR) / (1.0 - NEAR)).min(1.0);
        near.into_iter().map(|(cosine, word)| Variant { word, weight: weight(cosine) }).collect()
    }

    /// The direction of a word that the catalog lacks.
    pub(crate) fn of_word(&self, word: Hashed<'_>) -> Option<Wide> {
        let row = self.table.find(word)?;
        let mut sum = [0.0; DIMENSIONS];
        add(&mut sum, row);
        Some(Wide::of(&Row::of(&unit(sum))))
    }

    /// The direction of several words; `None` when nothing is known of them.
    pub(crate) fn of_words(&self, words: &[Meant<'_>]) -> Option<Wide> {
        let mut sum = [0.0; DIMENSIONS];
        let mut known = false;
        for word in words {
            let row = match *word {
                Meant::Word(word) => self.table.find(word).copied(),
                Meant::WordOr(word, place) => {
                    self.table.find(word).copied().or_else(|| self.of_place(place))
                }
                Meant::Place(place) => self.of_place(place),
            };
            if let Some(row) = row {
                add(&mut sum, &row);
                known = true;
            }
        }
        known.then(|| Wide::of(&Row::of(&unit(sum))))
    }

    fn of_place(&self, word: u32) -> Option<Row> {
        self.word_rows.get(self.words.binary_search(&word).ok()?)
    }
}

/// A tool stands where its own part of the name and its whole text stand.
fn tool_row(tool: &Tool, part: &str, table: &WordVectors) -> Row {
    let (mut name, mut whole) = ([0.0; DIMENSIONS], [0.0; DIMENSIONS]);
    table.add_text(part, &mut name);
    table.add_text(tool.name(), &mut whole);
    table.add_text(cut(tool.description(), DESCRIPTION), &mut whole);
    let (name, whole) = (unit(name), unit(whole));
    let mut sum = [0.0; DIMENSIONS];
    for ((to, a), b) in sum.iter_mut().zip(name).zip(whole) {
        *to = NAME_SHARE * a + (1.0 - NAME_SHARE) * b;
    }
    Row::of(&sum)
}

fn add(sum: &mut Vector, row: &Row) {
    for (to, &number) in sum.iter_mut().zip(&row.numbers) {
        *to += f32::from(number) * row.scale;
    }
}

/// As `f32::round`, which calls into the C library for each number, for what fits in a byte.
fn round(number: f32) -> i8 {
    let whole = number as i8;
    let rest = number - f32::from(whole);
    whole.saturating_add(i8::from(rest >= 0.5)).saturating_sub(i8::from(rest <= -0.5))
}

fn unit(vector: Vector) -> Vector {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 { vector.map(|x| x / length) } else { vector }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    /// A table in which `alpha`, `beta` and `mail` point one way and `stone` another.
    fn table() -> Vec<u8> {
        let rows = [("alpha", 0), ("beta", 0), ("mail", 0), ("stone", 1)];
        let text = rows.map(|(word, _)| word).join("\n");
        let mut bytes = MAGIC.to_vec();
        for number in [rows.len(), DIMENSIONS, text.len()] {
            bytes.extend(u32::try_from(number).unwrap().to_le_bytes());
        }
        bytes.extend(text.as_bytes());
        bytes.extend(rows.map(|_| (1.0_f32 / 127.0).to_le_bytes()).concat());
        for (_, at) in rows {
            let mut row = [0; DIMENSIONS];
            row[at] = 127;
            bytes.extend(row);
        }
        bytes
    }

    fn catalog() -> Catalog {
        let text = br#"{"tools":[{"name":"stone_cut"},{"name":"mail_send"}]}"#;
        Catalog::parse(text).unwrap().0
    }

    #[test]
    fn a_table_is_read_or_refused() {
        let bytes = table();
        let read = WordVectors::parse(&bytes).unwrap();
        assert_eq!(read.find(Hashed::of("beta")).unwrap().numbers[0], 127);
        assert!(["gamma", ""].iter().all(|word| read.find(Hashed::of(word)).is_none()));
        for end in 0..bytes.len() {
            assert_eq!(WordVectors::parse(&bytes[..end]), None);
        }
    }

    #[test]
    fn an_unknown_word_finds_what_means_the_same() {
        let table = WordVectors::parse(&table()).unwrap();
        let mut index = Index::build(&catalog(), &Options::default());
        assert!(index.rank("alpha", 10).tools.is_empty());
        index.add_vectors(&catalog(), &table);
        assert_eq!(index.rank("alpha", 10).tools, [1]);
        assert_eq!(index.vectors_hash(), Some(table.hash()));
    }

    #[test]
    fn a_snapshot_keeps_vectors_and_ranks_alike() {
        let mut index = Index::build(&catalog(), &Options::default());
        let lexical = index.to_snapshot();
        index.add_vectors(&catalog(), &WordVectors::parse(&table()).unwrap());
        let bytes = index.to_snapshot();
        assert!(bytes.len() > lexical.len());
        let read = Index::from_snapshot(&bytes).unwrap();
        assert_eq!(read.vectors, index.vectors);
        for query in ["alpha", "beta stone", "send", "cut mail"] {
            assert_eq!(read.rank(query, 10), index.rank(query, 10));
        }
    }

    #[test]
    fn numbers_are_rounded_like_any_other() {
        let near =
            |n: i32| (-3..=3).map(move |by| (n as f32 / 2.0).to_bits().wrapping_add_signed(by));
        for number in (-300..=300).flat_map(near).map(f32::from_bits).chain([f32::INFINITY, 0.1]) {
            assert_eq!(round(number), number.round() as i8, "{number}");
        }
    }

    #[test]
    fn rows_keep_their_direction() {
        let mut vector = [0.0; DIMENSIONS];
        (vector[0], vector[9]) = (0.6, -0.8);
        let rows: Rows = [Row::of(&vector), Row::of(&[0.0; DIMENSIONS])].into_iter().collect();
        let row = Wide::of(&Row::of(&vector));
        assert!((rows.dot(0, &row) - 1.0).abs() < 0.02);
        assert_eq!((rows.dot(1, &row), rows.dot(2, &row)), (0.0, 0.0));
    }
}
