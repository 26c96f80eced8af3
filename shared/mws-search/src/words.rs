//! Text to words: splitting, stemming, stop words.
//!
//! Invariant: tools and queries pass through the same functions, so equal text gives equal words.
//! Deliberately absent: language detection. Scripts without spaces become pairs of characters.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

pub(crate) use crate::fold::fold;
use crate::fold::{is_plain, normal};
use crate::hash::{Map, Set};

/// Longer runs are hashes and encoded data, not words.
const LONGEST: usize = 40;

/// Words that say nothing about which tool is meant.
const STOP: &str = " a about all also am an and any are as at be been being but by can could do does \
    doing don each else for from had has have having he her here hey hi him his how i if in into is it \
    its just kindly let ll like ll may me mcp might must my need needed needs of off ok on onto or our \
    out over own per please re shall she should so some such than thank thanks that the their them then \
    there these they this those through to tool tools too up upon us using ve via want wanted wants was \
    way we were what whatever when where whether which while who whom whose why will with within would \
    you your ";

/// Whether a lower-case word carries no meaning of its own in a query.
pub(crate) fn is_stop(word: &str) -> bool {
    static WORDS: LazyLock<Set<&str>> = LazyLock::new(|| stops().collect());
    WORDS.contains(word)
}

/// Whether a word is a pair of characters of a script without spaces.
pub(crate) fn is_pair(word: &str) -> bool {
    word.chars().all(|c| Class::of(c) == Class::Dense)
}

/// The words that [`is_stop`] knows.
pub(crate) fn stops() -> impl Iterator<Item = &'static str> {
    STOP.split_whitespace()
}

/// Splits at everything that is neither letter nor digit and at changes of case, and calls
/// `see(word, whole)` for every word, which is folded.
///
/// With `wholes`, a word that case splits is given whole as well, before its parts: prose writes
/// `GitHub` where a query says `github`.
pub(crate) fn each(text: &str, wholes: bool, see: &mut impl FnMut(&str, bool)) {
    if let Some(text) = plain_marks(text) {
        return each_ascii(&text, wholes, see);
    }
    let text = normal(text);
    let (mut letters, mut buffer) = (Vec::new(), String::new());
    let mut rest = &*text;
    while let Some(first) = rest.chars().next() {
        let class = Class::of(first);
        let (run, after) =
            rest.split_at(rest.find(|c| Class::of(c) != class).unwrap_or(rest.len()));
        rest = after;
        match class {
            Class::Other => {}
            Class::Dense => pairs(run, see),
            Class::Word => {
                rest = after.get(tail(after)..).unwrap_or_default();
                if run.is_ascii() {
                    ascii_word(run, wholes, see);
                    continue;
                }
                letters.clear();
                letters.extend(run.chars());
                cased(&letters, wholes, &mut |letters, whole| {
                    if letters.len() <= LONGEST {
                        lower_into(letters, &mut buffer);
                        see(&buffer, whole);
                    }
                });
            }
        }
    }
}

/// The text in ASCII, where all that keeps it from that are marks between words.
fn plain_marks(text: &str) -> Option<Cow<'_, str>> {
    if text.is_ascii() {
        return Some(Cow::Borrowed(text));
    }
    let plain = |c: char| match c {
        '\u{2019}' => Some('\''),
        '\u{2010}'..='\u{2027}' | '\u{2190}'..='\u{21ff}' | '\u{2500}'..='\u{2775}' => Some(' '),
        _ => c.is_ascii().then_some(c),
    };
    text.chars().map(plain).collect::<Option<String>>().map(Cow::Owned)
}

/// [`each`] for text that is all ASCII; most catalogs have no other.
fn each_ascii(text: &str, wholes: bool, see: &mut impl FnMut(&str, bool)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(start) = bytes.iter().skip(at).position(u8::is_ascii_alphanumeric) {
        let start = at + start;
        let rest = bytes.get(start..).unwrap_or_default();
        let length = rest.iter().position(|b| !b.is_ascii_alphanumeric()).unwrap_or(rest.len());
        ascii_word(text.get(start..start + length).unwrap_or_default(), wholes, see);
        at = start + length + ascii_tail(rest.get(length..).unwrap_or_default());
    }
}

