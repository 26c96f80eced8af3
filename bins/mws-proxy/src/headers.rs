//! HTTP headers on their way: what is forwarded, and what mirrors the body.
//!
//! Invariant: a client's credentials, cookies and origin never reach the upstream; mirror headers
//! of an edited body are computed anew; of any other body those that came are kept, and only what
//! its client cannot know of is added.
//! Deliberately absent: header order.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use hyper::HeaderMap;
use hyper::header::{ACCEPT, AsHeaderName, CONTENT_TYPE, HeaderName, HeaderValue};
use mws_catalog::{Catalog, json};

use crate::rpc::Message;

pub(crate) const METHOD: &str = "mcp-method";
pub(crate) const NAME: &str = "mcp-name";
pub(crate) const PARAM: &str = "mcp-param-";
/// The key by which a schema asks for a header.
const ANNOTATION: &str = "x-mcp-header";
/// How deep in a schema it is looked for.
const DEPTH: usize = 32;

/// The header of the proxy's own requests by which it would know itself.
pub(crate) const INSTANCE: &str = "mws-instance";

/// A name for this process that no other has.
pub(crate) fn instance() -> &'static str {
    static INSTANCE: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    INSTANCE.get_or_init(|| format!("{:016x}", mws_state::random_u64()))
}

/// Headers that belong to one hop, and those that name or authorise the client.
const KEPT_BACK: [&str; 20] = [
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "origin",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",
    "x-forwarded-host",
];

/// Response headers that belong to one hop.
const HOP: [&str; 7] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The client's headers as the upstream gets them.
pub(crate) fn forwarded(client: &HeaderMap) -> HeaderMap {
    let fit = |name: &HeaderName| {
        let name = name.as_str();
        !KEPT_BACK.contains(&name) && !name.starts_with("sec-")
    };
    copy(client, fit)
}

/// The upstream's headers as the client gets them. No web page is let in here, whatever the
/// upstream would allow.
pub(crate) fn answered(upstream: &HeaderMap) -> HeaderMap {
    let fit = |name: &HeaderName| {
        let name = name.as_str();
        !HOP.contains(&name) && !name.starts_with("access-control-")
    };
    copy(upstream, fit)
}

/// The value of a header that is text.
pub(crate) fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Sets what every message that is posted has: it is JSON, and either kind of answer is read.
pub(crate) fn set_kinds(headers: &mut HeaderMap) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
}

fn copy(from: &HeaderMap, fit: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let mut to = HeaderMap::with_capacity(from.len());
    for (name, value) in from.iter().filter(|(name, _)| fit(name)) {
        to.append(name.clone(), value.clone());
    }
    to
}

/// Sets the headers that mirror a stateless message, in the place of those that came with it.
pub(crate) fn mirror(headers: &mut HeaderMap, message: &Message<'_>, tools: Option<&Catalog>) {
    for name in [METHOD, NAME] {
        headers.remove(name);
    }
    let method = message.method.as_deref().unwrap_or_default();
    set(headers, METHOD, method);
    let params = message.params();
    let key = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return,
    };
    let Some(name) = json::get(params, key).and_then(json::string) else { return };
    if method == "tools/call" {
        let schema =
            tools.and_then(|tools| tools.get(&name)).and_then(mws_catalog::Tool::input_schema);
        mirror_call(headers, &name, schema, json::get(params, "arguments"));
    } else {
        set(headers, NAME, &name);
    }
}

/// Sets `Mcp-Name` and `Mcp-Param-*` to what a call of `tool` with `arguments` needs.
pub(crate) fn mirror_call(
    headers: &mut HeaderMap,
    tool: &str,
    schema: Option<&str>,
    arguments: Option<&str>,
) {
    let old: Vec<_> = headers.keys().filter(|n| n.as_str().starts_with(PARAM)).cloned().collect();
    for name in old {
        headers.remove(name);
    }
    set(headers, NAME, tool);
    add_params(headers, schema, arguments);
}

/// Adds the `Mcp-Param-*` that a call with `arguments` needs and does not have.
pub(crate) fn add_params(headers: &mut HeaderMap, schema: Option<&str>, arguments: Option<&str>) {
    let mut path = Vec::new();
    let mut found = Vec::new();
    // Most schemas have none, and a call should not pay for reading them.
    annotations(schema.filter(|schema| schema.contains(ANNOTATION)), &mut path, &mut found);
    for (path, header) in found {
        let name = format!("{PARAM}{}", header.to_ascii_lowercase());
        if headers.contains_key(&name) {
            continue;
        }
        let value = path.iter().try_fold(arguments.unwrap_or("{}"), |object, key| {
            json::members(object).and_then(|members| json::get(&members, key))
        });
        if let Some(value) = value.and_then(primitive) {
            set(headers, &name, &value);
        }
    }
}

