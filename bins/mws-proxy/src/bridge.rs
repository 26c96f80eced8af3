//! A stateless client in front of an upstream that speaks sessions.
//!
//! Invariant: a request is answered or refused, never left open; result bytes stay the upstream's
//! except for the members that the stateless protocol adds.
//! Deliberately absent: what is kept between requests; see [`crate::crossing`].

use mws_catalog::json;

use crate::control::SESSION_VERSION;
use crate::edit::{Edits, Object, quote, with};
use crate::rpc::{
    self, META_CAPABILITIES, META_CLIENT, META_LOG_LEVEL, META_VERSION, MODERN, Message,
};

/// The protocol versions that the front answers to.
pub(crate) const VERSIONS: [&str; 4] = [MODERN, SESSION_VERSION, "2025-06-18", "2025-03-26"];
/// The error for a resource that does not exist, in the session protocol.
const NOT_FOUND: &str = "-32002";
pub(crate) const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// Methods that carry a cache hint in the stateless protocol.
const CACHED: [&str; 6] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// True for a method that the stateless protocol does not have.
pub(crate) fn is_refused(method: &str) -> bool {
    matches!(method, "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe")
        || method.starts_with("tasks/")
}

/// The request as a session upstream takes it: without what marks it as stateless.
pub(crate) fn to_session(message: &Message<'_>) -> String {
    let Some(params_text) = message.params else { return message.text.to_owned() };
    let mut params = Object::of(Some(params_text));
    let meta_text = params.get("_meta").map(str::to_owned);
    let mut meta = Object::of(meta_text.as_deref());
    for key in [META_VERSION, META_CLIENT, META_CAPABILITIES, META_LOG_LEVEL] {
        meta.remove(key);
    }
    if meta.is_empty() {
        params.remove("_meta");
    } else {
        params.set("_meta", meta.to_json());
    }
    let mut edits = Edits::of(message.text);
    edits.replace(params_text, params.to_json());
    edits.apply()
}

/// The request as it was before the client answered anything.
pub(crate) fn without_answers(message: &Message<'_>) -> String {
    let mut params = Object::of(message.params);
    params.remove("requestState");
    params.remove("inputResponses");
    let mut edits = Edits::of(message.text);
    if let Some(old) = message.params {
        edits.replace(old, params.to_json());
    }
    edits.apply()
}

/// The response as a stateless client takes it.
pub(crate) fn to_modern(text: &str, method: &str) -> String {
    let Ok(message) = Message::parse(text.as_bytes()) else { return text.to_owned() };
    let members = message.error.and_then(json::members).unwrap_or_default();
    if let Some(code) = json::get(&members, "code").filter(|code| code.trim() == NOT_FOUND) {
        // A resource that does not exist is an invalid parameter in the stateless protocol.
        let mut edits = Edits::of(text);
        edits.replace(code, rpc::INVALID_PARAMS.to_string());
        return edits.apply();
    }
    let Some(result_text) = message.result else { return text.to_owned() };
    let mut result = Object::of(Some(result_text));
    complete(&mut result, method);
    let mut edits = Edits::of(text);
    edits.replace(result_text, result.to_json());
    edits.apply()
}

/// Adds what each stateless result must have.
pub(crate) fn complete(result: &mut Object<'_>, method: &str) {
    result.set_default("resultType", "\"complete\"");
    if CACHED.contains(&method) {
        result.set_default("ttlMs", "0");
        result.set_default("cacheScope", "\"private\"");
    }
}

/// A `server/discover` result made of an `initialize` result.
pub(crate) fn discover_result(initialize: &str) -> String {
    let initialize = Object::of(Some(initialize));
    let mut capabilities = Object::of(initialize.get("capabilities"));
    // Tasks of the session protocol are another protocol than those of the stateless one.
    capabilities.remove("tasks");
    let mut meta = Object::of(initialize.get("_meta"));
    if let Some(server) = initialize.get("serverInfo") {
        meta.set(META_SERVER, server.to_owned());
    }
    let mut result = Object::of(None);
    result.set("supportedVersions", format!("[{}]", VERSIONS.map(quote).join(",")));
    result.set("capabilities", capabilities.to_json());
    if let Some(instructions) = initialize.get("instructions") {
        result.set("instructions", instructions.to_owned());
    }
    result.set("_meta", meta.to_json());
    complete(&mut result, "server/discover");
    let result = result.to_json();
    with_tools(&result).unwrap_or(result)
}

/// An `initialize` result for an upstream that has never been seen.
pub(crate) fn unknown_server() -> String {
    let version = quote(VERSIONS[1]);
    let server = crate::upstream::client_info();
    format!(
        "{{\"protocolVersion\":{version},\"capabilities\":{{\"tools\":{{\"listChanged\":true}}}},\"serverInfo\":{server}}}"
    )
}

/// An `initialize` result in the version that the client asked for, where that is known.
pub(crate) fn in_version_of(result: &str, initialize: &Message<'_>) -> String {
    let asked = json::get(initialize.params(), "protocolVersion").and_then(json::string);
    let mut result = Object::of(Some(result));
    let has = result.get("protocolVersion").and_then(json::string).map(|v| v.into_owned());
    if let Some(asked) = asked.filter(|v| VERSIONS[1..].contains(&v.as_ref()))
        && has.is_none_or(|has| *asked < *has)
    {
        result.set("protocolVersion", quote(&asked));
    }
    result.to_json()
}

