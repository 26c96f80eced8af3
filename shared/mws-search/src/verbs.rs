//! Classes of verbs: what a tool does to things.
//!
//! Invariant: a class is one bit. Deliberately absent: finer meaning; near-twins such as `get_issue`
//! and `delete_issue` are what this tells apart.

use crate::hash::Map;
use std::sync::LazyLock;

use crate::words;

const CLASSES: [&str; 10] = [
    " get read fetch retrieve show view display open describe load see check tell inspect ",
    " list ls enumerate browse show all ",
    " search find lookup query locate discover filter look ",
    " create add new make insert generate write register compose draft build ",
    " update edit modify change set rename patch replace adjust write ",
    " delete remove clear drop erase purge destroy uninstall unlink clean rm discard ",
    " send post publish submit reply forward share email message ",
    " run execute start launch trigger invoke call perform ",
    " stop cancel kill abort terminate pause end close disable ",
    " convert transform translate export encode decode format ",
];

/// The class of tools that destroy.
pub(crate) const DELETE: u16 = 1 << 5;

static CLASS_OF: LazyLock<Map<String, u16>> = LazyLock::new(|| {
    let mut words: Map<String, u16> = Map::default();
    for (bit, class) in CLASSES.iter().enumerate() {
        for word in class.split_whitespace() {
            *words.entry(word.to_owned()).or_default() |= 1 << bit;
            let stem = words::stem(word);
            if stem != word {
                *words.entry(stem.into_owned()).or_default() |= 1 << bit;
            }
        }
    }
    words
});

/// All words that have a class, with their classes.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, u16)> {
    CLASS_OF.iter().map(|(word, &classes)| (word.as_str(), classes))
}

/// The classes of one word in lower case, or of its stem.
fn of_word(word: &str) -> u16 {
    CLASS_OF.get(word).copied().unwrap_or(0)
}

/// The classes of the first verb in a name.
pub(crate) fn of_name(name: &str) -> u16 {
    let mut classes = 0;
    words::each(name, false, &mut |word, _| {
        if classes == 0 {
            classes = of_word(word);
        }
    });
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_verb_counts() {
        assert_eq!(of_name("issue_removeList"), DELETE);
        assert_eq!(of_word("show"), 0b11);
        assert_eq!(of_word(&words::stem("deleting")), DELETE);
        assert_eq!(of_word("issue"), 0);
    }
}