/// Sets a header to a value that may need the base64 form.
pub(crate) fn set(headers: &mut HeaderMap, name: &str, value: &str) {
    let name = HeaderName::from_bytes(name.as_bytes());
    let value = HeaderValue::from_str(&encoded(value));
    if let (Ok(name), Ok(value)) = (name, value) {
        headers.insert(name, value);
    }
}

/// Property paths annotated with `x-mcp-header`, along `properties` from the root.
fn annotations(
    schema: Option<&str>,
    path: &mut Vec<String>,
    found: &mut Vec<(Vec<String>, String)>,
) {
    // Each level is read anew: the time for a schema without end would have none either.
    let schema = schema.filter(|_| path.len() < DEPTH);
    let properties = schema
        .and_then(json::members)
        .and_then(|members| json::get(&members, "properties").and_then(json::members));
    for property in properties.unwrap_or_default() {
        path.push(property.key.into_owned());
        let members = json::members(property.value).unwrap_or_default();
        if let Some(header) = json::get(&members, ANNOTATION).and_then(json::string) {
            found.push((path.clone(), header.into_owned()));
        }
        annotations(Some(property.value), path, found);
        path.pop();
    }
}

/// A string, number or boolean as header text.
fn primitive(value: &str) -> Option<String> {
    match value.as_bytes().first()? {
        b'"' => json::string(value).map(std::borrow::Cow::into_owned),
        b'{' | b'[' | b'n' => None,
        _ => Some(value.to_owned()),
    }
}

/// `=?base64?…?=` for a value that would not survive as a bare header value.
fn encoded(value: &str) -> String {
    let edge = |c| matches!(c, ' ' | '\t');
    let odd = !value.chars().all(|c| (' '..='~').contains(&c))
        || value.starts_with(edge)
        || value.ends_with(edge)
        || (value.starts_with("=?base64?") && value.ends_with("?="));
    if odd { format!("=?base64?{}?=", STANDARD.encode(value)) } else { value.to_owned() }
}

/// The value of a mirror header, decoded.
pub(crate) fn decoded(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|v| v.strip_suffix("?=")) {
        Some(inner) => String::from_utf8(STANDARD.decode(inner).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn credentials_and_hop_headers_stay_here_and_trace_context_goes_on() {
        let client = map(&[
            ("authorization", "Bearer x"),
            ("cookie", "a=b"),
            ("origin", "http://127.0.0.1"),
            ("host", "h"),
            ("sec-fetch-site", "same-origin"),
            ("accept-encoding", "gzip"),
            ("traceparent", "00-1-2-03"),
            ("mcp-session-id", "s"),
            ("x-own", "1"),
        ]);
        let sent = forwarded(&client);
        let mut names: Vec<_> = sent.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["mcp-session-id", "traceparent", "x-own"]);
    }

    #[test]
    fn mirror_headers_follow_the_inner_tool() {
        let mut headers = map(&[("mcp-name", "call_tool"), ("mcp-param-old", "1")]);
        let schema = r#"{"properties":{"region":{"type":"string","x-mcp-header":"Region"},
            "o":{"properties":{"n":{"x-mcp-header":"Deep"}}},"none":{"x-mcp-header":"None"}}}"#;
        let arguments = r#"{"region":" Zürich","o":{"n":42},"none":null}"#;
        mirror_call(&mut headers, "run_query", Some(schema), Some(arguments));
        assert_eq!(headers["mcp-name"], "run_query");
        assert_eq!(headers["mcp-param-region"], "=?base64?IFrDvHJpY2g=?=");
        assert_eq!(headers["mcp-param-deep"], "42");
        assert_eq!(headers.len(), 3);
    }

    #[test]
    fn a_schema_of_any_depth_is_looked_into_as_far_as_sensible() {
        let nested = |depth: usize| {
            let (open, close) = (r#"{"properties":{"a":"#, "}}");
            let inner = r#"{"x-mcp-header":"Deep"}"#;
            format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
        };
        let found = |depth: usize| {
            let (mut path, mut found) = (Vec::new(), Vec::new());
            annotations(Some(&nested(depth)), &mut path, &mut found);
            found.len()
        };
        assert_eq!((found(DEPTH), found(DEPTH + 1), found(50_000)), (1, 0, 0));
    }

    #[test]
    fn encoded_values_decode_to_what_they_were() {
        for value in ["", "plain", " x", "x\t", "é", "=?base64?eA==?=", "a\nb", "日本語"] {
            assert_eq!(decoded(&encoded(value)).as_deref(), Some(value));
        }
        assert_eq!(decoded("=?base64?!?="), None);
    }
}
