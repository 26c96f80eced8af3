//! The texts of the bridge: a session client's request as a stateless upstream takes it, and the
//! upstream's result as the client takes it.
//!
//! Invariant: a text is edited where the two protocols differ, and every other byte stays.
//! Deliberately absent: sending anything.

use mws_catalog::json;

use crate::bridge::{META_SERVER, VERSIONS};
use crate::edit::{Edits, Object, quote, with, without};
use crate::rpc::{
    META_CAPABILITIES, META_CLIENT, META_LOG_LEVEL, META_SUBSCRIPTION, META_VERSION, MODERN,
    Message,
};
use crate::severity::Severity;
use crate::upstream::client_info;

/// What the stateless protocol wants to know of the client in each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) client_info: String,
    pub(crate) capabilities: String,
}

impl Identity {
    /// Reads it from the client's `initialize`.
    pub(crate) fn of(initialize: &Message<'_>) -> Self {
        let params = initialize.params();
        let object = |key| json::get(params, key).filter(|text| json::members(text).is_some());
        let info = object("clientInfo").map_or_else(client_info, |info| {
            let name = crate::rpc::client_name(Some(info)).unwrap_or_default();
            with(info, &[("name", quote(&format!("{}/{name}", crate::control::NAME)))])
        });
        // Tasks of the session protocol are another protocol than those of the stateless one.
        let capabilities = without(object("capabilities").unwrap_or("{}"), "tasks");
        Self { client_info: info, capabilities }
    }

    /// A client that has told nothing of itself.
    pub(crate) fn unknown() -> Self {
        Self { client_info: client_info(), capabilities: "{}".to_owned() }
    }
}

/// The message as the upstream takes it; `None` when its `params` are no object.
pub(crate) fn to_stateless(
    message: &Message<'_>,
    client: &Identity,
    log_level: Option<Severity>,
) -> Option<String> {
    let mut keys = vec![
        (META_VERSION, quote(MODERN)),
        (META_CLIENT, client.client_info.clone()),
        (META_CAPABILITIES, client.capabilities.clone()),
    ];
    keys.extend(log_level.map(|level| (META_LOG_LEVEL, quote(level.word()))));
    let members = json::members(message.params.unwrap_or("{}"))?;
    let meta = json::get(&members, "_meta").filter(|meta| json::members(meta).is_some());
    let meta = with(meta.unwrap_or("{}"), &keys);
    let params = with(message.params.unwrap_or("{}"), &[("_meta", meta)]);
    Some(with(message.text, &[("params", params)]))
}

/// The request once more, with what the client answered to the upstream's questions.
pub(crate) fn retry(
    request: &str,
    id: &str,
    responses: Option<String>,
    state: Option<&str>,
) -> String {
    let Ok(message) = Message::parse(request.as_bytes()) else { return request.to_owned() };
    let mut params = without(message.params.unwrap_or("{}"), "requestState");
    params = without(&params, "inputResponses");
    if let Some(responses) = responses {
        params = with(&params, &[("inputResponses", responses)]);
    }
    if let Some(state) = state {
        params = with(&params, &[("requestState", state.to_owned())]);
    }
    with(request, &[("id", id.to_owned()), ("params", params)])
}

/// The upstream's answer as the client takes it, under the client's id.
pub(crate) fn to_session(answer: &str, id: &str) -> String {
    let Ok(message) = Message::parse(answer.as_bytes()) else { return answer.to_owned() };
    let mut edits = Edits::of(answer);
    if let Some(own) = message.id.filter(|own| *own != id) {
        edits.replace(own, id);
    }
    let Some(result) = message.result else { return edits.apply() };
    let members = json::members(result).unwrap_or_default();
    let kind = json::get(&members, "resultType").and_then(json::string);
    let structured = json::get(&members, "structuredContent");
    let mut fit = result.to_owned();
    if kind.as_deref() == Some("complete") {
        fit = without(&fit, "resultType");
    }
    // The session protocol has objects only here, and its clients refuse the whole result.
    if structured.is_some_and(|value| !value.starts_with('{')) {
        fit = without(&fit, "structuredContent");
    }
    edits.replace(result, fit);
    edits.apply()
}

/// A `tools` array without output schemas that the session protocol does not have.
pub(crate) fn strict_tools(tools: &str) -> String {
    let mut edits = Edits::of(tools);
    for tool in json::elements(tools).unwrap_or_default() {
        let members = json::members(tool).unwrap_or_default();
        let Some(schema) = json::get(&members, "outputSchema") else { continue };
        let keys = json::members(schema).unwrap_or_default();
        if json::get(&keys, "type") != Some("\"object\"") {
            edits.replace(tool, without(tool, "outputSchema"));
        }
    }
    edits.apply()
}

/// A notification of the upstream's subscription without the mark of that subscription.
pub(crate) fn unmarked(notification: &str) -> String {
    let Ok(message) = Message::parse(notification.as_bytes()) else { return notification.into() };
    let params = message.params.unwrap_or("{}");
    let members = json::members(params).unwrap_or_default();
    let Some(meta) = json::get(&members, "_meta") else { return notification.to_owned() };
    let rest = without(meta, META_SUBSCRIPTION);
    let is_empty = json::members(&rest).is_some_and(|rest| rest.is_empty());
    let params = if is_empty { without(params, "_meta") } else { with(params, &[("_meta", rest)]) };
    with(notification, &[("params", params)])
}

