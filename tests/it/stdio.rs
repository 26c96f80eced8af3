//! The proxy on stdin and stdout.
//!
//! Invariant: a client gets here what it would get over HTTP.
//! Deliberately absent: what both fronts share; the other modules test it over HTTP.

use mws_tests::lab::{Lab, bin};
use mws_tests::peer::Peer;
use mws_tests::pipe::Pipe;
use mws_tests::script::{Act, Era, Script, result};
use mws_tests::stub::Stub;
use serde_json::Value;

const ODD: &str = r#"{"content":[{"type":"hologram","n":1e2}],"z":1.10,"a":123456789012345678901}"#;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"pipe","version":"1"}}}"#;

#[test]
fn a_session_client_is_served_in_front_of_http_and_of_a_process() {
    for upstream in ["http", "process"] {
        let (lab, mut client, _stub) = client(Era::Session, upstream);
        let opened = client.ask("1", INITIALIZE);
        assert!(opened.contains("\"protocolVersion\""), "{upstream}: {opened}");
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let list = client.ask("2", r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
        assert_eq!(names(&list), ["search_tools", "call_tool"], "{upstream}");
        let call = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"call_tool","arguments":{"name":"apple_pick","arguments":{}}}}"#;
        let got = client.ask("3", call);
        assert_eq!(got, format!(r#"{{"jsonrpc":"2.0","id":3,"result":{ODD}}}"#), "{upstream}");
        let seen = mws_tests::lab::eventually(std::time::Duration::from_secs(5), || {
            lab.calls("apple_pick").len() == 1
        });
        assert!(seen, "{upstream}: {:?}", lab.events());
        let event = &lab.calls("apple_pick")[0];
        assert_eq!((&event["client"], &event["via"]), (&"pipe".into(), &"call_tool".into()));
        assert!(event["conn"].is_string(), "{event}");
    }
}

#[test]
fn a_stateless_client_is_served_in_front_of_http_and_of_a_process() {
    for upstream in ["http", "process"] {
        let (_lab, mut client, stub) = client(Era::Stateless, upstream);
        // The client over HTTP writes the bodies; only the way they go differs.
        let peer = Peer::stateless("http://127.0.0.1:1/mcp");
        let list = client.ask("2", &peer.body("2", "tools/list", "{}"));
        assert_eq!(names(&list), ["search_tools", "call_tool"], "{upstream}");
        let call = peer.body("3", "tools/call", r#"{"name":"apple_pick","arguments":{}}"#);
        let got = client.ask("3", &call);
        assert_eq!(got, format!(r#"{{"jsonrpc":"2.0","id":3,"result":{ODD}}}"#), "{upstream}");
        if let Some(stub) = stub {
            let seen = stub.seen_of("tools/call").pop().expect("a call");
            assert_eq!(seen.header("mcp-name"), Some("apple_pick"));
            assert_eq!(seen.header("mcp-protocol-version"), Some("2026-07-28"));
        }
    }
}

#[test]
fn a_cancelled_request_is_cancelled_upstream_and_others_go_on() {
    let lab = Lab::new();
    let record = lab.path("record");
    let script = Script {
        record: Some(record.clone()),
        ..Script::new(Era::Stateless).on("tools/call", "plum_dry", Act::Hang)
    };
    let mut client = Pipe::start(stdio(&lab, &process(&lab, &script)));
    let peer = Peer::stateless("http://127.0.0.1:1/mcp");
    client.ask("1", &peer.body("1", "tools/list", "{}"));
    client.send(&peer.body("2", "tools/call", r#"{"name":"plum_dry"}"#));
    let recorded = |word: &str| {
        mws_tests::lab::eventually(std::time::Duration::from_secs(5), || {
            std::fs::read_to_string(&record).is_ok_and(|text| text.contains(word))
        })
    };
    assert!(recorded("plum_dry"));
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    let answer = client.ask("3", &peer.body("3", "tools/call", r#"{"name":"apple_pick"}"#));
    assert!(answer.contains("plain answer"), "{answer}");
    assert!(recorded("notifications/cancelled"), "{:?}", std::fs::read_to_string(&record));
}

#[test]
fn the_version_is_the_one_that_the_upstream_settled_on() {
    let (_lab, mut client, stub) = client(Era::Session, "http");
    let opened = client.ask("1", INITIALIZE);
    assert!(opened.contains("2025-11-25"), "another one than was asked for: {opened}");
    client
        .ask("3", r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"plum_dry"}}"#);
    let seen = stub.expect("a stub").seen_of("tools/call").pop().expect("a call");
    assert_eq!(seen.header("mcp-protocol-version"), Some("2025-11-25"));
}

#[test]
fn damage_on_the_pipe_is_answered_and_survived() {
    let (_lab, mut client, _stub) = client(Era::Session, "process");
    let refused = client.ask("null", "this is no JSON");
    assert!(refused.contains("-32600"), "{refused}");
    assert!(client.ask("1", INITIALIZE).contains("\"result\""));
}

/// A proxy on a pipe in front of a stub; apples are answered oddly.
fn client(era: Era, upstream: &str) -> (Lab, Pipe, Option<Stub>) {
    let script = Script::new(era).on("tools/call", "apple_pick", result(ODD));
    if upstream == "http" {
        let stub = Stub::start(script);
        let lab = Lab::facing(&stub.url);
        let pipe = Pipe::start(stdio(&lab, &[]));
        return (lab, pipe, Some(stub));
    }
    let lab = Lab::new();
    let pipe = Pipe::start(stdio(&lab, &process(&lab, &script)));
    (lab, pipe, None)
}

fn process(lab: &Lab, script: &Script) -> Vec<String> {
    let file = lab.write("script.json", &serde_json::to_string(script).unwrap());
    let stub = bin("mws-stub-stdio").display().to_string();
    vec!["--upstream-command".to_owned(), stub, file.display().to_string()]
}

fn stdio(lab: &Lab, args: &[String]) -> std::process::Command {
    let mut command = lab.command(bin("mws-proxy"));
    command.arg("--stdio").args(args);
    command
}

fn names(message: &str) -> Vec<String> {
    let message: Value = serde_json::from_str(message).unwrap();
    let tools = message["result"]["tools"].as_array().unwrap_or_else(|| panic!("{message}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}
