//! The index as one block of bytes.
//!
//! Layout: magic, format, catalog hash, options hash, then the lists of [`Index`] in the order of
//! its fields, then xxh3 of all before. Invariant: bytes that anything has changed give an error,
//! never a panic and never an index whose numbers point outside its lists. Deliberately absent:
//! reading in place; a truncated mapping would kill the process.

use std::collections::BTreeMap;
use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

use crate::codec::{Reader, Writer};
use crate::index::{Backend, Entry, Index, IndexWord, Posting, Surface, Variant};
use crate::rows::Rows;
use crate::vectors::{DIMENSIONS, Row, Vectors, WordVectors};

/// The version of this layout.
pub const FORMAT: u32 = 3;

const MAGIC: &[u8; 4] = b"MWSX";
const NO_BACKEND: u32 = u32::MAX;
/// Bytes of a [`Row`].
const ROW: usize = 4 + DIMENSIONS;

/// Why bytes are no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// They do not begin like one.
    NoSnapshot,
    /// They have another format than [`FORMAT`].
    Format(u32),
    /// Checksum, length or a number in them is wrong.
    Damaged,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSnapshot => f.write_str("not an index snapshot"),
            Self::Format(format) => write!(f, "index snapshot of format {format}, not {FORMAT}"),
            Self::Damaged => f.write_str("damaged index snapshot"),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl Index {
    /// The index as bytes.
    pub fn to_snapshot(&self) -> Vec<u8> {
        let mut w = Writer(MAGIC.to_vec());
        w.u32(FORMAT);
        w.u64(self.catalog_hash);
        w.u64(self.options_hash);
        w.list(&self.tools, write_entry);
        w.list(&self.backends, |w, backend| {
            w.text(&backend.name);
            w.list(&backend.tools, |w, tool| w.u32(*tool));
            w.list(&backend.core, |w, stem| w.text(stem));
        });
        w.list(&self.words, |w, word| {
            w.text(&word.text);
            w.f32(word.idf);
            for (start, end) in [word.postings, word.variants] {
                w.u32(start);
                w.u32(end);
            }
        });
        w.list(&self.postings, |w, posting| {
            w.u32(posting.tool);
            w.f32(posting.impact);
            w.u8(posting.place);
        });
        w.list(&self.variants, |w, variant| {
            w.u32(variant.word);
            w.f32(variant.weight);
        });
        w.list(&self.surfaces, |w, surface| {
            w.text(&surface.text);
            w.u32(surface.word);
        });
        let phrases: Vec<_> = self.phrases.iter().collect();
        w.list(&phrases, |w, (short, words)| {
            w.text(short);
            w.list(words, |w, word| w.u32(*word));
        });
        w.u8(u8::from(self.vectors.is_some()));
        if let Some(vectors) = &self.vectors {
            write_vectors(&mut w, vectors);
        }
        let check = xxh3_64(&w.0);
        w.u64(check);
        w.0
    }

    /// The index of a snapshot.
    ///
    /// # Errors
    /// The bytes are no snapshot, have another format, or are damaged.
    pub fn from_snapshot(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let mut header = Reader(bytes.strip_prefix(MAGIC).ok_or(SnapshotError::NoSnapshot)?);
        match header.u32() {
            Some(FORMAT) => {}
            Some(format) => return Err(SnapshotError::Format(format)),
            None => return Err(SnapshotError::Damaged),
        }
        let split = bytes.len().checked_sub(8).ok_or(SnapshotError::Damaged)?;
        let (body, check) = bytes.split_at_checked(split).ok_or(SnapshotError::Damaged)?;
        if xxh3_64(body).to_le_bytes() != check {
            return Err(SnapshotError::Damaged);
        }
        let lists = Reader(body.get(8..).unwrap_or_default());
        let mut index = read(lists).filter(Self::holds).ok_or(SnapshotError::Damaged)?;
        index.lookup.words = index.word_places();
        Ok(index.with_lookup())
    }

    /// Whether every number lies within the list it refers to.
    fn holds(&self) -> bool {
        let below = |at: u32, length: usize| (at as usize) < length;
        let (tools, words) = (self.tools.len(), self.words.len());
        let range =
            |(start, end): (u32, u32), length: usize| start <= end && end as usize <= length;
        let entry = |tool: &Entry| {
            tool.backend.is_none_or(|backend| below(backend, self.backends.len()))
                && tool.name.is_char_boundary(tool.part as usize)
        };
        let word = |word: &IndexWord| {
            range(word.postings, self.postings.len()) && range(word.variants, self.variants.len())
        };
        self.tools.iter().all(entry)
            && self.backends.iter().all(|b| b.tools.iter().all(|&tool| below(tool, tools)))
            && self.words.iter().all(word)
            && self.postings.iter().all(|posting| below(posting.tool, tools))
            && self.variants.iter().all(|variant| below(variant.word, words))
            && self.surfaces.iter().all(|surface| below(surface.word, words))
            && self.vectors.as_ref().is_none_or(|vectors| {
                vectors.tools.len() == tools
                    && vectors.words.len() == vectors.word_rows.len()
                    && vectors.words.iter().all(|at| below(*at, words))
            })
            && self.phrases.values().flatten().all(|&word| below(word, words))
    }
}

