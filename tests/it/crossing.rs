//! Stateless clients in front of a session upstream that asks, tells and forgets, over each of its
//! transports; and session clients that are asked by a process.
//!
//! Invariant: the upstream is the asking server, which keeps every message that it got.
//! Deliberately absent: servers written by others (see `crossing_real`).

use mws_tests::asking::Asking;
use mws_tests::lab::{Lab, Proxy, bin, eventually};
use mws_tests::peer::Peer;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(10);
const ALL: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#;
const FORM: &str = r#"{"method":"elicitation/create","params":{"z":1.10,"message":"who?","requestedSchema":{"type":"object","properties":{}}}}"#;

/// A proxy in front of the asking server, over one of its transports.
struct Scene {
    asking: Option<Arc<Asking>>,
    proxy: Proxy,
    lab: Lab,
}

impl Scene {
    fn over(transport: &str) -> Self {
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
    fn seen_with(&self, text: &str) -> Vec<String> {
        match &self.asking {
            Some(asking) => asking.seen_with(text),
            None => {
                let record = std::fs::read_to_string(self.lab.path("record")).unwrap_or_default();
                record.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
            }
        }
    }

    fn saw(&self, text: &str) -> bool {
        eventually(SOON, || !self.seen_with(text).is_empty())
    }
}

/// Params of a call in whose course the upstream asks this.
fn asks(tool: &str, question: &str) -> String {
    format!(r#"{{"name":"{tool}","arguments":{{"question":{question}}}"#)
}

fn call(peer: &Peer, id: &str, tool: &str, params: &str) -> Value {
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

#[test]
fn a_stream_of_subscriptions_brings_what_was_asked_for_and_ends_in_good_order() {
    for transport in ["http", "older", "process"] {
        let mut scene = Scene::over(transport);
        let peer = Peer::stateless(&scene.proxy.url);
        let filter = r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a://one"]}}"#;
        let listen = || {
            peer.open(
                "subscriptions/listen",
                None,
                &peer.body("\"L\"", "subscriptions/listen", filter),
            )
        };
        let mut streams = [listen(), listen()];
        let stamp = r#""io.modelcontextprotocol/subscriptionId":"L""#;
        for stream in &mut streams {
            let ack = stream.line_with("acknowledged", SOON).unwrap();
            assert!(ack.contains(stamp), "{transport}: {ack}");
            // Prompts are not offered.
            let accepted =
                r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["a://one"]}"#;
            assert!(ack.contains(accepted), "{transport}: {ack}");
        }
        assert_eq!(scene.seen_with("resources/subscribe").len(), 1, "{transport}");
        std::thread::sleep(Duration::from_millis(300));
        let _ = call(&peer, "1", "change", r#"{"name":"change""#);
        for stream in &mut streams {
            assert!(stream.line_with("tools/list_changed", SOON).unwrap().contains(stamp));
            let update = stream.line_with("resources/updated", SOON).unwrap();
            assert!(
                update.contains(r#""uri":"a://one","n":1.10"#) && update.contains(stamp),
                "{update}"
            );
        }
        let [first, mut second] = streams;
        drop(first);
        std::thread::sleep(Duration::from_millis(300));
        assert!(scene.seen_with("resources/unsubscribe").is_empty(), "{transport}");
        assert_eq!(scene.proxy.stop(), 0);
        let last = second.line_with(r#""resultType":"complete""#, SOON).unwrap();
        assert!(last.contains(stamp) && last.contains(r#""id":"L""#), "{transport}: {last}");
    }
}

#[test]
fn the_last_stream_that_wants_a_resource_ends_the_subscription() {
    let scene = Scene::over("http");
    let peer = Peer::stateless(&scene.proxy.url);
    let filter = r#"{"notifications":{"resourceSubscriptions":["a://one"]}}"#;
    let mut stream =
        peer.open("subscriptions/listen", None, &peer.body("1", "subscriptions/listen", filter));
    assert!(stream.line_with("acknowledged", SOON).is_some());
    drop(stream);
    assert!(scene.saw("resources/unsubscribe"));
}

#[test]
fn log_messages_come_from_the_level_that_the_request_names() {
    for transport in ["http", "process"] {
        let scene = Scene::over(transport);
        let peer = Peer::stateless(&scene.proxy.url);
        let ask = |level: &str| {
            let body = peer.body("1", "tools/call", r#"{"name":"log"}"#);
            let mark = r#""_meta":{"#;
            let body = body.replacen(mark, &format!(r#"{mark}{level}"#), 1);
            peer.post("tools/call", Some("log"), &body).text()
        };
        assert!(!ask("").contains("notifications/message"), "{transport}");
        let text = ask(r#""io.modelcontextprotocol/logLevel":"warning","#);
        assert!(!text.contains(r#""level":"debug""#), "{transport}: {text}");
        for level in ["warning", "error"] {
            assert!(
                text.contains(&format!(r#""level":"{level}","data":1.10"#)),
                "{transport}: {text}"
            );
        }
        let _ = ask(r#""io.modelcontextprotocol/logLevel":"error","#);
        let asked = scene.seen_with("logging/setLevel");
        assert!(asked.len() == 1 && asked[0].contains("warning"), "{transport}: {asked:?}");
        assert!(ask(r#""io.modelcontextprotocol/logLevel":"loud","#).contains("-32602"));
    }
}

#[test]
fn a_client_that_goes_away_cancels_its_request_by_the_id_that_the_upstream_knows() {
    for transport in ["http", "older", "process"] {
        let scene = Scene::over(transport);
        let peer = Peer::stateless(&scene.proxy.url);
        let body = peer.body("7", "tools/call", r#"{"name":"hang"}"#);
        let stream = peer.open("tools/call", Some("hang"), &body);
        assert!(scene.saw(r#""name":"hang""#), "{transport}");
        drop(stream);
        assert!(scene.saw("notifications/cancelled"), "{transport}");
        let id = |text: &str| {
            text.split("00000").nth(1).map(|rest| rest.split(['}', ',']).next().unwrap().to_owned())
        };
        let (sent, cancelled) = (scene.seen_with("\"hang\""), scene.seen_with("/cancelled"));
        assert_eq!(id(&sent[0]), id(&cancelled[0]), "{transport}: {sent:?} {cancelled:?}");
        assert!(!sent[0].contains(r#""id":7"#), "{transport}");
    }
}

#[test]
fn a_session_that_the_upstream_forgot_is_opened_again() {
    for capabilities in ["{}", ALL] {
        let scene = Scene::over("http");
        let peer = Peer::stateless(&scene.proxy.url).that_can(capabilities);
        assert!(call(&peer, "1", "plain", r#"{"name":"plain""#)["result"].is_object());
        scene.asking.as_ref().unwrap().forget();
        let done = call(&peer, "2", "plain", r#"{"name":"plain""#);
        assert!(done["result"].is_object(), "{done}");
    }
}

#[test]
fn requests_are_checked_and_errors_are_of_the_client_s_protocol() {
    let scene = Scene::over("http");
    let peer = Peer::stateless(&scene.proxy.url);
    let read = peer.body("1", "resources/read", r#"{"uri":"a://b"}"#);
    let reply = peer.post("resources/read", Some("a://b"), &read);
    assert!(reply.text().contains("\"code\":-32602"), "{}", reply.text());
    let reply = peer.post("resources/read", Some("a://other"), &read);
    assert!(reply.status == 400 && reply.text().contains("-32020"), "{}", reply.text());
    let old = read.replace("2026-07-28", "2027-01-01");
    let reply = peer.post("resources/read", Some("a://b"), &old);
    assert!(reply.status == 400 && reply.text().contains("-32022"), "{}", reply.text());
    let bare = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a://b"}}"#;
    let reply = peer.post("resources/read", Some("a://b"), bare);
    assert!(reply.status == 400 && reply.text().contains("-32602"), "{}", reply.text());
    for method in ["ping", "logging/setLevel", "resources/subscribe", "tasks/get"] {
        let reply = peer.request(method, &json!({}));
        assert!(
            reply.status == 404 && reply.text().contains("-32601"),
            "{method}: {}",
            reply.text()
        );
    }
    let discovered = peer.ask("server/discover", &json!({}));
    assert!(discovered["result"]["capabilities"].get("tasks").is_none(), "{discovered}");
}

#[test]
fn a_session_that_can_be_asked_has_a_process_of_its_own_and_others_share_one() {
    for transport in ["process", "older"] {
        let scene = Scene::over(transport);
        std::thread::scope(|scope| {
            for who in ["ann", "bob"] {
                let url = &scene.proxy.url;
                scope.spawn(move || {
                    let peer = Peer::session_that_can(url, ALL);
                    for round in 0..5 {
                        let mark = format!("{who}-{round}");
                        asked_in_a_session(&peer, &mark);
                    }
                });
            }
        });
        let sharing = [Peer::session(&scene.proxy.url), Peer::session(&scene.proxy.url)];
        for peer in &sharing {
            let done = peer.call("ask", &json!({"question": {"method": "roots/list"}}));
            assert_eq!(done["answer"]["error"]["code"], -32601, "{transport}: {done}");
        }
        let opened = scene.seen_with(r#""method":"initialize""#);
        let own = opened.iter().filter(|text| text.contains("sampling")).count();
        assert_eq!((own, opened.len()), (2, 3), "{transport}: {opened:?}");
    }
}

/// One call in a session, with its question answered on the session's streams.
fn asked_in_a_session(peer: &Peer, mark: &str) {
    let params = format!("{}}}", asks("ask", &FORM.replace("who?", mark)));
    let body = peer.body("1", "tools/call", &params);
    let mut stream = peer.open("tools/call", Some("ask"), &body);
    let question = stream.line_with("elicitation/create", SOON).unwrap();
    assert!(question.contains(mark) && question.contains(r#""z":1.10"#), "{question}");
    let question: Value =
        serde_json::from_str(question.trim_start_matches("data:").trim()).unwrap();
    let id = &question["id"];
    // An answer to a question that was put to nobody here goes nowhere.
    let foreign = id.as_u64().unwrap() + 1000;
    for id in [json!(foreign), id.clone()] {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":"{mark}"}}}}"#);
        assert_eq!(peer.post("", None, &answer).status, 202);
    }
    let done = stream.line_with("answer", SOON).unwrap();
    assert!(done.contains(&format!(r#""content":"{mark}""#)), "{mark}: {done}");
}

#[test]
fn the_older_transport_is_found_by_its_refusal_alone() {
    let scene = Scene::over("older");
    let session = Peer::session(&scene.proxy.url);
    assert_eq!(session.call("plain", &json!({}))["content"][0]["type"], "odd");
    assert_eq!(
        Peer::stateless(&scene.proxy.url).call("plain", &json!({}))["resultType"],
        "complete"
    );
    let (_asking, url) = Asking::serve(true);
    let lab = Lab::with_config(&json!({"upstream": {"url": url, "protocol": "2024-11-05"}}));
    let proxy = lab.proxy(&[]);
    assert_eq!(Peer::session(&proxy.url).call("plain", &json!({}))["content"][0]["type"], "odd");
}

#[test]
fn refusals_and_failures_are_no_evidence_of_the_older_transport() {
    use mws_tests::script::{Act, Era, Script};
    use mws_tests::stub::Stub;
    for status in [401, 403, 429, 500, 503] {
        let mut script = Script::new(Era::Session);
        for method in ["initialize", "server/discover"] {
            script = script.on(method, "", Act::Status(status, "no".to_owned()));
        }
        let stub = Stub::start(script);
        let lab = Lab::facing(&stub.url);
        let proxy = lab.proxy(&[]);
        let _ = Peer::stateless(&proxy.url).request("tools/call", &json!({"name": "plain"}));
        assert!(stub.seen().iter().all(|seen| seen.verb != "GET"), "{status}");
    }
}
