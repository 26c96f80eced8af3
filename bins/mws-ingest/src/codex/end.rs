//! What the end events of Codex transcripts say: what was called, and how that ended.
//!
//! Invariant: both forms in which versions write it read as the same.
//! Deliberately absent: what came back; content stays unparsed.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::line::Payload;
use crate::lenient::{Flag, Object, Text, name_in};
use crate::sighting::Why;

/// What was called.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Invocation<'a> {
    #[serde(borrow)]
    server: Text<'a>,
    #[serde(borrow)]
    tool: Text<'a>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// The end of a call as versions from 0.171 on write it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Completed<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    server: Text<'a>,
    #[serde(borrow)]
    tool: Text<'a>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Text<'a>,
    result: Object<CallResult>,
    #[serde(borrow)]
    duration: Option<&'a RawValue>,
}

/// What an end event says.
#[derive(Debug)]
pub(super) struct Ended<'a> {
    pub(super) id: &'a str,
    pub(super) server: &'a str,
    pub(super) tool: &'a str,
    arguments: Option<&'a RawValue>,
    /// Whether it was a success, and which sign says so.
    pub(super) outcome: (bool, Why),
    /// How long it took, in milliseconds.
    pub(super) ms: Option<u64>,
}

/// What came of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallResult {
    #[serde(rename = "Ok")]
    ok: Object<Answer>,
    #[serde(rename = "Err")]
    err: Option<IgnoredAny>,
    /// The answer itself, where it is not wrapped.
    #[serde(rename = "isError")]
    is_error: Flag,
    #[serde(rename = "is_error")]
    was_error: Flag,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    #[serde(rename = "isError")]
    is_error: Flag,
    #[serde(rename = "is_error")]
    was_error: Flag,
}

impl CallResult {
    fn outcome(&self) -> Option<(bool, Why)> {
        if self.err.is_some() {
            return Some((false, Why::Err));
        }
        let flags = match &self.ok.0 {
            Some(answer) => [answer.is_error.0, answer.was_error.0],
            None => [self.is_error.0, self.was_error.0],
        };
        let failed = flags.contains(&Some(true));
        if self.ok.0.is_none() && flags == [None, None] {
            return None;
        }
        Some(if failed { (false, Why::IsError) } else { (true, Why::Result) })
    }
}

impl Completed<'_> {
    /// Of the end of a call; other items are none.
    pub(super) fn ended(&self) -> Option<Ended<'_>> {
        self.kind.get().filter(|kind| *kind == "McpToolCall")?;
        let told = self.result.0.as_ref().and_then(CallResult::outcome);
        let outcome = match self.status.get()? {
            "completed" => told.unwrap_or((true, Why::Result)),
            "failed" => told.filter(|(ok, _)| !ok).unwrap_or((false, Why::Err)),
            _ => return None,
        };
        Some(Ended {
            id: self.id.get()?,
            server: self.server.get()?,
            tool: self.tool.get()?,
            arguments: self.arguments,
            outcome,
            ms: self.duration.and_then(ms),
        })
    }
}

impl<'a> Ended<'a> {
    /// Of the end event of older versions.
    pub(super) fn of(payload: &'a Payload<'_>) -> Option<Self> {
        let invocation = payload.invocation.0.as_ref()?;
        Some(Self {
            id: payload.call_id.get()?,
            server: invocation.server.get()?,
            tool: invocation.tool.get()?,
            arguments: invocation.arguments,
            outcome: payload.result.0.as_ref()?.outcome()?,
            ms: payload.duration.and_then(ms),
        })
    }

    /// `name` of the arguments: the tool that `call_tool` is to call.
    pub(super) fn inner_name(&self) -> Option<String> {
        let arguments = self.arguments?.get();
        match serde_json::from_str::<String>(arguments) {
            Ok(text) => name_in(&text),
            Err(_) => name_in(arguments),
        }
    }
}

fn ms(duration: &RawValue) -> Option<u64> {
    #[derive(Deserialize)]
    struct Duration {
        secs: u64,
        #[serde(default)]
        nanos: u64,
    }
    let duration: Duration = serde_json::from_str(duration.get()).ok()?;
    duration.secs.checked_mul(1000)?.checked_add(duration.nanos / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::super::line::{Item, Record};
    use super::*;

    /// Outcome and duration of an end event with `fields`, in its older or its newer form.
    fn ended(fields: &str, is_new: bool) -> Option<((bool, Why), Option<u64>)> {
        let payload = if is_new {
            let of = r#""type":"McpToolCall","id":"c","server":"s","tool":"t""#;
            format!(r#"{{"type":"item_completed","item":{{{of},{fields}}}}}"#)
        } else {
            let of = r#""call_id":"c","invocation":{"server":"s","tool":"t"}"#;
            format!(r#"{{"type":"mcp_tool_call_end",{of},{fields}}}"#)
        };
        let json = format!(r#"{{"type":"event_msg","payload":{payload}}}"#);
        let record: Record<'_> = serde_json::from_str(&json).expect("read");
        let Item::End(end) = record.item() else { return None };
        assert_eq!((end.id, end.server, end.tool), ("c", "s", "t"));
        Some((end.outcome, end.ms))
    }

    #[test]
    fn end_events_are_read_in_all_their_forms() {
        for (result, want) in [
            (r#"{"Ok":{"content":[],"isError":false}}"#, Some((true, Why::Result))),
            (r#"{"Ok":{"content":[]}}"#, Some((true, Why::Result))),
            (r#"{"Ok":{"isError":true}}"#, Some((false, Why::IsError))),
            (r#"{"Ok":{"is_error":true}}"#, Some((false, Why::IsError))),
            (r#"{"Err":"timed out"}"#, Some((false, Why::Err))),
            (r#"{"content":[],"is_error":true}"#, Some((false, Why::IsError))),
            (r#"{"content":[],"isError":false}"#, Some((true, Why::Result))),
            ("{}", None),
            (r#""Ok""#, None),
        ] {
            let found = ended(&format!(r#""result":{result}"#), false);
            assert_eq!(found.map(|(outcome, _)| outcome), want, "{result}");
        }
        let timed =
            |duration| ended(&format!(r#""result":{{"Err":""}},"duration":{duration}"#), false);
        let ms = |duration| timed(duration).and_then(|(_, ms)| ms);
        assert_eq!(ms(r#"{"secs":2,"nanos":999999999}"#), Some(2999));
        assert_eq!(ms(r#""2s""#), None);
    }

    #[test]
    fn completed_items_are_end_events_when_they_are_calls_of_tools() {
        for (fields, want) in [
            (
                r#""status":"completed","result":{"content":[],"isError":false}"#,
                Some((true, Why::Result)),
            ),
            (r#""status":"completed","result":{"content":[]}"#, Some((true, Why::Result))),
            (r#""status":"failed","result":{"isError":true}"#, Some((false, Why::IsError))),
            (r#""status":"failed","result":null,"error":{"message":"x"}"#, Some((false, Why::Err))),
            (r#""status":"in_progress""#, None),
        ] {
            let found = ended(fields, true).map(|(outcome, _)| outcome);
            assert_eq!(found, want, "{fields}");
        }
    }
}