fn write_entry(w: &mut Writer, tool: &Entry) {
    w.text(&tool.name);
    w.u32(tool.part);
    w.u32(tool.words);
    w.u32(tool.backend.unwrap_or(NO_BACKEND));
    w.u32(u32::from(tool.verbs));
}

fn read(mut r: Reader<'_>) -> Option<Index> {
    let mut index = Index { catalog_hash: r.u64()?, options_hash: r.u64()?, ..Index::default() };
    index.tools = r.list(20, |r| {
        Some(Entry {
            name: r.text()?.to_owned(),
            part: r.u32()?,
            words: r.u32()?,
            backend: Some(r.u32()?).filter(|&backend| backend != NO_BACKEND),
            verbs: u16::try_from(r.u32()?).ok()?,
        })
    })?;
    index.backends = r.list(12, |r| {
        let name = r.text()?.to_owned();
        let tools = r.list(4, Reader::u32)?;
        let core = r.list(4, |r| r.text().map(str::to_owned))?;
        Some(Backend { name, tools, core })
    })?;
    index.words = r.list(24, |r| {
        let text = r.text()?.to_owned();
        let idf = r.f32()?;
        let postings = (r.u32()?, r.u32()?);
        Some(IndexWord { text, idf, postings, variants: (r.u32()?, r.u32()?) })
    })?;
    index.postings =
        r.list(9, |r| Some(Posting { tool: r.u32()?, impact: r.f32()?, place: r.u8()? }))?;
    index.variants = r.list(8, |r| Some(Variant { word: r.u32()?, weight: r.f32()? }))?;
    index.surfaces = r.list(8, |r| Some(Surface { text: r.text()?.to_owned(), word: r.u32()? }))?;
    let phrases = r.list(8, |r| Some((r.text()?.to_owned(), r.list(4, Reader::u32)?)))?;
    index.phrases = BTreeMap::from_iter(phrases);
    if r.u8()? != 0 {
        index.vectors = Some(read_vectors(&mut r)?);
    }
    r.0.is_empty().then_some(index)
}

fn write_vectors(w: &mut Writer, vectors: &Vectors) {
    w.u64(vectors.table.hash);
    w.text(&vectors.table.text);
    w.list(&vectors.table.rows, write_row);
    write_rows(w, &vectors.tools);
    w.list(&vectors.words, |w, word| w.u32(*word));
    write_rows(w, &vectors.word_rows);
}

fn write_rows(w: &mut Writer, rows: &Rows) {
    w.count(rows.len());
    (0..rows.len()).filter_map(|at| rows.get(at)).for_each(|row| write_row(w, &row));
}

fn write_row(w: &mut Writer, row: &Row) {
    w.f32(row.scale);
    w.0.extend(row.numbers.map(i8::cast_unsigned));
}

fn read_vectors(r: &mut Reader<'_>) -> Option<Vectors> {
    let (hash, text) = (r.u64()?, r.text()?.to_owned());
    let table = WordVectors::new(text, r.list(ROW, read_row)?, hash)?;
    let tools = r.list(ROW, read_row)?.into_iter().collect();
    let words = r.list(4, Reader::u32)?;
    let word_rows = r.list(ROW, read_row)?.into_iter().collect();
    Some(Vectors { table, tools, words, word_rows })
}

fn read_row(r: &mut Reader<'_>) -> Option<Row> {
    let scale = r.f32()?;
    let numbers: [u8; DIMENSIONS] = r.take(DIMENSIONS)?.try_into().ok()?;
    Some(Row { numbers: numbers.map(u8::cast_signed), scale })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use mws_catalog::Catalog;

    fn index() -> Index {
        let text = br#"{"tools":[{"name":"mail__send_mail","description":"Send a mail."},{"name":"git__pull_request","description":"Fetch pulls"},{"name":"mail__list"}]}"#;
        Index::build(&Catalog::parse(text).unwrap().0, &Options::default())
    }

    #[test]
    fn a_snapshot_ranks_like_its_index() {
        let built = index();
        let bytes = built.to_snapshot();
        let read = Index::from_snapshot(&bytes).unwrap();
        assert_eq!(read.to_snapshot(), bytes);
        assert_eq!(read.catalog_hash(), built.catalog_hash());
        for query in ["write an email", "mail", "list", "pr", "git pul", ""] {
            assert_eq!(read.rank(query, 10), built.rank(query, 10));
        }
    }

    #[test]
    fn every_flipped_or_missing_byte_is_an_error() {
        let bytes = index().to_snapshot();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(Index::from_snapshot(&damaged).is_err(), "byte {at}");
            assert!(Index::from_snapshot(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn damage_under_a_right_checksum_never_panics() {
        let bytes = index().to_snapshot();
        let body = bytes.len() - 8;
        let mut accepted = 0;
        for at in 8..body {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = bytes[..body].to_vec();
                damaged[at] = value;
                damaged.extend(xxh3_64(&damaged).to_le_bytes());
                if let Ok(index) = Index::from_snapshot(&damaged) {
                    accepted += 1;
                    for query in ["write an email", "mail", "pr", "git pul", "mail send"] {
                        assert!(index.rank(query, 10).tools.len() <= 3);
                    }
                }
            }
        }
        assert!(accepted > 0);
    }
}
