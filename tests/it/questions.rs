//! Questions of a stateless upstream to a session client, which get to it as requests.
//!
//! Invariant: question, answer and state arrive as they were sent; a request is answered whatever
//! becomes of the questions.
//! Deliberately absent: the long times after which a client is not waited for any longer.

use mws_tests::front::ways;
use mws_tests::lab::eventually;
use mws_tests::script::{Act, Era, Script, result};
use serde_json::Value;
use std::time::{Duration, Instant};

const ALL: &str = r#"{"elicitation":{},"sampling":{},"roots":{}}"#;
const FORM: &str = r#"{"message":"who?","requestedSchema":{"type":"object","properties":{"n":{"type":"number","default":1.10}}},"z":1e2}"#;
const SAMPLE: &str = r#"{"messages":[{"role":"user","content":{"type":"text","text":"\u0041"}}],"maxTokens":7,"temperature":0.10}"#;
const STATE: &str = r#""\u0041 \/ +=""#;

#[test]
fn questions_reach_the_client_and_its_answers_the_upstream() {
    for mut way in ways(&asking(), ALL) {
        way.start("5", "tools/call", r#"{"name":"ask","arguments":{"k": 1.0}}"#);
        let form = way.hear("elicitation/create");
        let want =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{FORM}}}"#);
        assert_eq!(form, want, "{}", way.name);
        let sample = way.hear("sampling/createMessage");
        let want = format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{SAMPLE}}}"#
        );
        assert_eq!(sample, want, "{}", way.name);
        let said =
            r#"{"role":"assistant","content":{"type":"text","text":"é"},"model":"m","n":1e2}"#;
        way.tell(&format!(r#"{{"jsonrpc":"2.0","id":2,"result":{said}}}"#));
        assert_eq!(way.received("tools/call").len(), 1, "{}: it waits for both", way.name);
        let filled = r#"{"action":"accept","content":{"n": 1.10}}"#;
        way.tell(&format!(r#"{{"result":{filled},"id":1,"jsonrpc":"2.0"}}"#));

        let roots = way.hear("roots/list");
        assert_eq!(roots, r#"{"jsonrpc":"2.0","id":3,"method":"roots/list"}"#, "{}", way.name);
        way.tell(r#"{"jsonrpc":"2.0","id":3,"result":{"roots":[]}}"#);
        let got = way.hear("\"id\":5,");
        assert_eq!(got, r#"{"jsonrpc":"2.0","id":5,"result":{"content":[],"n":1.0}}"#);

        let calls = way.received("tools/call");
        assert_eq!(calls.len(), 3, "{}: {calls:?}", way.name);
        let second = format!(
            r#","inputResponses":{{"a \"1\"":{filled},"s":{said}}},"requestState":{STATE}}}}}"#
        );
        assert!(calls[1].ends_with(&second), "{}: {}", way.name, calls[1]);
        let third = r#","inputResponses":{"r":{"roots":[]}}}}"#;
        assert!(calls[2].ends_with(third), "{}: {}", way.name, calls[2]);
        let same =
            r#""params":{"name":"ask","arguments":{"k": 1.0},"_meta":{"io.modelcontextprotocol/"#;
        assert!(calls.iter().all(|call| call.contains(same)), "{}: {calls:?}", way.name);
        let mut ids: Vec<_> = calls.iter().map(|call| id(call)).collect();
        ids.dedup();
        assert_eq!(ids.len(), 3, "{}: each is a request of its own", way.name);

        let recorded = || way.lab.calls("ask").len() == 1;
        assert!(eventually(Duration::from_secs(5), recorded), "{}", way.name);
        assert_eq!(way.lab.calls("ask")[0]["ok"], true, "{}", way.name);
    }
}

#[test]
fn a_client_is_asked_only_what_it_offers() {
    for mut way in ways(&asking(), r#"{"sampling":{},"roots":{}}"#) {
        let failed = way.ask("5", "tools/call", r#"{"name":"ask"}"#);
        assert!(is_tool_error(&failed, "elicitation"), "{}: {failed}", way.name);
        for (id, method) in [("6", "prompts/get"), ("7", "resources/read")] {
            let failed = way.ask(id, method, r#"{"name":"ask","uri":"ask"}"#);
            let failed: Value = serde_json::from_str(&failed).unwrap();
            assert!(failed["error"]["message"].as_str().unwrap().contains("elicitation"));
        }
        let failed = way.ask("8", "tools/call", r#"{"name":"odd"}"#);
        assert!(is_tool_error(&failed, "not known"), "{}: {failed}", way.name);
        let failed = way.ask("9", "tools/call", r#"{"name":"empty"}"#);
        assert!(is_tool_error(&failed, "input"), "{}: {failed}", way.name);
        assert_eq!(way.received("tools/call").len(), 3, "{}", way.name);
    }
}

#[test]
fn an_elicitation_by_url_gets_the_name_that_the_session_protocol_wants() {
    let params = r#"{"mode":"url","message":"m","url":"https://example.com/"}"#;
    let script = Script::new(Era::Stateless)
        .on("tools/call", "inputResponses", result(r#"{"resultType":"complete","content":[]}"#))
        .on(
            "tools/call",
            "",
            asks(&format!(r#""u":{{"method":"elicitation/create","params":{params}}}"#), None),
        );
    for mut way in ways(&script, r#"{"elicitation":{"form":{},"url":{}}}"#) {
        way.start("5", "tools/call", r#"{"name":"ask"}"#);
        let asked: Value = serde_json::from_str(&way.hear("elicitation/create")).unwrap();
        assert_eq!(asked["params"]["url"], "https://example.com/");
        assert!(!asked["params"]["elicitationId"].as_str().unwrap().is_empty(), "{asked}");
        way.tell(r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}"#);
        assert!(way.hear("\"id\":5,").contains("content"), "{}", way.name);
    }
    for mut way in ways(&script, r#"{"elicitation":{}}"#) {
        let failed = way.ask("5", "tools/call", r#"{"name":"ask"}"#);
        assert!(is_tool_error(&failed, "URL"), "{}: {failed}", way.name);
    }
}

#[test]
fn a_client_that_answers_with_an_error_fails_the_call_and_is_asked_no_more() {
    for mut way in ways(&asking(), ALL) {
        way.start("5", "tools/call", r#"{"name":"ask"}"#);
        way.hear("sampling/createMessage");
        way.tell(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"not now"}}"#);
        let taken_back = way.hear("notifications/cancelled");
        assert!(taken_back.contains(r#""requestId":2"#), "{}: {taken_back}", way.name);
        let failed = way.hear("\"id\":5,");
        assert!(is_tool_error(&failed, "not now"), "{}: {failed}", way.name);
        assert_eq!(way.received("tools/call").len(), 1, "{}", way.name);
        let failed = || way.lab.calls("ask").first().is_some_and(|call| call["ok"] == false);
        assert!(eventually(Duration::from_secs(5), failed), "{}", way.name);
    }
}

#[test]
fn a_request_that_is_cancelled_takes_its_questions_back() {
    for mut way in ways(&asking(), ALL) {
        way.start("5", "tools/call", r#"{"name":"ask"}"#);
        way.hear("elicitation/create");
        way.tell(
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#,
        );
        let taken_back = way.hear("notifications/cancelled");
        assert!(taken_back.contains(r#""requestId":1"#), "{}: {taken_back}", way.name);
        // A late answer is taken in, and reaches nobody.
        way.tell(r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}"#);
        assert_eq!(way.ask("6", "ping", "{}"), r#"{"jsonrpc":"2.0","id":6,"result":{}}"#);
        assert_eq!(way.received("tools/call").len(), 1, "{}", way.name);
    }
}

#[test]
fn an_upstream_that_asks_without_end_is_asked_nine_times_and_not_in_haste() {
    let script = Script::new(Era::Stateless).on("tools/call", "", asks("", Some("\"s\"")));
    for mut way in ways(&script, "{}") {
        let started = Instant::now();
        let failed = way.ask("5", "tools/call", r#"{"name":"ask"}"#);
        assert!(is_tool_error(&failed, "8 times"), "{}: {failed}", way.name);
        assert!(started.elapsed() >= Duration::from_millis(2000), "{:?}", started.elapsed());
        let calls = way.received("tools/call");
        assert_eq!(calls.len(), 9, "{}", way.name);
        assert!(calls[8].ends_with(r#","requestState":"s"}}"#), "{}: {}", way.name, calls[8]);
        assert!(!calls[8].contains("inputResponses"), "{}", calls[8]);
    }
}

#[test]
fn two_sessions_are_asked_each_its_own() {
    let mut all = ways(&asking(), ALL);
    let way = &mut all[0];
    let peer = way.peer().unwrap();
    let hello = mws_tests::front::initialize("2025-06-18", ALL);
    let other = peer.post("initialize", None, &hello);
    way.start("5", "tools/call", r#"{"name":"ask"}"#);
    way.hear("elicitation/create");
    // The other session knows the id, and is not listened to.
    let answer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"mine"}}"#;
    let stranger = way.peer_of(other.header("mcp-session-id").unwrap());
    assert_eq!(stranger.post("", None, answer).status, 202);
    way.tell(&answer.replace("mine", "own"));
    let failed = way.hear("\"id\":5,");
    assert!(is_tool_error(&failed, "own"), "{failed}");
}

/// An upstream with a tool, a prompt and a resource named `ask`, and tools that ask oddly.
fn asking() -> Script {
    let first = format!(
        r#""a \"1\"":{{"method":"elicitation/create","params":{FORM}}},"s":{{"method":"sampling/createMessage","params":{SAMPLE}}}"#
    );
    let first = || asks(&first, Some(STATE));
    Script::new(Era::Stateless)
        .on(
            "tools/call",
            r#""inputResponses":{"r":"#,
            result(r#"{"resultType":"complete","content":[],"n":1.0}"#),
        )
        .on("tools/call", r#""inputResponses":{"a "#, asks(r#""r":{"method":"roots/list"}"#, None))
        .on("tools/call", r#""name":"ask""#, first())
        .on("tools/call", r#""name":"odd""#, asks(r#""x":{"method":"vendor/thing"}"#, None))
        .on("tools/call", r#""name":"empty""#, asks("", None))
        .on("prompts/get", "", first())
        .on("resources/read", "", first())
}

fn asks(requests: &str, state: Option<&str>) -> Act {
    let requests = match requests {
        "" => String::new(),
        some => format!(r#","inputRequests":{{{some}}}"#),
    };
    let state = state.map_or_else(String::new, |state| format!(r#","requestState":{state}"#));
    result(&format!(r#"{{"resultType":"input_required"{requests}{state}}}"#))
}

fn is_tool_error(message: &str, word: &str) -> bool {
    let message: Value = serde_json::from_str(message).unwrap();
    let text = message["result"]["content"][0]["text"].as_str().unwrap_or_default();
    message["result"]["isError"] == true && text.contains(word)
}

fn id(message: &str) -> String {
    let message: Value = serde_json::from_str(message).unwrap();
    message["id"].to_string()
}
