//! The known word nearest to a mistyped one.
//!
//! Invariant: a word too far from all known ones has no nearest.
//! Deliberately absent: ranking; one suggestion is enough.

/// The word of `known` that is nearest to `word` by edits (insert, delete, replace, swap of
/// neighbours), if at most a third of its characters differ.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = word.to_lowercase();
    known
        .into_iter()
        .map(|k| (distance(&folded, &k.to_lowercase()), k))
        .min_by_key(|(d, _)| *d)
        .filter(|(d, k)| *d <= (k.chars().count().max(word.chars().count()) / 3).max(1))
        .map(|(_, k)| k)
}

fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        (before, above) = (above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["upstream", "listen", "stateDir", "serverName"];
        assert_eq!(nearest("upstraem", known), Some("upstream"));
        assert_eq!(nearest("statedir", known), Some("stateDir"));
        assert_eq!(nearest("lisen", known), Some("listen"));
        assert_eq!(nearest("banana", known), None);
        assert_eq!(nearest("x", []), None);
    }
}
