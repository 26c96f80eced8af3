//! One record of a Claude Code transcript, as far as calls and results need it.
//!
//! Invariant: only `tool_use` blocks of assistant records are calls and only `tool_result` blocks
//! of user records are results, whatever else in the file looks like one.
//! Deliberately absent: what was asked and what came back; content stays unparsed.

use std::borrow::Cow;
use std::fmt;

use memchr::memmem;
use mws_event::Timestamp;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::lenient::{Flag, List, Object, Text, name_in, parse_ts};
use crate::sighting::Why;

/// A record.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Record<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) session_id: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    pub(super) version: Text<'a>,
    #[serde(borrow)]
    pub(super) agent_id: Text<'a>,
    #[serde(borrow)]
    forked_from: Fork<'a>,
    #[serde(borrow)]
    message: Object<Message<'a>>,
    #[serde(borrow, rename = "tool_result_meta")]
    result_meta: List<ResultMeta<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow)]
    content: List<Block<'a>>,
}

/// A block of a message's content.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_use_id: Text<'a>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    is_error: Flag,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResultMeta<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    non_execution_kind: Text<'a>,
}

impl Record<'_> {
    /// The content blocks that are calls.
    pub(super) fn calls(&self) -> impl Iterator<Item = &Block<'_>> {
        self.blocks("assistant", "tool_use")
    }

    /// The content blocks that are results.
    pub(super) fn results(&self) -> impl Iterator<Item = &Block<'_>> {
        self.blocks("user", "tool_result")
    }

    fn blocks(&self, of: &str, kind: &str) -> impl Iterator<Item = &Block<'_>> {
        let wanted = self.kind.get() == Some(of);
        let message = self.message.0.as_ref().filter(|_| wanted);
        let blocks = message.map(|m| m.content.0.as_slice()).unwrap_or_default();
        blocks.iter().filter(move |block| block.kind.get() == Some(kind))
    }

    /// When it was written; a time without a zone is UTC.
    pub(super) fn ts(&self) -> Option<Timestamp> {
        parse_ts(self.timestamp.get()?)
    }

    /// The session that this record was copied from.
    pub(super) fn forked_from(&self) -> Option<&str> {
        self.forked_from.0.as_deref().filter(|id| !id.is_empty())
    }

    /// True for what cannot be a mere part of another record.
    pub(super) fn is_complete(&self) -> bool {
        self.kind.get().is_some() && self.session_id.get().is_some() && self.ts().is_some()
    }

    /// Whether a result of this record is a success, and which sign says so.
    pub(super) fn outcome(&self, result: &Block<'_>) -> (bool, Why) {
        let id = result.tool_use_id.get();
        let skipped =
            |meta: &ResultMeta<'_>| meta.id.get() == id && meta.non_execution_kind.get().is_some();
        if self.result_meta.0.iter().any(skipped) {
            (false, Why::NotExecuted)
        } else if result.is_error.0 == Some(true) {
            (false, Why::IsError)
        } else if result.content.is_some_and(|content| is_error_envelope(content.get())) {
            (false, Why::ToolUseError)
        } else {
            (true, Why::Result)
        }
    }
}

impl Block<'_> {
    /// `name` of the input: the tool that `call_tool` is to call.
    pub(super) fn inner_name(&self) -> Option<String> {
        name_in(self.input?.get())
    }
}

/// The client's own `<tool_use_error>` at the start of a result, which may lack `is_error`.
fn is_error_envelope(content: &str) -> bool {
    match content.as_bytes().first() {
        Some(b'"') => begins_with_envelope(content),
        Some(b'[') if memmem::find(content.as_bytes(), b"tool_use_error").is_some() => {
            #[derive(Default, Deserialize)]
            #[serde(default)]
            struct Part<'a> {
                #[serde(borrow)]
                text: Option<&'a RawValue>,
            }
            let parts: List<Part<'_>> = serde_json::from_str(content).unwrap_or_default();
            let text = parts.0.first().and_then(|part| part.text);
            text.is_some_and(|text| begins_with_envelope(text.get()))
        }
        _ => false,
    }
}

