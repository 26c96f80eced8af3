//! Text without what writers differ in: case, accents, compatibility forms.
//!
//! Invariant: text that is equal but for these becomes equal. Deliberately absent: transcription from
//! one script to another.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Lower case, without accents and compatibility forms.
pub(crate) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let normal = normal(text);
    match normal.chars().all(is_plain) {
        true => normal.to_ascii_lowercase(),
        false => normal.to_lowercase(),
    }
}

/// The normal form of a character that keeps it whatever stands beside it, and that has no case
/// unless it is ASCII: those that make up most text, Chinese with its marks too.
fn plain_form(c: char) -> Option<char> {
    match c {
        '\0'..='\x7f'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{3001}'..='\u{3003}'
        | '\u{3008}'..='\u{3011}' => Some(c),
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0),
        _ => None,
    }
}

pub(crate) fn is_plain(c: char) -> bool {
    plain_form(c) == Some(c)
}

/// The text without accents and compatibility forms.
pub(crate) fn normal(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut normal = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(plain) = plain_form(c) {
            normal.push(plain);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            continue;
        }
        let end = rest.find(|c| plain_form(c).is_some()).unwrap_or(rest.len());
        let (others, next) = rest.split_at(end);
        normal.extend(others.nfkd().filter(|&c| !is_combining_mark(c)).nfc());
        rest = next;
    }
    Cow::Owned(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_characters_are_what_they_are_said_to_be() {
        for c in '\0'..=char::MAX {
            let normal = || c.nfkd().filter(|&c| !is_combining_mark(c)).nfc();
            if let Some(plain) = plain_form(c) {
                assert!(normal().eq([plain]) && normal().nfkd().eq([plain]), "{c:?}");
                assert!(plain.is_ascii() || plain.to_lowercase().eq([plain]), "{c:?}");
            }
        }
    }

    #[test]
    fn text_is_folded_whatever_stands_beside_what() {
        for (text, folded) in [
            ("Café_ÜBER ﬁle", "cafe_uber file"),
            ("ＡＰＩ（查询）", "api(查询)"),
            ("\u{1100}\u{1161}Ａ\u{301}\u{11a8}", "\u{ac00}a\u{11a8}"),
            ("İ。Σ", "i。σ"),
        ] {
            assert_eq!(fold(text), folded);
        }
    }
}
