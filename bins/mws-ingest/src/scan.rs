//! Reading a file in windows of whole lines.
//!
//! Invariant: a byte counts as consumed only when its line did; memory is one window for each
//! thread, or twice the longest line, for one thread at a time.
//! Deliberately absent: memory maps, which die when a client truncates its file.

use std::io::{self, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memchr::memrchr;
use xxhash_rust::xxh3::xxh3_64;

use crate::salvage::is_whole;

/// Fits the second-level cache.
const WINDOW: usize = 256 * 1024;
/// A window may keep this much memory; beyond it one at a time may grow, and gives it back.
const BIG: usize = 2 * 1024 * 1024;
const TAIL: usize = 64;

static BIG_WINDOW: Mutex<()> = Mutex::new(());

/// The last bytes before an offset, by which a file is recognised.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    /// The last [`TAIL`] of `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(bytes[bytes.len().saturating_sub(TAIL)..].to_vec())
    }

    /// How many bytes before `offset` make its tail.
    pub(crate) fn len_at(offset: u64) -> usize {
        usize::try_from(offset).unwrap_or(TAIL).min(TAIL)
    }

    /// What is stored of it: transcripts' bytes do not enter the state.
    pub(crate) fn hash(&self) -> u64 {
        xxh3_64(&self.0)
    }

    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
        let excess = self.0.len().saturating_sub(TAIL);
        self.0.drain(..excess);
    }
}

/// The reused buffer of a thread.
#[derive(Debug)]
pub(crate) struct Window {
    bytes: Vec<u8>,
    /// How much of it is in use: it stays in the cache while lines are short.
    len: usize,
    alone: Option<MutexGuard<'static, ()>>,
}

impl Window {
    /// An empty window.
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; WINDOW], len: WINDOW, alone: None }
    }

    /// Reads on behind what fills the window. Gives how much was read, nothing at the end.
    fn read_on(&mut self, source: &mut dyn Read) -> io::Result<usize> {
        let filled = self.len;
        if 2 * filled <= self.bytes.len() {
            self.len = 2 * filled;
            return read_once(source, &mut self.bytes[filled..2 * filled]);
        }
        if 2 * filled > BIG && self.alone.is_none() {
            self.alone = Some(BIG_WINDOW.lock().unwrap_or_else(PoisonError::into_inner));
        }
        // Large blocks grow in place where the system can do it, and no page is touched that is not
        // read into: page faults are what such a line costs.
        self.bytes.truncate(filled);
        self.bytes.reserve_exact(filled);
        let read = source.take(filled as u64).read_to_end(&mut self.bytes)?;
        self.len = self.bytes.len();
        Ok(read)
    }

    fn shrink(&mut self, filled: usize) {
        if filled > WINDOW / 2 {
            return;
        }
        self.len = WINDOW;
        if self.bytes.len() > BIG {
            self.bytes.truncate(WINDOW);
            self.bytes.shrink_to_fit();
            self.alone = None;
        }
    }
}

/// How far a scan got.
#[derive(Debug)]
pub(crate) struct Consumed {
    /// Bytes consumed.
    pub(crate) bytes: u64,
    /// The tail at the end of them.
    pub(crate) tail: Tail,
}

/// Hands `source` to `visit` in pieces of whole lines, which it may overwrite. A last line without
/// a newline may still be written: it counts when it is one whole object.
///
/// # Errors
/// When reading fails.
pub(crate) fn scan(
    source: &mut dyn Read,
    window: &mut Window,
    mut tail: Tail,
    visit: &mut dyn FnMut(&mut [u8]),
) -> io::Result<Consumed> {
    let (mut filled, mut searched, mut consumed) = (0, 0, 0);
    loop {
        let read = if filled < window.len {
            read_once(source, &mut window.bytes[filled..window.len])?
        } else {
            window.read_on(source)?
        };
        if read == 0 {
            break;
        }
        filled += read;
        let Some(newline) = memrchr(b'\n', &window.bytes[searched..filled]) else {
            searched = filled;
            continue;
        };
        let end = searched + newline + 1;
        tail.push(&window.bytes[..end]);
        visit(&mut window.bytes[..end]);
        window.bytes.copy_within(end..filled, 0);
        consumed += end as u64;
        filled -= end;
        searched = filled;
        window.shrink(filled);
    }
    if is_whole(&window.bytes[..filled]) {
        tail.push(&window.bytes[..filled]);
        visit(&mut window.bytes[..filled]);
        consumed += filled as u64;
    }
    window.shrink(0);
    Ok(Consumed { bytes: consumed, tail })
}

fn read_once(source: &mut dyn Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(into) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &[u8]) -> (Vec<u8>, Consumed) {
        let mut seen = Vec::new();
        let mut visit = |bytes: &mut [u8]| {
            seen.extend_from_slice(bytes);
            bytes.fill(b'?');
        };
        let got = scan(&mut &*text, &mut Window::new(), Tail::default(), &mut visit);
        let got = got.expect("no I/O error");
        (seen, got)
    }

    #[test]
    fn every_whole_line_is_seen_once_whatever_its_length() {
        let mut text = Vec::new();
        for len in [0, 1, 63, 64, 65, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW, 5] {
            text.extend(std::iter::repeat_n(b'a' + (len % 26) as u8, len));
            text.push(b'\n');
        }
        let (seen, got) = pieces(&text);
        assert_eq!(seen, text);
        assert_eq!(got.bytes, text.len() as u64);
        assert_eq!(got.tail.hash(), Tail::of(&text).hash());
    }

    #[test]
    fn a_torn_line_is_consumed_only_when_nothing_of_it_can_be_missing() {
        let (seen, got) = pieces(b"one\ntwo\n{\"n\":");
        assert_eq!((seen.as_slice(), got.bytes), (&b"one\ntwo\n"[..], 8));
        assert_eq!(got.tail.hash(), Tail::of(b"one\ntwo\n").hash());
        let text = b"one\ntwo\n{}";
        let (seen, got) = pieces(text);
        assert_eq!((seen.as_slice(), got.bytes), (&text[..], 10));
        assert_eq!(got.tail.hash(), Tail::of(text).hash());
    }
}
