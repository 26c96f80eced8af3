//! Stateless clients in front of a session upstream that asks them something, over each of its
//! transports.
//!
//! Invariant: the upstream is the asking server, which keeps every message that it got.
//! Deliberately absent: what is not asked; see `lanes`.

use mws_tests::asking::Asking;
use mws_tests::lab::{Lab, Proxy, bin, eventually};
use mws_tests::peer::Peer;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const SOON: Duration = Duration::from_secs(10);
pub(crate) const ALL: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#;
pub(crate) const FORM: &str = r#"{"method":"elicitation/create","params":{"z":1.10,"message":"who?","requestedSchema":{"type":"object","properties":{}}}}"#;

/// A proxy in front of the asking server, over one of its transports.
pub(crate) struct Scene {
    pub(crate) asking: Option<Arc<Asking>>,
    pub(crate) proxy: Proxy,
    pub(crate) lab: Lab,
}

impl Scene {
    pub(crate) fn over(transport: &str) -> Self {
        Self::with(transport, json!({}))
    }

    fn with(transport: &str, mut config: Value) -> Self {
        if transport == "process" {
            let lab = Lab::with_config(&config);
            let record = lab.path("record").display().to_string();
            let program = bin("mws-asking-stdio").display().to_string();
            let proxy = lab.proxy(&["--upstream-command", &program, &record]);
            return Self { asking: None, proxy, lab };
        }
        let (asking, url) = Asking::serve(transport == "older");
        config["upstream"] = json!({"url": url});
        let lab = Lab::with_config(&config);
        let proxy = lab.proxy(&[]);
        Self { asking: Some(asking), proxy, lab }
    }

    /// The messages that reached the upstream and contain this.
    pub(crate) fn seen_with(&self, text: &str) -> Vec<String> {
        match &self.asking {
            Some(asking) => asking.seen_with(text),
            None => {
                let record = std::fs::read_to_string(self.lab.path("record")).unwrap_or_default();
                record.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
            }
        }
    }

    pub(crate) fn saw(&self, text: &str) -> bool {
        eventually(SOON, || !self.seen_with(text).is_empty())
    }
}