/// An `initialize` result made of a `server/discover` result.
pub(crate) fn initialize_result(discover: &str) -> String {
    let discover = Object::of(Some(discover));
    let mut meta = Object::of(discover.get("_meta"));
    let server = meta.get(META_SERVER).map_or_else(client_info, str::to_owned);
    meta.remove(META_SERVER);
    let mut result = Object::of(None);
    result.set("protocolVersion", quote(VERSIONS[1]));
    result.set("capabilities", discover.get("capabilities").unwrap_or("{}"));
    result.set("serverInfo", server);
    if !meta.is_empty() {
        result.set("_meta", meta.to_json());
    }
    const STATELESS: [&str; 5] =
        ["resultType", "supportedVersions", "ttlMs", "cacheScope", "_meta"];
    for (key, value) in discover.into_members().filter(|m| !STATELESS.contains(&m.0.as_str())) {
        result.set_default(&key, &value);
    }
    result.to_json()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message<'_> {
        Message::parse(text.as_bytes()).expect("a message")
    }

    fn client() -> Identity {
        Identity::of(&message(
            r#"{"params":{"clientInfo":{ "name":"c","x":1.0},"capabilities":{"tasks":{},"roots":{ }}}}"#,
        ))
    }

    const KEYS: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{ "name":"mcp-working-set/c","x":1.0},"io.modelcontextprotocol/clientCapabilities":{"roots":{ }}"#;

    #[test]
    fn a_request_gains_what_the_stateless_protocol_wants_and_keeps_its_bytes() {
        for (head, own, tail) in [
            (r#"{ "id":1,"params":{"n": 1.10 ,"_meta":{ "progressToken":1e2 "#, ",", "} }}"),
            (r#"{"id":1,"params":{"_meta":{"#, "", r#"},"z":[ ]}}"#),
        ] {
            let text = format!("{head}{tail}");
            let got = to_stateless(&message(&text), &client(), None).expect("a request");
            assert_eq!(got, format!("{head}{own}{KEYS}{tail}"));
        }
        let got = to_stateless(&message(r#"{"id":1 }"#), &client(), Severity::parse("\"info\""));
        let level = r#","io.modelcontextprotocol/logLevel":"info""#;
        assert_eq!(got, Some(format!(r#"{{"id":1 ,"params":{{"_meta":{{{KEYS}{level}}}}}}}"#)));
        assert_eq!(to_stateless(&message(r#"{"id":1,"params":[1]}"#), &client(), None), None);
    }

    #[test]
    fn a_retry_carries_the_answers_of_this_round_and_the_state_as_it_was_sent() {
        let first = retry(
            r#"{"id":1,"params":{"n":1e2}}"#,
            "\"r\"",
            Some("{}".into()),
            Some("\"\\u0041 /\""),
        );
        assert_eq!(
            first,
            r#"{"id":"r","params":{"n":1e2,"inputResponses":{},"requestState":"\u0041 /"}}"#
        );
        assert_eq!(retry(&first, "2", None, None), r#"{"id":2,"params":{"n":1e2}}"#);
    }

    #[test]
    fn a_result_loses_only_what_the_session_protocol_does_not_have() {
        for (result, want) in [
            (r#"{"resultType":"complete","content":[ ],"n":1e2}"#, r#"{"content":[ ],"n":1e2}"#),
            (r#"{"a":1.0 , "resultType" : "complete"}"#, r#"{"a":1.0 }"#),
            (
                r#"{"resultType":"task","x":{"resultType":"complete"}}"#,
                r#"{"resultType":"task","x":{"resultType":"complete"}}"#,
            ),
            (
                r#"{"content":[],"structuredContent":[1],"isError":false}"#,
                r#"{"content":[],"isError":false}"#,
            ),
            (r#"{"structuredContent":{"a":1}}"#, r#"{"structuredContent":{"a":1}}"#),
        ] {
            let got = to_session(&format!(r#"{{"id": "r","result":{result}}}"#), "7");
            assert_eq!(got, format!(r#"{{"id": 7,"result":{want}}}"#));
        }
        let error = r#"{"id":7,"error":{"code":-32021,"data":{ }}}"#;
        assert_eq!(to_session(error, "7"), error);
    }

    #[test]
    fn marks_of_a_subscription_and_strange_output_schemas_go() {
        let key = META_SUBSCRIPTION;
        let text = format!(r#"{{"method":"m","params":{{"uri":"a","_meta":{{"{key}":1}}}}}}"#);
        assert_eq!(unmarked(&text), r#"{"method":"m","params":{"uri":"a"}}"#);
        let text = format!(r#"{{"method":"m","params":{{"_meta":{{"{key}":1,"v":1e2}}}}}}"#);
        assert_eq!(unmarked(&text), r#"{"method":"m","params":{"_meta":{"v":1e2}}}"#);
        let tools = r#"[{"name":"a","outputSchema":{"type":"array"}},{"outputSchema":{ "type":"object"}},{"outputSchema":true,"n":1.0}]"#;
        let want = r#"[{"name":"a"},{"outputSchema":{ "type":"object"}},{"n":1.0}]"#;
        assert_eq!(strict_tools(tools), want);
    }

    #[test]
    fn an_initialize_result_is_made_of_a_discover_result() {
        let made = initialize_result(
            r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{ }},"ttlMs":1,"instructions":"hi","vendor":1e2,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"},"k":1}}"#,
        );
        let want = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{ }},"serverInfo":{"name":"s"},"_meta":{"k":1},"instructions":"hi","vendor":1e2}"#;
        assert_eq!(made, want);
    }
}
