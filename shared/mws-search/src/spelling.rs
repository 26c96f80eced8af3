//! Words that no tool has: split in two, begun, or misspelt.
//!
//! Invariant: only words of the catalog come back. Deliberately absent: repair of words that are in
//! the catalog, however rare.

use crate::hash::Hashed;
use crate::index::{Index, Surface, Variant};

const PREFIX: f32 = 0.55;
const TYPO: f32 = 0.8;
/// Names longer than this are not repaired.
const LONGEST: usize = 128;
/// A prefix that begins more words than this says too little.
const MOST_PREFIXED: usize = 8;

impl Index {
    /// The two words of a joined one, both known.
    pub(crate) fn halves(&self, word: &str) -> Option<(u32, u32)> {
        let cuts =
            word.char_indices().map(|(at, _)| at).filter(|&at| at > 2 && at + 3 <= word.len());
        cuts.into_iter().find_map(|at| {
            let (left, right) = word.split_at_checked(at)?;
            Some((self.surface(Hashed::of(left))?, self.surface(Hashed::of(right))?))
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
        let letters = word.chars().count();
        if letters < 4 || !word.chars().all(char::is_alphabetic) {
            return Vec::new();
        }
        let most = if letters > 5 { 2 } else { 1 };
        let bits = Bits::of(word);
        let mut found: Vec<(f32, u32)> = Vec::new();
        self.lookup.shapes.near(word, most, &mut |place| {
            let Some(Surface { text, word: other }) = self.surfaces.get(place as usize) else {
                return;
            };
            let slips = bits.as_ref().and_then(|bits| bits.distance(text));
            let slips = slips.or_else(|| distance(&letters_of(word), &letters_of(text), most));
            let like =
                slips.filter(|&slips| slips <= most).map(|slips| likeness(word, text, slips));
            found.extend(like.map(|like| (like, *other)));
        });
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let best = found.first().map_or(0.0, |first| first.0);
        found.retain(|(similarity, _)| *similarity > best - 0.1);
        found.dedup_by_key(|(_, word)| *word);
        found.into_iter().map(|(like, word)| Variant { word, weight: TYPO * like }).collect()
    }
}

/// How many slips two names may lie apart: two, or one in four letters. Else a word differs, not a
/// letter.
pub(crate) fn most_slips(name: &str) -> usize {
    (name.len() / 4).min(2)
}

/// How many slips lie between two names; `None` when they are too many.
pub(crate) fn slips(name: &str, other: &str) -> Option<usize> {
    let most = most_slips(name);
    if most == 0 { None } else { distance(&letters_of(name), &letters_of(other), most) }
}

fn letters_of(text: &str) -> Vec<char> {
    text.chars().collect()
}

/// How like each other two words are that lie some slips apart.
fn likeness(word: &str, other: &str, slips: usize) -> f32 {
    let length = |word: &str| if word.is_ascii() { word.len() } else { word.chars().count() };
    let share = 1.0 - slips as f32 / length(word).max(length(other)) as f32;
    if word.chars().next() == other.chars().next() { share } else { share * 0.8 }
}

/// A short word of ASCII letters, as bits: where each letter stands. All its rows of the table of
/// [`distance`] are worked out at once, each as the bits where one cell is more or less than the last.
struct Bits {
    places: [u64; 128],
    length: usize,
}

impl Bits {
    /// `None` for other words.
    fn of(word: &str) -> Option<Self> {
        let length = word.len();
        let mut places = [0; 128];
        for (at, byte) in word.bytes().enumerate() {
            *places.get_mut(usize::from(byte))? |= 1_u64.checked_shl(u32::try_from(at).ok()?)?;
        }
        Some(Self { places, length })
    }

    /// As [`distance`], without a limit; `None` where the other is not ASCII.
    fn distance(&self, other: &str) -> Option<usize> {
        let last = 1_u64.checked_shl(u32::try_from(self.length).ok()?.checked_sub(1)?)?;
        let (mut more, mut less) = (u64::MAX, 0_u64);
        let (mut same, mut before) = (0_u64, 0_u64);
        let mut slips = self.length;
        for byte in other.bytes() {
            let here = *self.places.get(usize::from(byte))?;
            let swapped = ((!same & here) << 1) & before;
            same = (((here & more).wrapping_add(more)) ^ more) | here | less | swapped;
            let (up, down) = (less | !(same | more), same & more);
            slips += usize::from(up & last != 0);
            slips -= usize::from(down & last != 0);
            let up = up << 1 | 1;
            (more, less) = (down << 1 | !(same | up), up & same);
            before = here;
        }
        Some(slips)
    }
}

/// Insertions, losses, changes and swaps of neighbours from one word to the other, up to `most`.
fn distance<T: PartialEq>(a: &[T], b: &[T], most: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most || b.len() >= LONGEST {
        return None;
    }
    let far = most + 1;
    // The rows for the last three letters of `a`, each in the place of the one before them.
    let mut rows = [[far as u8; LONGEST]; 3];
    for (j, cell) in rows[0].iter_mut().enumerate().take(far.min(b.len() + 1)) {
        *cell = j as u8;
    }
    for i in 1..=a.len() {
        let (here, last, before) = (i % 3, (i + 2) % 3, (i + 1) % 3);
        // Cells further from the diagonal than that are too far in any case.
        let (first, end) = (i.saturating_sub(most).max(1), (i + most).min(b.len()));
        rows[here][first - 1] = if first == 1 { i.min(far) as u8 } else { far as u8 };
        let mut least = rows[here][first - 1];
        for j in first..=end {
            let change = rows[last][j - 1] + u8::from(a[i - 1] != b[j - 1]);
            let mut cell = change.min(rows[last][j] + 1).min(rows[here][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                cell = cell.min(rows[before][j - 2] + 1);
            }
            rows[here][j] = cell.min(far as u8);
            least = least.min(cell);
        }
        if end < b.len() {
            rows[here][end + 1] = far as u8;
        }
        if usize::from(least) > most {
            return None;
        }
    }
    let slips = usize::from(rows[a.len() % 3][b.len()]);
    (slips <= most).then_some(slips)
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
        assert_eq!((count("", "ab"), count("ab", ""), count("", "")), (Some(2), Some(2), Some(0)));
        assert_eq!(count("abcdef", "cdef"), Some(2));
        assert_eq!(count("abcdefgh", "bcdefghi"), Some(2));
        assert_eq!(count("xabcdefgh", "bcdefghi"), None);
    }

    #[test]
    fn slips_are_counted_alike_in_bits() {
        // All words of few letters, so that every way to differ is among them.
        let words: Vec<String> = (0..1000_u32)
            .map(|n| format!("{n:b}").replace('0', "a").replace('1', "b") + &n.to_string()[..1])
            .collect();
        let long = "abcdefgh".repeat(8);
        let texts = words.iter().step_by(7).map(String::as_str).chain([&*long, &long[1..], ""]);
        for a in texts.filter(|a| !a.is_empty()) {
            let bits = Bits::of(a).unwrap();
            for b in words.iter().map(String::as_str).chain([&*long, &long[2..], ""]) {
                let slips = bits.distance(b).filter(|&slips| slips <= 2);
                assert_eq!(slips, distance(a.as_bytes(), b.as_bytes(), 2), "{a} {b}");
            }
        }
        assert!(Bits::of("größe").is_none() && Bits::of(&"a".repeat(65)).is_none());
        assert_eq!(Bits::of("grosse").unwrap().distance("größe"), None);
    }
}