/// Params of a call in whose course the upstream asks this.
pub(crate) fn asks(tool: &str, question: &str) -> String {
    format!(r#"{{"name":"{tool}","arguments":{{"question":{question}}}"#)
}

pub(crate) fn call(peer: &Peer, id: &str, tool: &str, params: &str) -> Value {
    let body = peer.body(id, "tools/call", &format!("{params}}}"));
    let text = peer.post("tools/call", Some(tool), &body).message();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn retry(peer: &Peer, id: &str, tool: &str, params: &str, asked: &Value, answer: &str) -> Value {
    let requests = asked["result"]["inputRequests"].as_object().unwrap();
    let answers: Vec<_> = requests.keys().map(|key| format!(r#""{key}":{answer}"#)).collect();
    let state = &asked["result"]["requestState"];
    let more =
        format!(r#"{params},"inputResponses":{{{}}},"requestState":{state}"#, answers.join(","));
    call(peer, id, tool, &more)
}

#[test]
fn a_question_becomes_a_round_of_its_own_and_its_answer_reaches_the_upstream() {
    for transport in ["http", "older", "process"] {
        let scene = Scene::over(transport);
        let peer = Peer::stateless(&scene.proxy.url).that_can(ALL);
        let sampling =
            r#"{"method":"sampling/createMessage","params":{"maxTokens":1e2,"messages":[]}}"#;
        let roots = r#"{"method":"roots/list"}"#;
        for (number, question) in [FORM, sampling, roots].into_iter().enumerate() {
            let params = asks("ask", question);
            let body = peer.body("1", "tools/call", &format!("{params}}}"));
            let text = peer.post("tools/call", Some("ask"), &body).message();
            assert!(text.contains(question), "{transport}: {text}");
            let asked: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(asked["result"]["resultType"], "input_required", "{transport}");
            assert_eq!(asked["result"]["requestState"].as_str().unwrap().len(), 32);
            let answer = r#"{"action":"accept","n":1.10}"#;
            let done = retry(&peer, "2", "ask", &params, &asked, answer);
            assert_eq!(done["id"], 2, "{transport}: {done}");
            assert_eq!(done["result"]["resultType"], "complete", "{transport}: {done}");
            assert_eq!(scene.seen_with(&format!(r#""result":{answer}"#)).len(), number + 1);
            // A handle is good for one use.
            let again = retry(&peer, "3", "ask", &params, &asked, answer);
            assert_eq!(again["error"]["code"], -32602, "{transport}: {again}");
        }
    }
}

#[test]
fn a_question_through_call_tool_is_the_same_and_the_call_is_recorded_once() {
    let scene = Scene::over("http");
    let peer = Peer::stateless(&scene.proxy.url).that_can(ALL);
    let params = format!(
        r#"{{"name":"call_tool","arguments":{{"name":"ask","arguments":{{"question":{FORM}}}}}"#
    );
    let asked = call(&peer, "1", "call_tool", &params);
    let done = retry(&peer, "2", "call_tool", &params, &asked, r#"{"action":"decline"}"#);
    assert_eq!(done["result"]["answer"]["result"]["action"], "decline", "{done}");
    assert!(eventually(SOON, || scene.lab.calls("ask").len() == 1));
    assert_eq!(scene.lab.calls("ask")[0]["ok"], true);
}

#[test]
fn a_handle_is_of_one_request_and_an_incomplete_answer_asks_again() {
    let scene = Scene::over("http");
    let peer = Peer::stateless(&scene.proxy.url).that_can(ALL);
    let params = asks("ask", FORM);
    let asked = call(&peer, "1", "ask", &params);
    let other = retry(&peer, "2", "plain", &asks("plain", FORM), &asked, "{}");
    assert_eq!(other["error"]["code"], -32602, "{other}");
    let state = &asked["result"]["requestState"];
    let again = call(&peer, "3", "ask", &format!(r#"{params},"requestState":{state}"#));
    assert_eq!(again["result"]["inputRequests"], asked["result"]["inputRequests"], "{again}");
    let done = retry(&peer, "4", "ask", &params, &again, "{}");
    assert!(done["result"]["answer"].is_object(), "{done}");
}

#[test]
fn an_answer_that_never_comes_cancels_the_request() {
    for transport in ["http", "older", "process"] {
        let scene = Scene::with(transport, json!({"inputWaitSeconds": 1}));
        let peer = Peer::stateless(&scene.proxy.url).that_can(ALL);
        let params = asks("ask", FORM);
        let asked = call(&peer, "1", "ask", &params);
        assert!(scene.saw("notifications/cancelled"), "{transport}");
        let late = retry(&peer, "2", "ask", &params, &asked, "{}");
        assert_eq!(late["error"]["code"], -32602, "{transport}: {late}");
    }
}

#[test]
fn a_client_is_not_asked_what_it_did_not_declare() {
    for (transport, capabilities) in [
        ("http", "{}"),
        ("process", "{}"),
        ("http", r#"{"roots":{}}"#),
        ("older", r#"{"roots":{}}"#),
    ] {
        let scene = Scene::over(transport);
        let peer = Peer::stateless(&scene.proxy.url).that_can(capabilities);
        let done = call(&peer, "1", "ask", &asks("ask", FORM));
        let refusal = &done["result"]["answer"]["error"]["code"];
        assert_eq!(refusal, -32601, "{transport} {capabilities}: {done}");
    }
}

#[test]
fn the_upstream_sees_the_capabilities_of_the_client_and_no_stateless_keys() {
    for transport in ["http", "older", "process"] {
        let scene = Scene::over(transport);
        let peer = Peer::stateless(&scene.proxy.url).that_can(r#"{"roots":{"x":1.10},"other":{}}"#);
        let _ = call(&peer, "1", "plain", r#"{"name":"plain""#);
        assert_eq!(
            scene.seen_with(r#""capabilities":{"roots":{"x":1.10}}"#).len(),
            1,
            "{transport}"
        );
        assert!(
            scene.seen_with("\"tools/call\"").iter().all(|m| !m.contains("clientCapabilities"))
        );
    }
}

#[test]
fn two_clients_at_one_time_are_asked_their_own_questions() {
    for transport in ["http", "older", "process"] {
        let scene = Scene::over(transport);
        std::thread::scope(|scope| {
            for who in ["ann", "bob", "cyd"] {
                let url = &scene.proxy.url;
                scope.spawn(move || {
                    let peer = Peer::stateless(url).that_can(ALL).named(who);
                    for round in 0..5 {
                        let mark = format!("{who}-{round}");
                        let params = asks("ask", &FORM.replace("who?", &mark));
                        let asked = call(&peer, "1", "ask", &params);
                        assert!(asked.to_string().contains(&mark), "{transport} {mark}: {asked}");
                        let answer = format!(r#"{{"content":"{mark}"}}"#);
                        let done = retry(&peer, "1", "ask", &params, &asked, &answer);
                        assert_eq!(
                            done["result"]["answer"]["result"]["content"], mark,
                            "{transport}"
                        );
                    }
                });
            }
        });
    }
}

#[test]
fn a_question_to_nobody_s_request_goes_to_the_only_one_under_way() {
    let scene = Scene::over("http");
    let peer = Peer::stateless(&scene.proxy.url).that_can(ALL);
    // The session's own stream is opened beside the first call.
    let _ = call(&peer, "0", "plain", r#"{"name":"plain""#);
    std::thread::sleep(Duration::from_millis(300));
    let params = asks("ask_aloud", r#"{"method":"roots/list"}"#);
    let asked = call(&peer, "1", "ask_aloud", &params);
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let done = retry(&peer, "2", "ask_aloud", &params, &asked, r#"{"roots":[]}"#);
    assert_eq!(done["result"]["answer"]["result"]["roots"], json!([]), "{done}");
}

#[test]
fn an_error_that_names_urls_asks_for_them_and_the_request_is_sent_again() {
    for (answer, code) in [("accept", None), ("decline", Some(-32042))] {
        let scene = Scene::over("http");
        let peer = Peer::stateless(&scene.proxy.url).that_can(ALL);
        let params = r#"{"name":"url""#;
        let asked = call(&peer, "1", "url", params);
        let request = &asked["result"]["inputRequests"]["url-0"];
        assert_eq!(request["method"], "elicitation/create", "{asked}");
        assert_eq!(request["params"]["url"], "http://127.0.0.1/x");
        let done = retry(&peer, "2", "url", params, &asked, &format!(r#"{{"action":"{answer}"}}"#));
        assert_eq!(done["error"]["code"].as_i64(), code, "{done}");
        assert_eq!(done["id"], 2);
        assert_eq!(scene.seen_with("\"tools/call\"").len(), 1 + usize::from(code.is_none()));
        assert!(scene.seen_with("requestState").is_empty());
    }
    let scene = Scene::over("http");
    let unable = Peer::stateless(&scene.proxy.url).that_can(r#"{"elicitation":{}}"#);
    assert_eq!(call(&unable, "1", "url", r#"{"name":"url""#)["error"]["code"], -32042);
}
