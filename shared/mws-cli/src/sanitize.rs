//! Text from elsewhere, made safe for a terminal.
//!
//! Invariant: no control, escape, bidirectional or invisible tag character gets through.
//! Deliberately absent: JSON output, where the encoder escapes.

use std::borrow::Cow;
use std::fmt::Write;

/// `text` with dangerous characters written as `\u{…}`.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_dangerous) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_dangerous(c) {
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{061c}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_invisible_characters_are_shown_not_obeyed() {
        assert_eq!(sanitize("mail_sénd 日本"), "mail_sénd 日本");
        assert_eq!(sanitize("a\x1b[31mb\n"), "a\\u{1b}[31mb\\u{a}");
        assert_eq!(sanitize("\u{202e}x\u{e0041}"), "\\u{202e}x\\u{e0041}");
    }
}
