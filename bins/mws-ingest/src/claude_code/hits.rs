//! Where in a piece of a transcript something may matter.
//!
//! Invariant: hits come in the order of their places.
//! Deliberately absent: what a hit means.

use memchr::memmem::Finder;

use crate::names::Names;

/// Marks calls (`"tool_use"`) and results (`"tool_use_id"`) of every tool.
pub(super) const TOOL_USE: &[u8] = b"tool_use";

/// A place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    /// Offset of its first byte.
    pub(super) at: usize,
    /// It is the name of our server, not [`TOOL_USE`].
    pub(super) needle: bool,
}

/// The next place of each thing looked for.
#[derive(Debug, Default)]
pub(super) struct Hits<'a> {
    finders: Vec<Finder<'a>>,
    next: Vec<Option<usize>>,
}

impl<'a> Hits<'a> {
    /// Looks for [`TOOL_USE`] and the needles of `names`.
    pub(super) fn new(names: &'a Names) -> Self {
        let needles = names.needles().iter().map(Finder::as_ref);
        let finders: Vec<_> = std::iter::once(Finder::new(TOOL_USE)).chain(needles).collect();
        Self { next: vec![None; finders.len()], finders }
    }

    /// Begins with `bytes`.
    pub(super) fn start(&mut self, bytes: &[u8]) {
        for (finder, next) in self.finders.iter().zip(&mut self.next) {
            *next = finder.find(bytes);
        }
    }

    /// The first hit that was not passed.
    pub(super) fn first(&self) -> Option<Hit> {
        let at = self.next.iter().flatten().min().copied()?;
        Some(Hit { at, needle: self.next[0] != Some(at) })
    }

    /// Passes all hits before `from`.
    pub(super) fn go_on_from(&mut self, from: usize, bytes: &[u8]) {
        for (finder, next) in self.finders.iter().zip(&mut self.next) {
            if next.is_some_and(|at| at < from) {
                *next = finder.find(&bytes[from..]).map(|at| from + at);
            }
        }
    }
}