/// The words of a run of ASCII letters and digits.
fn ascii_word(run: &str, wholes: bool, see: &mut impl FnMut(&str, bool)) {
    let word = run.as_bytes();
    let mut tell = |from: usize, to: usize, whole: bool| {
        lower(run.get(from..to).unwrap_or_default(), whole, see);
    };
    if !word.iter().skip(1).any(u8::is_ascii_uppercase) {
        return tell(0, word.len(), false);
    }
    let cuts = || (1..word.len()).filter(|&i| is_ascii_cut(word, i));
    if wholes && cuts().next().is_some() {
        tell(0, word.len(), true);
    }
    let mut from = 0;
    for cut in cuts().chain([word.len()]) {
        tell(from, cut, false);
        from = cut;
    }
}

fn lower(word: &str, whole: bool, see: &mut impl FnMut(&str, bool)) {
    if word.len() > LONGEST {
        return;
    }
    if !word.bytes().any(|b| b.is_ascii_uppercase()) {
        return see(word, whole);
    }
    let mut buffer = [0; LONGEST];
    if let Some(buffer) = buffer.get_mut(..word.len()) {
        buffer.copy_from_slice(word.as_bytes());
        buffer.make_ascii_lowercase();
        see(std::str::from_utf8(buffer).unwrap_or_default(), whole);
    }
}

/// As [`is_cut`].
fn is_ascii_cut(word: &[u8], i: usize) -> bool {
    let at = |i: usize| word.get(i).copied().unwrap_or(b' ');
    if !at(i).is_ascii_uppercase() {
        return false;
    }
    if at(i - 1).is_ascii_uppercase() || at(i - 1).is_ascii_digit() {
        let plural = at(i + 1) == b's' && !at(i + 2).is_ascii_lowercase();
        return at(i + 1).is_ascii_lowercase() && !plural;
    }
    true
}

/// As [`tail`].
fn ascii_tail(after: &[u8]) -> usize {
    let Some((b'\'', rest)) = after.split_first() else { return 0 };
    let tail = rest.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    if tail > 0 && tail <= 2 { 1 + tail } else { 0 }
}

/// The words of a text that are no wholes: what a name is made of.
pub(crate) fn plain(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    each(text, false, &mut |word, _| words.push(word.to_owned()));
    words
}

/// Stems kept at hand for each thread: catalogs repeat their words.
const MOST_KNOWN: usize = 1 << 15;

thread_local! {
    static KNOWN: RefCell<Map<String, String>> = RefCell::default();
}

/// The stem under which a word is indexed.
pub(crate) fn stem(word: &str) -> Cow<'_, str> {
    let alphabetic = word.bytes().all(|b| b.is_ascii_lowercase());
    if word.len() < 4 || !alphabetic {
        return Cow::Borrowed(word);
    }
    KNOWN.with_borrow_mut(|known| {
        if let Some(stem) = known.get(word) {
            return Cow::Owned(stem.clone());
        }
        let stem = Stemmer::create(Algorithm::English).stem(word).into_owned();
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(word.to_owned(), stem.clone());
        Cow::Owned(stem)
    })
}

/// The letters of a word like `python3` or `base64`.
pub(crate) fn letters(word: &str) -> Option<&str> {
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    (letters.len() < word.len() && letters.len() > 2).then_some(letters)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Other,
    Word,
    /// A script written without spaces.
    Dense,
}

impl Class {
    fn of(c: char) -> Self {
        if c.is_ascii() {
            return if c.is_ascii_alphanumeric() { Self::Word } else { Self::Other };
        }
        let dense = matches!(c as u32,
            0xE00..=0xEFF | 0x1780..=0x17FF | 0x3040..=0x30FF | 0x3400..=0x9FFF | 0xAC00..=0xD7AF
            | 0xF900..=0xFAFF | 0x20000..=0x3FFFF);
        if dense {
            return Self::Dense;
        }
        if c.is_alphanumeric() { Self::Word } else { Self::Other }
    }
}

fn lower_into(chars: &[char], text: &mut String) {
    text.clear();
    for &c in chars {
        match is_plain(c) {
            true => text.push(c.to_ascii_lowercase()),
            false => text.extend(c.to_lowercase()),
        }
    }
}

