//! One record of a Codex transcript, as far as calls and results need it.
//!
//! Invariant: only `function_call` items are calls, and only their outputs and end events results,
//! whatever else in the file looks like one.
//! Deliberately absent: what was asked and what came back, but for the first words of an output,
//! which may be the client's own report of a failure.

use std::borrow::Cow;

use mws_event::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::end::{CallResult, Completed, Ended, Invocation};
use crate::lenient::{List, Object, Text, name_in, parse_ts};

/// How Codex begins an output that reports a failure.
const FAILURES: [&str; 7] = [
    "err: ",
    "tool call error",
    "tool call failed for ",
    "user rejected MCP tool call",
    "user cancelled MCP tool call",
    "aborted",
    "unsupported call",
];
/// Of an output, more is not looked at.
const HEAD: usize = 256;

/// A record.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Record<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    payload: Object<Payload<'a>>,
}

/// What matters of all kinds of payload.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Payload<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) namespace: Text<'a>,
    #[serde(borrow)]
    arguments: Text<'a>,
    #[serde(borrow)]
    pub(super) call_id: Text<'a>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) invocation: Object<Invocation<'a>>,
    #[serde(borrow)]
    pub(super) duration: Option<&'a RawValue>,
    pub(super) result: Object<CallResult>,
    #[serde(borrow)]
    item: Object<Completed<'a>>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    forked_from_id: Text<'a>,
    #[serde(borrow)]
    source: Object<Origin<'a>>,
    #[serde(borrow)]
    pub(super) cli_version: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Origin<'a> {
    #[serde(borrow)]
    subagent: Object<Subagent<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Subagent<'a> {
    #[serde(borrow)]
    thread_spawn: Object<Spawn<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spawn<'a> {
    #[serde(borrow)]
    parent_thread_id: Text<'a>,
}

/// What a record is.
#[derive(Debug)]
pub(super) enum Item<'a> {
    /// The head of a thread.
    Thread(&'a Payload<'a>),
    /// The model calls a tool.
    Call(&'a Payload<'a>),
    /// What the model was told about it.
    Output(&'a Payload<'a>),
    /// What came of it.
    End(Ended<'a>),
    /// Anything else.
    Other,
}

impl Record<'_> {
    /// What it is.
    pub(super) fn item(&self) -> Item<'_> {
        let Some(payload) = &self.payload.0 else { return Item::Other };
        match (self.kind.get(), payload.kind.get()) {
            (Some("session_meta"), _) => Item::Thread(payload),
            (Some("response_item"), Some("function_call")) => Item::Call(payload),
            (Some("response_item"), Some("function_call_output")) => Item::Output(payload),
            (Some("event_msg"), Some("mcp_tool_call_end")) => {
                Ended::of(payload).map_or(Item::Other, Item::End)
            }
            (Some("event_msg"), Some("item_completed")) => {
                let item = payload.item.0.as_ref();
                item.and_then(Completed::ended).map_or(Item::Other, Item::End)
            }
            _ => Item::Other,
        }
    }

    /// When it was written; a time without a zone is UTC.
    pub(super) fn ts(&self) -> Option<Timestamp> {
        parse_ts(self.timestamp.get()?)
    }

    /// True for what cannot be a mere part of another record.
    pub(super) fn is_complete(&self) -> bool {
        self.kind.get().is_some() && self.payload.0.is_some() && self.ts().is_some()
    }
}

impl Payload<'_> {
    /// The thread from which this one was split, and whether it is a sub-agent of it.
    pub(super) fn parent(&self) -> Option<(&str, bool)> {
        let subagent = self.source.0.as_ref().and_then(|source| source.subagent.0.as_ref());
        let spawn = subagent.and_then(|subagent| subagent.thread_spawn.0.as_ref());
        let spawned = spawn.and_then(|spawn| spawn.parent_thread_id.get());
        let forked = self.forked_from_id.get();
        spawned.map(|id| (id, true)).or_else(|| forked.map(|id| (id, false)))
    }

    /// `name` of the arguments: the tool that `call_tool` is to call.
    pub(super) fn inner_name(&self) -> Option<String> {
        name_in(self.arguments.get()?)
    }

    /// Whether the output reads as one of a success: a guess.
    pub(super) fn guess(&self) -> Option<bool> {
        let output = self.output?.get();
        let text = match output.as_bytes().first()? {
            b'[' => {
                #[derive(Default, Deserialize)]
                #[serde(default)]
                struct Part<'a> {
                    #[serde(borrow)]
                    text: Option<&'a RawValue>,
                }
                let parts: List<Part<'_>> = serde_json::from_str(output).unwrap_or_default();
                let texts = parts.0.iter().filter_map(|part| part.text).take(2);
                let texts: Vec<_> = texts
                    .map(|text| beginning(text.get().trim_end_matches('"')).into_owned())
                    .collect();
                texts.join("\\n").into()
            }
            b'"' => beginning(output),
            _ => return None,
        };
        // Later versions begin with the time it took.
        let text = match text.strip_prefix("Wall time: ") {
            Some(rest) => rest.split_once("Output:\\n").map_or("", |(_, rest)| rest),
            None => &text,
        };
        let text = text.trim_start();
        Some(!FAILURES.iter().any(|failure| text.starts_with(failure)))
    }
}

/// The first bytes of a JSON string, still escaped, which may be megabytes long.
fn beginning(json: &str) -> Cow<'_, str> {
    let text = json.get(1..).unwrap_or_default();
    Cow::Borrowed(&text[..text.floor_char_boundary(HEAD)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(fields: &str) -> Option<bool> {
        let json = format!(r#"{{"type":"event_msg","payload":{{{fields}}}}}"#);
        let record: Record<'_> = serde_json::from_str(&json).expect("read");
        record.payload.0.expect("a payload").guess()
    }

    #[test]
    fn only_the_clients_own_words_make_a_failure() {
        for (output, want) in [
            (r#""done""#, Some(true)),
            (r#""""#, Some(true)),
            (r#""see err: x""#, Some(true)),
            (r#""err: \"tool call error: x\"""#, Some(false)),
            (r#""tool call error: x""#, Some(false)),
            (r#""aborted by user after 2s""#, Some(false)),
            (r#""Wall time: 0.1 seconds\nOutput:\nerr: no""#, Some(false)),
            (r#""Wall time: 0.1 seconds\nOutput:\n[{}]""#, Some(true)),
            (r#"[{"type":"input_text","text":"user rejected MCP tool call"}]"#, Some(false)),
            (r#"[{"type":"input_text","text":"fine"}]"#, Some(true)),
            (r#"[{"text":"Wall time: 0.1 seconds\nOutput:"},{"text":"err: no"}]"#, Some(false)),
            (r#"[{"text":"Wall time: 0.1 seconds\nOutput:"},{"text":"fine"}]"#, Some(true)),
            (r#"[{"type":"input_image"}]"#, Some(true)),
            ("[]", Some(true)),
            ("3", None),
        ] {
            assert_eq!(guess(&format!(r#""output":{output}"#)), want, "{output}");
        }
        assert_eq!(guess(r#""x":1"#), None);
    }
}
