//! What tells at a glance that two words are far apart.
//!
//! Invariant: words that lie within the slips asked for always pass, so that only the slow comparison
//! decides. Deliberately absent: the comparison itself.

/// A slip changes at most so many bits of a mask.
const BITS: usize = 2;
/// More slips than this are not looked for.
const MOST: usize = 2;
/// Stands for the letters that a word has twice where they cannot be compared byte by byte.
const UNKNOWN: u32 = 1;
/// Words that are looked at in one go.
const LANES: usize = 8;

/// Words in groups of the same length.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    /// By length in bytes.
    groups: Vec<Group>,
}

/// Words of one length: their letters, the letters that they have twice, their places.
#[derive(Debug, Default)]
struct Group {
    letters: Vec<u32>,
    twice: Vec<u32>,
    places: Vec<u32>,
}

impl Shapes {
    /// Adds a word, with the number by which it is found.
    pub(crate) fn add(&mut self, text: &str, place: u32) {
        if self.groups.len() <= text.len() {
            self.groups.resize_with(text.len() + 1, Group::default);
        }
        if let Some(group) = self.groups.get_mut(text.len()) {
            let (letters, twice) = masks(text);
            group.letters.push(letters);
            group.twice.push(twice);
            group.places.push(place);
        }
    }

    /// Calls `see` with the place of every word that may lie within `most` slips of this one.
    pub(crate) fn near(&self, word: &str, most: usize, see: &mut impl FnMut(u32)) {
        let (letters, twice) = masks(word);
        let lengths =
            word.len().saturating_sub(most)..(word.len() + most + 1).min(self.groups.len());
        for group in self.groups.get(lengths).unwrap_or_default() {
            match most {
                0 => group.near::<0>(letters, twice, see),
                1 => group.near::<1>(letters, twice, see),
                _ => group.near::<MOST>(letters, twice, see),
            }
        }
    }
}

impl Group {
    fn near<const SLIPS: usize>(&self, letters: u32, twice: u32, see: &mut impl FnMut(u32)) {
        let (chunks, rest) = self.letters.as_chunks::<LANES>();
        let padded = std::array::from_fn(|lane| rest.get(lane).copied().unwrap_or(!letters));
        for (at, chunk) in chunks.iter().chain([&padded]).enumerate() {
            let left = chunk.map(|other| without::<SLIPS>(other ^ letters));
            if !left.iter().fold(false, |any, &left| any | (left == 0)) {
                continue;
            }
            for lane in (0..LANES).filter(|&lane| left[lane] == 0) {
                let place = at * LANES + lane;
                let Some(&other) = self.twice.get(place) else { return };
                let apart = (chunk[lane] ^ letters).count_ones() + (other ^ twice).count_ones();
                let unknown = (other | twice) & UNKNOWN > 0;
                if unknown || apart as usize <= BITS * SLIPS {
                    self.places.get(place).into_iter().for_each(|&place| see(place));
                }
            }
        }
    }
}

/// A mask without the bits that so many slips may change: 0 when it has no more than these.
fn without<const SLIPS: usize>(mut mask: u32) -> u32 {
    for _ in 0..BITS * SLIPS {
        mask &= mask.wrapping_sub(1);
    }
    mask
}

/// Which letters a word has, and which of them more than once.
fn masks(word: &str) -> (u32, u32) {
    let (mut once, mut twice) = (0, 0);
    for byte in word.bytes() {
        let bit = 1 << (byte & 31);
        twice |= once & bit;
        once |= bit;
    }
    (once, if word.is_ascii() { twice } else { UNKNOWN })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(words: &[&str], word: &str, most: usize) -> Vec<u32> {
        let mut shapes = Shapes::default();
        for (place, text) in (0..).zip(words) {
            shapes.add(text, place);
        }
        let mut found = Vec::new();
        shapes.near(word, most, &mut |place| found.push(place));
        found.sort_unstable();
        found
    }

    #[test]
    fn slips_pass_and_others_do_not() {
        let words = ["search", "serch", "research", "saerch", "letter", "", "s", "sseearch"];
        assert_eq!(near(&words, "search", 1), [0, 1, 3]);
        assert_eq!(near(&words, "search", 2), [0, 1, 2, 3, 7]);
        assert_eq!(near(&words, "", 1), [5, 6]);
        assert_eq!(near(&[], "search", 2), [0; 0]);
        let many = vec!["mail"; 2 * LANES + 3];
        assert_eq!(near(&many, "mali", 1).len(), many.len());
    }

    #[test]
    fn letters_of_other_scripts_are_not_counted_twice() {
        assert_eq!(near(&["smørbrød"], "smorbrod", 2), [0]);
        assert_eq!(near(&["поиск"], "писок", 2), [0]);
    }
}