/// Scripts written without spaces have no case.
fn pairs(run: &str, see: &mut impl FnMut(&str, bool)) {
    let second = run.chars().next().map_or(0, char::len_utf8);
    if second == run.len() {
        return see(run, false);
    }
    let ends = run.char_indices().skip(1).map(|(at, c)| at + c.len_utf8());
    for ((start, _), end) in run.char_indices().zip(ends) {
        see(run.get(start..end).unwrap_or_default(), false);
    }
}

fn cased(chars: &[char], wholes: bool, tell: &mut impl FnMut(&[char], bool)) {
    let cuts = || (1..chars.len()).filter(|&i| is_cut(chars, i));
    if wholes && cuts().next().is_some() {
        tell(chars, true);
    }
    let mut start = 0;
    for cut in cuts().chain([chars.len()]) {
        tell(&chars[start..cut], false);
        start = cut;
    }
}

/// Whether a new word begins at `i`: `getItem`, `HTTPServer`, `S3Bucket`; not in `URLs`.
fn is_cut(chars: &[char], i: usize) -> bool {
    let (before, here) = (chars[i - 1], chars[i]);
    if !here.is_uppercase() {
        return false;
    }
    let next_lower = chars.get(i + 1).is_some_and(|c| c.is_lowercase());
    if before.is_uppercase() || before.is_numeric() {
        let plural =
            chars.get(i + 1) == Some(&'s') && chars.get(i + 2).is_none_or(|c| !c.is_lowercase());
        return next_lower && !plural;
    }
    true
}

/// How many bytes the rest of `user's` and `don't` takes.
fn tail(after: &str) -> usize {
    let Some(rest) = after.strip_prefix(['\'', '\u{2019}']) else { return 0 };
    let letters = || rest.chars().take_while(|c| c.is_alphabetic());
    match letters().take(3).count() {
        1 | 2 => after.len() - rest.len() + letters().map(char::len_utf8).sum::<usize>(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_at_marks_and_case() {
        for (name, words) in [
            ("mail_list-labels.v2/x", "mail list labels v2 x"),
            ("getHTTPServerURLs", "get http server urls"),
            ("S3BucketList", "s3 bucket list"),
            ("npmVersions", "npm versions"),
            ("Create3DModel", "create3d model"),
            ("Café_ÜBER ﬁle", "cafe uber file"),
            ("user's don't o'clock", "user don o clock"),
            ("查询火车票", "查询 询火 火车 车票"),
            ("票 get天气x", "票 get 天气 x"),
            ("（ＡＰＩ）：查票、ＧitＨub's x’天 y'天气z", "api 查票 git hub x y 天气 z"),
        ] {
            assert_eq!(plain(name).join(" "), words);
        }
    }

    #[test]
    fn scripts_without_spaces_have_no_case() {
        for c in ('\0'..=char::MAX).filter(|&c| Class::of(c) == Class::Dense) {
            assert!(c.to_lowercase().eq([c]), "{c:?}");
        }
    }

    #[test]
    fn ascii_text_is_split_like_any_other() {
        for text in
            ["getHTTPServerURLs of user's Don't S3Bucket", "x—y’s … “GitHub” IDs9Ab o'clock"]
        {
            let mut slow = Vec::new();
            // A letter that is not ASCII sends the text the other way.
            each(&format!("{text} é"), true, &mut |word, whole| {
                slow.push((word.to_owned(), whole));
            });
            slow.pop();
            let mut fast = Vec::new();
            each(text, true, &mut |word, whole| fast.push((word.to_owned(), whole)));
            assert_eq!(fast, slow);
        }
    }

    #[test]
    fn prose_keeps_wholes() {
        let mut words = Vec::new();
        each("On GitHub", true, &mut |word, whole| words.push((word.to_owned(), whole)));
        let want = [("on", false), ("github", true), ("git", false), ("hub", false)];
        assert_eq!(words, want.map(|(text, whole)| (text.to_owned(), whole)));
    }

    #[test]
    fn stems_join_forms() {
        assert_eq!(stem("committing"), stem("commits"));
        assert_eq!(
            (stem("pdf"), stem("base64"), stem("naïve")),
            ("pdf".into(), "base64".into(), "naïve".into())
        );
        assert_eq!(
            (letters("python3"), letters("s3"), letters("git")),
            (Some("python"), None, None)
        );
    }

    #[test]
    fn stop_words_are_whole_words() {
        assert!(
            is_stop("please") && !is_stop("plea") && !is_stop("tool tools") && !is_stop("list")
        );
    }
}