/// The result with `tools.listChanged` among the capabilities, unless it has it: a server without
/// tools still has the meta-tools, and the listing follows the working set.
pub(crate) fn with_tools(result: &str) -> Option<String> {
    let is_object = |text: &&str| json::members(text).is_some();
    let members = json::members(result)?;
    let capabilities = json::get(&members, "capabilities").filter(is_object).unwrap_or("{}");
    let known = json::members(capabilities).unwrap_or_default();
    let tools = json::get(&known, "tools").filter(is_object).unwrap_or("{}");
    let changes = json::members(tools).unwrap_or_default();
    if json::get(&changes, "listChanged") == Some("true") {
        return None;
    }
    let tools = with(tools, &[("listChanged", "true".to_owned())]);
    let capabilities = with(capabilities, &[("tools", tools)]);
    Some(with(result, &[("capabilities", capabilities)]))
}

/// A handshake's result with what the proxy adds: what [`with_tools`] does, and `instructions` before
/// the server's own. Some clients cut long ones off at the end.
pub(crate) fn with_ours(result: &str, instructions: &str) -> String {
    let result = with_tools(result).unwrap_or_else(|| result.to_owned());
    if instructions.is_empty() {
        return result;
    }
    let members = json::members(&result).unwrap_or_default();
    let theirs = json::get(&members, "instructions").and_then(json::string).unwrap_or_default();
    let all = format!("{instructions}\n\n{theirs}");
    with(&result, &[("instructions", quote(all.trim_end()))])
}

/// The HTTP status that goes with a JSON-RPC error in the stateless protocol.
pub(crate) fn status_of(text: &str) -> u16 {
    let code = Message::parse(text.as_bytes()).ok().and_then(|m| {
        Object::of(m.error).get("code").and_then(|code| code.trim().parse::<i64>().ok())
    });
    match code {
        Some(rpc::METHOD_NOT_FOUND) => 404,
        Some(rpc::HEADER_MISMATCH) => 400,
        _ => 200,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message<'_> {
        Message::parse(text.as_bytes()).expect("a message")
    }

    #[test]
    fn what_marks_a_request_as_stateless_goes_and_the_rest_stays() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"n": 1.10},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":{},"progressToken":7}}}"#;
        let want = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"n": 1.10},"_meta":{"progressToken":7}}}"#;
        assert_eq!(to_session(&message(text)), want);
        let text = r#"{"id":1,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"x"}}}"#;
        assert_eq!(to_session(&message(text)), r#"{"id":1,"params":{}}"#);
    }

    #[test]
    fn results_gain_only_the_members_they_lack() {
        let text = r#"{"id":1,"result":{"content":[ ],"n":1e2}}"#;
        let want = r#"{"id":1,"result":{"content":[ ],"n":1e2,"resultType":"complete"}}"#;
        assert_eq!(to_modern(text, "tools/call"), want);
        let text = r#"{"id":1,"result":{"resources":[],"ttlMs":5}}"#;
        let want = r#"{"id":1,"result":{"resources":[],"ttlMs":5,"resultType":"complete","cacheScope":"private"}}"#;
        assert_eq!(to_modern(text, "resources/list"), want);
        let error = r#"{"id":1,"error":{"code":-32601,"message":"no"}}"#;
        assert_eq!((to_modern(error, "x").as_str(), status_of(error)), (error, 404));
    }

    #[test]
    fn a_discover_result_is_made_of_an_initialize_result() {
        let made = discover_result(
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tasks":{},"logging":{}},"serverInfo":{"name":"s"},"instructions":"hi"}"#,
        );
        let made = Object::of(Some(&made));
        assert_eq!(
            made.get("capabilities"),
            Some(r#"{"logging":{},"tools":{"listChanged":true}}"#)
        );
        assert_eq!(
            made.get("_meta"),
            Some(r#"{"io.modelcontextprotocol/serverInfo":{"name":"s"}}"#)
        );
        assert_eq!((made.get("instructions"), made.get("ttlMs")), (Some("\"hi\""), Some("0")));
    }

    #[test]
    fn the_client_gets_its_own_version_when_it_is_older() {
        for (asked, has, want) in [
            ("2025-03-26", "2025-11-25", "2025-03-26"),
            ("2025-11-25", "2025-06-18", "2025-06-18"),
            ("1999-01-01", "2025-06-18", "2025-06-18"),
        ] {
            let init = format!(r#"{{"id":1,"params":{{"protocolVersion":"{asked}"}}}}"#);
            let result = format!(r#"{{"protocolVersion":"{has}"}}"#);
            let got = in_version_of(&result, &message(&init));
            assert_eq!(got, format!(r#"{{"protocolVersion":"{want}"}}"#));
        }
    }

    #[test]
    fn a_changing_list_is_announced_and_nothing_else_touched() {
        for (result, want) in [
            (
                r#"{ "x":1e2 }"#,
                Some(r#"{ "x":1e2 ,"capabilities":{"tools":{"listChanged":true}}}"#),
            ),
            (
                r#"{"capabilities":{ "a": 1.0, "tools": { "v" :1} },"z":2}"#,
                Some(
                    r#"{"capabilities":{ "a": 1.0, "tools": { "v" :1,"listChanged":true} },"z":2}"#,
                ),
            ),
            (
                r#"{"capabilities":{"tools":{"listChanged": false}}}"#,
                Some(r#"{"capabilities":{"tools":{"listChanged": true}}}"#),
            ),
            (r#"{"capabilities":{"tools":{"listChanged":true}}}"#, None),
            ("[]", None),
        ] {
            assert_eq!(with_tools(result).as_deref(), want, "{result}");
        }
    }
}
