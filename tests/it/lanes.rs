//! Sessions that the proxy holds with an upstream: subscriptions, log levels, cancelling, loss; a
//! process of its own for a session that is asked; the older HTTP transport.
//!
//! Invariant: the upstream is the asking server, which keeps every message that it got.
//! Deliberately absent: questions to stateless clients; see `crossing`.

use crate::crossing::{ALL, FORM, SOON, Scene, asks, call};
use mws_tests::asking::Asking;
use mws_tests::lab::Lab;
use mws_tests::peer::Peer;
use mws_tests::raw::{RawReply, exchange};
use mws_tests::script::{Act, Era, Script};
use mws_tests::stub::Stub;
use serde_json::{Value, json};
use std::time::Duration;

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
    let head = peer.head("resources/read", Some("a://b")).replace("2026-07-28", "2027-01-01");
    let reply = exchange(&peer.address, &head, old.as_bytes()).unwrap();
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
fn what_the_proxy_answers_itself_is_checked_as_well() {
    let own = [
        ("server/discover", None, "{}"),
        ("tools/list", None, "{}"),
        (
            "tools/call",
            Some("search_tools"),
            r#"{"name":"search_tools","arguments":{"query":"ask"}}"#,
        ),
        ("tools/call", Some("call_tool"), r#"{"name":"call_tool","arguments":{"name":"none"}}"#),
    ];
    let modern = Stub::start(Script::new(Era::Stateless));
    let behind_modern = Lab::facing(&modern.url);
    let scenes = [Scene::over("http"), Scene::over("process")];
    let direct = behind_modern.proxy(&[]);
    for url in scenes.iter().map(|scene| &scene.proxy.url).chain([&direct.url]) {
        let peer = Peer::stateless(url);
        for (method, name, params) in own {
            if method == "server/discover" && *url == direct.url {
                continue;
            }
            let whole = peer.body("1", method, params);
            assert_eq!(peer.post(method, name, &whole).status, 200, "{method} {name:?}");
            let bare =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            refused(&peer.post(method, name, &bare), "-32602");
            refused(&peer.post("ping", name, &whole), "-32020");
            let other = peer.post(method, name, &whole.replace("2026-07-28", "2027-01-01"));
            refused(&other, "-32022");
            assert!(other.text().contains(r#""supported":["2026-07-28","#), "{}", other.text());
        }
    }
}

#[test]
fn filters_and_answers_without_a_form_are_refused() {
    let scene = Scene::over("http");
    let peer = Peer::stateless(&scene.proxy.url);
    for filter in [r#"{"toolsListChanged":1}"#, r#"{"resourceSubscriptions":["a://b",1]}"#, "[]"] {
        let body = format!(r#"{{"notifications":{filter}}}"#);
        let body = peer.body("1", "subscriptions/listen", &body);
        refused(&peer.post("subscriptions/listen", None, &body), "-32602");
    }
    for odd in [r#""inputResponses":null"#, r#""inputResponses":{"a":7}"#, r#""requestState":7"#] {
        let body = peer.body("1", "tools/call", &format!(r#"{{"name":"ask",{odd}}}"#));
        refused(&peer.post("tools/call", Some("ask"), &body), "-32602");
    }
    assert!(scene.seen_with("tools/call").is_empty());
}

fn refused(reply: &RawReply, code: &str) {
    let text = reply.text();
    assert!(reply.status == 400 && text.contains(&format!("\"code\":{code}")), "{code}: {text}");
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
