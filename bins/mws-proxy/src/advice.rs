//! A call through `call_tool` that the upstream refused for its arguments: the schema goes with the
//! refusal, so that the model can do better without another question.
//!
//! Invariant: every other answer passes byte for byte, and a large one unread.
//! Deliberately absent: judging arguments before they are sent. The upstream does that.

use std::sync::Arc;

use hyper::body::Body;
use hyper::header::CONTENT_LENGTH;
use mws_catalog::{Tool, json};

use crate::body::{self, Rewritten};
use crate::catalog::Tools;
use crate::edit::{Edits, quote, with};
use crate::fault::{Fault, FaultKind};
use crate::reply::{self, Reply};
use crate::rpc::{Message, Outcome};
use crate::sse;

/// A refusal is small; a larger answer is none.
const REFUSAL_MAX: usize = 64 * 1024;
/// How far a text is searched for the words below.
const HEAD: usize = 2048;
/// How the usual libraries begin a refusal of arguments.
const WORDS: [&str; 16] = [
    "-32602",
    "argument missing",
    "field required",
    "input validation",
    "invalid argument",
    "invalid input",
    "invalid param",
    "invalid_type",
    "is a required property",
    "missing argument",
    "missing param",
    "missing required",
    "unexpected argument",
    "unexpected keyword",
    "unrecognized_keys",
    "validation error",
];

/// What can be told of one call.
pub(crate) struct Advice {
    pub(crate) tools: Arc<Tools>,
    pub(crate) tool: String,
    /// The arguments that are sent, as JSON text.
    pub(crate) arguments: String,
}

impl Advice {
    /// The reply, with the schema in it when it refuses the arguments.
    pub(crate) async fn given_with(self, reply: Reply, id: &str) -> Reply {
        if reply::is_stream(reply.headers()) {
            let (parts, incoming) = reply.into_parts();
            let id = id.to_owned();
            let rewrite = move |event: Option<Vec<u8>>| {
                let event = event?;
                let text = sse::data(&event).filter(|text| sse::answers(text, &id));
                match text.and_then(|text| self.added_to(&text)) {
                    Some(text) => Some(sse::with_data(&event, &text)),
                    None => Some(event),
                }
            };
            return Reply::from_parts(parts, Rewritten::boxed(incoming, rewrite));
        }
        if reply.body().size_hint().lower() > REFUSAL_MAX as u64 || !reply::is_json(&reply) {
            return reply;
        }
        let (mut parts, incoming) = reply.into_parts();
        let whole = match body::at_most(incoming, REFUSAL_MAX).await {
            Ok(Ok(whole)) => whole,
            Ok(Err(longer)) => return Reply::from_parts(parts, longer),
            Err(_) => {
                let cut = Fault::new(FaultKind::Closed, "the upstream's answer was cut off");
                return reply::failed(Some(id), &cut);
            }
        };
        let text = std::str::from_utf8(&whole).unwrap_or_default();
        let Some(text) = self.added_to(text) else {
            return Reply::from_parts(parts, body::full(whole));
        };
        parts.headers.remove(CONTENT_LENGTH);
        Reply::from_parts(parts, body::full(text))
    }

    /// The response with the schema added; `None` when it is no refusal of arguments.
    fn added_to(&self, response: &str) -> Option<String> {
        let message = Message::parse(response.as_bytes()).ok()?;
        if message.error.is_none() && Outcome::of(&message) != Outcome::Failed {
            return None;
        }
        let schema = self.tools.catalog.get(&self.tool).and_then(Tool::input_schema)?;
        let hint = format!("Input schema of {}: {schema}", self.tool);
        let mut edits = Edits::of(response);
        if let Some(error) = message.error {
            let members = json::members(error)?;
            let text = json::get(&members, "message").and_then(json::string).unwrap_or_default();
            if json::get(&members, "code") != Some("-32602") && !has_words(&text) {
                return None;
            }
            edits.replace(error, with(error, &[("message", quote(&format!("{text}\n{hint}")))]));
            return Some(edits.apply());
        }
        let result = message.result?;
        let members = json::members(result)?;
        let content = json::get(&members, "content").unwrap_or("[]");
        let items = json::elements(content)?;
        if !items.iter().any(|item| says_so(item)) && fits(&self.arguments, schema) {
            return None;
        }
        let item = format!("{{\"type\":\"text\",\"text\":{}}}", quote(&hint));
        let comma = if items.is_empty() { "" } else { "," };
        let head = content.rfind(']').and_then(|end| content.get(..end))?;
        let content = format!("{head}{comma}{item}]");
        edits.replace(result, with(result, &[("content", content)]));
        Some(edits.apply())
    }
}

