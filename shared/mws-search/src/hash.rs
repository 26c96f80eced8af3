//! The hash of the maps inside an index.
//!
//! Invariant: the same everywhere and every time. Deliberately absent: resistance against chosen
//! keys; a catalog that wants to be slow to search can as well be long.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Fast>>;
pub(crate) type Set<K> = HashSet<K, BuildHasherDefault<Fast>>;

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a text.
pub(crate) fn of(text: &str) -> u64 {
    let mut hasher = Fast::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// A text with its hash, to look it up in several places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hashed<'a> {
    pub(crate) hash: u64,
    pub(crate) text: &'a str,
}

impl<'a> Hashed<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        Self { text, hash: of(text) }
    }
}

/// Multiplies and folds eight bytes at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fast(u64);

impl Fast {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(MIX);
        self.0 = (product as u64) ^ ((product >> 64) as u64) ^ word.rotate_left(29);
    }
}

impl Hasher for Fast {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        self.mix(last(rest) ^ (bytes.len() as u64) << 56);
    }

    fn write_u8(&mut self, byte: u8) {
        self.mix(u64::from(byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }

    fn finish(&self) -> u64 {
        self.0.wrapping_mul(MIX) ^ (self.0 >> 32)
    }
}

/// Up to seven bytes as a number; read as two overlapping pieces, as most words are short.
fn last(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let last = u64::from(u32::from_le_bytes(*last)) << (8 * (length - 4));
        return u64::from(u32::from_le_bytes(*first)) | last;
    }
    let byte = |at: usize| bytes.get(at).map_or(0, |&byte| u64::from(byte) << (8 * at));
    byte(0) | byte(1) | byte(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hash;

    #[test]
    fn the_last_bytes_are_read_as_they_stand() {
        for length in 0..8 {
            let mut bytes = [0; 8];
            (0..length).for_each(|at| bytes[at] = 0x81 + at as u8);
            assert_eq!(last(&bytes[..length]), u64::from_le_bytes(bytes));
        }
    }

    #[test]
    fn keys_spread_over_all_bits() {
        let mut low = Set::default();
        let mut high = Set::default();
        for number in 0..4096_u32 {
            let mut hasher = Fast::default();
            format!("word{number}").hash(&mut hasher);
            low.insert(hasher.finish() & 0xffff);
            high.insert(hasher.finish() >> 48);
        }
        assert!(low.len() > 3800 && high.len() > 3800, "{} {}", low.len(), high.len());
    }
}