/// Judges by the first bytes of a JSON string, which may be megabytes long.
fn begins_with_envelope(json: &str) -> bool {
    let head: String = json.chars().skip(1).take(128).collect();
    let head = head.replace("\\u003c", "<").replace("\\u003C", "<");
    let head = head.replace("\\u003e", ">").replace("\\u003E", ">");
    let head = head.trim_start_matches("\\n").trim_start();
    head.starts_with("<tool_use_error>")
}

/// `forkedFrom`: an object with `sessionId`, in older versions the id itself.
#[derive(Debug, Default)]
struct Fork<'a>(Option<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Fork<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(ForkVisitor)
    }
}

struct ForkVisitor;

impl<'de> Visitor<'de> for ForkVisitor {
    type Value = Fork<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }
    fn visit_borrowed_str<E>(self, id: &'de str) -> Result<Self::Value, E> {
        Ok(Fork(Some(Cow::Borrowed(id))))
    }
    fn visit_str<E>(self, id: &str) -> Result<Self::Value, E> {
        Ok(Fork(Some(Cow::Owned(id.to_owned()))))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fork = Fork(None);
        while let Some(Text(key)) = map.next_key()? {
            if key.as_deref() == Some("sessionId") {
                fork.0 = map.next_value::<Text<'de>>()?.0;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(fork)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Fork(None))
    }
    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Fork(None))
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Fork(None))
    }
    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Fork(None))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Fork(None))
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Fork(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(block: &str, extra: &str) -> (bool, Why) {
        let json = format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t",{block}}}]}}{extra}}}"#
        );
        let record: Record<'_> = serde_json::from_str(&json).expect("read");
        let result = record.results().next().expect("a result");
        record.outcome(result)
    }

    #[test]
    fn only_the_marks_of_the_client_make_a_failure() {
        for (block, want) in [
            (r#""content":"x""#, (true, Why::Result)),
            (r#""content":"Error: 404, is_error: true""#, (true, Why::Result)),
            (r#""content":"x","is_error":null"#, (true, Why::Result)),
            (r#""content":"x","is_error":"true""#, (true, Why::Result)),
            (r#""content":"x","is_error":true"#, (false, Why::IsError)),
            (r#""content":"<tool_use_error>no</tool_use_error>""#, (false, Why::ToolUseError)),
            (r#""content":"\u003ctool_use_error>no""#, (false, Why::ToolUseError)),
            (
                r#""content":[{"type":"text","text":"<tool_use_error>no"}]"#,
                (false, Why::ToolUseError),
            ),
            (r#""content":"see <tool_use_error>""#, (true, Why::Result)),
            (r#""content":[{"text":"a"},{"text":"<tool_use_error>"}]"#, (true, Why::Result)),
        ] {
            assert_eq!(outcome(block, ""), want, "{block}");
        }
        let meta = r#","tool_result_meta":[{"id":"t","non_execution_kind":"user-rejected"}]"#;
        assert_eq!(outcome(r#""content":"x""#, meta), (false, Why::NotExecuted));
        let other = r#","tool_result_meta":[{"id":"u","non_execution_kind":"cancelled"}]"#;
        assert_eq!(outcome(r#""content":"x""#, other), (true, Why::Result));
    }

    #[test]
    fn both_forms_of_a_fork_mark_are_read() {
        for (mark, want) in [
            (r#"{"sessionId":"s","messageUuid":"m"}"#, Some("s")),
            (r#""s""#, Some("s")),
            ("null", None),
            ("[1]", None),
            (r#"{"x":{}}"#, None),
        ] {
            let json = format!(r#"{{"forkedFrom":{mark}}}"#);
            let record: Record<'_> = serde_json::from_str(&json).expect("read");
            assert_eq!(record.forked_from(), want, "{mark}");
        }
    }
}
