//! The levels of log messages, in their order.
//!
//! Invariant: a word that is no level is told apart from the lowest one.
//! Deliberately absent: the proxy's own log.

use mws_catalog::json;

use crate::rpc::Message;

/// All levels, the lowest first.
pub(crate) const WORDS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// One level; a greater one is more severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Severity(usize);

impl Severity {
    /// Reads a JSON string.
    pub(crate) fn parse(value: &str) -> Option<Self> {
        let word = json::string(value)?;
        WORDS.iter().position(|known| *known == word).map(Self)
    }

    /// The level of a `notifications/message`; an unknown one passes every filter.
    pub(crate) fn of_message(message: &Message<'_>) -> Self {
        let level = json::get(message.params(), "level").and_then(Self::parse);
        level.unwrap_or(Self(WORDS.len()))
    }

    pub(crate) fn word(self) -> &'static str {
        WORDS.get(self.0).copied().unwrap_or("emergency")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_other_words_are_none() {
        let level = |word: &str| Severity::parse(&format!("\"{word}\""));
        assert!(level("debug") < level("warning") && level("error") < level("emergency"));
        assert_eq!((level("loud"), Severity::parse("1")), (None, None));
        assert_eq!(level("notice").map(Severity::word), Some("notice"));
    }
}