/// True for a content item whose text refuses arguments.
fn says_so(item: &str) -> bool {
    let members = json::members(item).unwrap_or_default();
    json::get(&members, "text").and_then(json::string).is_some_and(|text| has_words(&text))
}

fn has_words(text: &str) -> bool {
    let head = text[..text.floor_char_boundary(HEAD)].to_lowercase();
    WORDS.iter().any(|word| head.contains(word))
}

/// Whether the arguments keep to the top level of the schema: what is required is there, nothing is
/// of another type, nothing is unknown where that is ruled out.
fn fits(arguments: &str, schema: &str) -> bool {
    let (given, schema) =
        (json::members(arguments).unwrap_or_default(), json::members(schema).unwrap_or_default());
    let properties = json::get(&schema, "properties").and_then(json::members).unwrap_or_default();
    let required = json::get(&schema, "required").and_then(json::elements).unwrap_or_default();
    let closed = json::get(&schema, "additionalProperties") == Some("false");
    let mut names = required.iter().filter_map(|name| json::string(name));
    names.all(|name| json::get(&given, &name).is_some())
        && given.iter().all(|member| match json::get(&properties, &member.key) {
            Some(wanted) => is_of_type(member.value, wanted),
            None => !closed,
        })
}

fn is_of_type(value: &str, schema: &str) -> bool {
    let members = json::members(schema).unwrap_or_default();
    let Some(wanted) = json::get(&members, "type") else { return true };
    let wanted = json::elements(wanted).unwrap_or_else(|| vec![wanted]);
    let kinds: &[&str] = match value.as_bytes().first() {
        Some(b'"') => &["string"],
        Some(b'{') => &["object"],
        Some(b'[') => &["array"],
        Some(b't' | b'f') => &["boolean"],
        Some(b'n') => &["null"],
        _ => &["number", "integer"],
    };
    wanted.iter().filter_map(|kind| json::string(kind)).any(|kind| kinds.contains(&kind.as_ref()))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use mws_catalog::Catalog;

    use super::*;

    const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":["number","null"]},"s":{"type":"string"}},"required":["n"],"additionalProperties":false}"#;

    fn advice(arguments: &str) -> Advice {
        let list = format!(r#"{{"tools":[{{"name":"a","inputSchema":{SCHEMA}}}]}}"#);
        let (catalog, _) = Catalog::parse(list.as_bytes()).expect("a list");
        let tools = Arc::new(Tools::new(catalog, String::new()));
        Advice { tools, tool: "a".into(), arguments: arguments.into() }
    }

    #[test]
    fn a_refusal_gets_the_schema_once_and_anything_else_stays() {
        let good = r#"{"n":1}"#;
        let failed = |text: &str| {
            format!(
                r#"{{"id":1,"result":{{"isError":true, "content":[{{"type":"text","text":"{text}"}}]}}}}"#
            )
        };
        for (arguments, response, adds) in [
            (good, failed("MCP error -32602: Input validation error: bad"), true),
            (good, failed("1 Validation Error for call[a]"), true),
            (good, failed("the file is not there"), false),
            (r#"{"s":"x"}"#, failed("oops"), true),
            (r#"{"n":"1"}"#, failed("oops"), true),
            (r#"{"n":null,"other":1}"#, failed("oops"), true),
            (r#"{"n":null,"s":"x"}"#, failed("oops"), false),
            ("{}", r#"{"id":1,"result":{"isError":true}}"#.into(), true),
            ("{}", r#"{"id":1,"result":{"content":[ ],"n":1e2}}"#.into(), false),
            (good, r#"{"id":1,"error":{"code":-32602,"message":"no","data":1.0}}"#.into(), true),
            (good, r#"{"id":1,"error":{"code":-32000,"message":"down"}}"#.into(), false),
        ] {
            let added = advice(arguments).added_to(&response);
            assert_eq!(added.is_some(), adds, "{arguments} {response}");
            let quoted = quote(SCHEMA);
            let inner = &quoted[1..quoted.len() - 1];
            if let Some(added) = added {
                assert_eq!(added.matches(inner).count(), 1, "{added}");
                assert!(Message::parse(added.as_bytes()).is_ok(), "{added}");
            }
        }
    }

    #[tokio::test]
    async fn a_large_answer_and_a_good_one_pass_as_they_are() {
        let large =
            format!(r#"{{"id":1,"result":{{"isError":true,"x":"{}"}}}}"#, "y".repeat(70_000));
        for text in [large, r#"{"id":1,"result":{ "content":[]}}"#.to_owned()] {
            let reply = advice(r#"{"n":1}"#).given_with(reply::json(200, text.clone()), "1").await;
            let body = reply.into_body().collect().await.expect("a body").to_bytes();
            assert_eq!(body, text.as_bytes());
        }
    }
}
