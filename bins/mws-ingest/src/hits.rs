//! Where in a piece of a transcript something may matter.
//!
//! Invariant: hits come in the order of their places.
//! Deliberately absent: what a hit means.

use std::ops::Range;

use memchr::memmem::Finder;
use memchr::{memchr, memrchr};

/// A place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hit {
    /// Offset of its first byte.
    pub(crate) at: usize,
    /// Which of the things looked for it is.
    pub(crate) what: usize,
}

/// The next place of each thing looked for.
#[derive(Debug, Default)]
pub(crate) struct Hits<'a> {
    finders: Vec<Finder<'a>>,
    next: Vec<Option<usize>>,
}

impl<'a> Hits<'a> {
    /// Looks for the needles of `finders`.
    pub(crate) fn new(finders: Vec<Finder<'a>>) -> Self {
        Self { next: vec![None; finders.len()], finders }
    }

    /// Begins with `bytes`.
    pub(crate) fn start(&mut self, bytes: &[u8]) {
        for (finder, next) in self.finders.iter().zip(&mut self.next) {
            *next = finder.find(bytes);
        }
    }

    /// The first hit that was not passed.
    pub(crate) fn first(&self) -> Option<Hit> {
        let hits = self.next.iter().enumerate();
        hits.filter_map(|(what, at)| Some(Hit { at: (*at)?, what })).min_by_key(|hit| hit.at)
    }

    /// Passes all hits before `from`.
    pub(crate) fn go_on_from(&mut self, from: usize, bytes: &[u8]) {
        for (finder, next) in self.finders.iter().zip(&mut self.next) {
            if next.is_some_and(|at| at < from) {
                *next = finder.find(&bytes[from..]).map(|at| from + at);
            }
        }
    }

    /// Hands each line of `bytes` with a hit to `take`.
    pub(crate) fn each_line(&mut self, bytes: &mut [u8], mut take: impl FnMut(&mut [u8])) {
        self.start(bytes);
        while let Some(hit) = self.first() {
            let line = line_around(bytes, hit.at);
            take(&mut bytes[line.clone()]);
            self.go_on_from(line.end, bytes);
        }
    }
}

/// Where the line around `at` is, without its newline.
pub(crate) fn line_around(bytes: &[u8], at: usize) -> Range<usize> {
    let start = memrchr(b'\n', &bytes[..at]).map_or(0, |newline| newline + 1);
    start..line_end(bytes, at)
}

/// Where the line ends that goes on at `at`.
pub(crate) fn line_end(bytes: &[u8], at: usize) -> usize {
    memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |newline| at + newline)
}

/// A short text up to its closing quote; none with escapes.
pub(crate) fn until_quote(bytes: &[u8]) -> Option<&[u8]> {
    let head = &bytes[..bytes.len().min(256)];
    let text = &head[..memchr(b'"', head)?];
    (!text.contains(&b'\\')).then_some(text)
}
