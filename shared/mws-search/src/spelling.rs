//! Words that no tool has: split in two, begun, or misspelt.
//!
//! Invariant: only words of the catalog come back. Deliberately absent: repair of words that are in
//! the catalog, however rare.

use crate::index::{Index, Surface, Variant};

const PREFIX: f32 = 0.55;
const TYPO: f32 = 0.8;
/// A prefix that begins more words than this says too little.
const MOST_PREFIXED: usize = 8;

impl Index {
    /// The two words of a joined one, both known.
    pub(crate) fn halves(&self, word: &str) -> Option<(u32, u32)> {
        let cuts =
            word.char_indices().map(|(at, _)| at).filter(|&at| at > 2 && at + 3 <= word.len());
        cuts.into_iter().find_map(|at| {
            let (left, right) = word.split_at_checked(at)?;
            Some((self.surface(left)?, self.surface(right)?))
        })
    }

    /// Words that begin with this one.
    pub(crate) fn begun(&self, word: &str) -> Vec<Variant> {
        if word.len() < 3 {
            return Vec::new();
        }
        let start = self.surfaces.partition_point(|surface| surface.text.as_str() < word);
        let rest = self.surfaces.get(start..).unwrap_or_default();
        let begun = rest.iter().take_while(|surface| surface.text.starts_with(word));
        let mut words: Vec<u32> = begun.map(|surface| surface.word).collect();
        words.sort_unstable();
        words.dedup();
        words.truncate(MOST_PREFIXED);
        words.into_iter().map(|word| Variant { word, weight: PREFIX }).collect()
    }

    /// Words that differ by a slip or two of the fingers, the nearest only.
    pub(crate) fn misspelt(&self, word: &str) -> Vec<Variant> {
        let letters: Vec<char> = word.chars().collect();
        if letters.len() < 4 || letters.iter().any(|c| !c.is_alphabetic()) {
            return Vec::new();
        }
        let most = if letters.len() > 5 { 2 } else { 1 };
        let mask = mask(word);
        let mut found: Vec<(f32, u32)> = Vec::new();
        for (Surface { text, word }, other) in self.surfaces.iter().zip(&self.lookup.masks) {
            let near = text.len() + most >= letters.len() && text.len() <= letters.len() + most;
            if !near || (mask ^ other).count_ones() as usize > 2 * most {
                continue;
            }
            let other: Vec<char> = text.chars().collect();
            if let Some(slips) = distance(&letters, &other, most) {
                found.push((similarity(&letters, &other, slips), *word));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let best = found.first().map_or(0.0, |first| first.0);
        found.retain(|(similarity, _)| *similarity > best - 0.1);
        found.dedup_by_key(|(_, word)| *word);
        found.into_iter().map(|(like, word)| Variant { word, weight: TYPO * like }).collect()
    }
}

/// How many slips lie between two names; `None` when they are more than one in four letters.
pub(crate) fn slips(name: &str, other: &str) -> Option<usize> {
    let most = (name.len() / 4).min(4);
    let apart = (mask(name) ^ mask(other)).count_ones() as usize;
    if name.len().abs_diff(other.len()) > most || apart > 2 * most || most == 0 {
        return None;
    }
    let letters = |text: &str| text.chars().collect::<Vec<_>>();
    distance(&letters(name), &letters(other), most)
}

fn similarity(word: &[char], other: &[char], slips: usize) -> f32 {
    let share = 1.0 - slips as f32 / word.len().max(other.len()) as f32;
    if word.first() == other.first() { share } else { share * 0.8 }
}

/// Which letters a word has: a slip changes at most two of them.
pub(crate) fn mask(word: &str) -> u32 {
    word.bytes().fold(0, |mask, byte| mask | 1 << (byte & 31))
}

/// Insertions, losses, changes and swaps of neighbours from one word to the other, up to `most`.
fn distance(a: &[char], b: &[char], most: usize) -> Option<usize> {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i);
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut cell = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                cell = cell.min(before[j - 2] + 1);
            }
            row.push(cell);
        }
        if row.iter().all(|&cell| cell > most) {
            return None;
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|&slips| slips <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        let count = |a: &str, b: &str| {
            let chars = |s: &str| s.chars().collect::<Vec<_>>();
            distance(&chars(a), &chars(b), 2)
        };
        assert_eq!(count("serch", "search"), Some(1));
        assert_eq!(count("requets", "request"), Some(1));
        assert_eq!(count("calender", "calendar"), Some(1));
        assert_eq!(count("mail", "drive"), None);
    }
}
