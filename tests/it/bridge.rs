//! Client and upstream that do not speak the same era, and many clients over one child.
//!
//! Invariant: whatever is not bridged is answered with an error, and soon.
//! Deliberately absent: bridging of elicitation, sampling, roots and subscriptions.

use mws_tests::lab::{Lab, Proxy, bin};
use mws_tests::modern::{Modern, TOOLS};
use mws_tests::peer::Peer;
use mws_tests::script::{Era, Script, result};
use mws_tests::stub::Stub;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn a_stateless_client_uses_tools_of_a_session_upstream() {
    let answer = result(r#"{"content":[{"type":"hologram","n":1e2}],"_meta":{"z":1,"a":1}}"#);
    let stub = Stub::start(Script::new(Era::Session).on("tools/call", "", answer));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    assert_eq!(peer.tool_names(), ["search_tools", "call_tool"]);
    let meta = peer.meta().replacen('{', r#"{"own":{"n":1e2},"#, 1);
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{{"name":"apple_pick",{meta}}}}}"#
    );
    let text = peer.post("tools/call", Some("apple_pick"), &body).message();
    assert!(text.contains(r#""content":[{"type":"hologram","n":1e2}]"#), "{text}");
    let message: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(message["result"]["resultType"], "complete", "{text}");
    let seen = stub.seen_of("tools/call").pop().unwrap();
    assert!(!seen.body.contains("io.modelcontextprotocol/"), "{}", seen.body);
    assert!(seen.body.contains(r#""own":{"n":1e2}"#), "{}", seen.body);
    assert!(seen.header("mcp-session-id").is_some());
    assert_ne!(seen.header("mcp-protocol-version"), Some("2026-07-28"));
}

#[test]
fn the_sdk_s_server_is_bridged_where_the_configuration_says_so() {
    for json in [true, false] {
        let upstream = Modern::start(json);
        let config = json!({"upstream": {"url": upstream.url, "protocol": "2026-07-28"}});
        let lab = Lab::with_config(&config);
        let proxy = lab.proxy(&[]);
        let peer = Peer::session(&proxy.url);
        let inner = json!({"name": "bench_saw", "arguments": {"material": "oak"}});
        let result: Value = peer.call("call_tool", &inner);
        assert_eq!(result["content"][0]["text"], "bench_saw done: {\"material\":\"oak\"}");
        assert_eq!(result.get("resultType"), None);
        assert_eq!(peer.call("fail_always", &json!({}))["isError"], true);
    }
}

#[test]
fn a_stateless_client_uses_tools_of_a_session_child() {
    let lab = Lab::new();
    let record = lab.path("record");
    let proxy = child(&lab, Script::new(Era::Session), &record);
    let peer = Peer::stateless(&proxy.url);
    let result = peer.call("apple_pick", &json!({"count": 1}));
    assert_eq!(result["content"][0]["text"], "plain answer");
    assert_eq!(result["resultType"], "complete");
    let lines = std::fs::read_to_string(record).unwrap();
    let call = lines.lines().rev().find(|line| line.contains("tools/call")).unwrap();
    assert!(!call.contains("io.modelcontextprotocol/"), "{call}");
}

#[test]
fn what_is_not_bridged_is_answered_soon() {
    for era in [Era::Stateless, Era::Session] {
        let stub = Stub::start(Script::new(era));
        let lab = Lab::facing(&stub.url);
        let proxy = lab.proxy(&[]);
        let stateless = Peer::stateless(&proxy.url);
        for method in
            ["resources/list", "prompts/list", "completion/complete", "tasks/get", "vendor/thing"]
        {
            let start = Instant::now();
            let reply = stateless.request(method, &json!({"uri": "a://b"}));
            let message: Value = serde_json::from_str(&reply.message()).unwrap();
            let answered = message.get("error").is_some() || message.get("result").is_some();
            assert!(answered, "{era:?} {method}: {message}");
            assert!(start.elapsed() < Duration::from_secs(5), "{era:?} {method}");
        }
        let start = Instant::now();
        let reply = stateless.post("initialize", None, &stateless.initialize_body());
        let message: Value = serde_json::from_str(&reply.message()).unwrap();
        let answered = message.get("error").is_some() || message.get("result").is_some();
        assert!(answered && start.elapsed() < Duration::from_secs(5), "{era:?}: {message}");
    }
}

#[test]
fn an_upstream_of_both_eras_is_spoken_to_in_the_client_s() {
    let stub = Stub::start(Script::new(Era::Both));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    Peer::session(&proxy.url).call("apple_pick", &json!({}));
    let seen = stub.seen_of("tools/call").pop().unwrap();
    assert!(seen.header("mcp-session-id").is_some(), "{:?}", seen.headers);
    Peer::stateless(&proxy.url).call("apple_pick", &json!({}));
    let seen = stub.seen_of("tools/call").pop().unwrap();
    assert_eq!(seen.header("mcp-protocol-version"), Some("2026-07-28"));
    assert!(seen.header("mcp-session-id").is_none(), "{:?}", seen.headers);
}

#[test]
fn the_sdk_s_upstream_is_served_to_both_eras() {
    for json in [true, false] {
        let upstream = Modern::start(json);
        let lab = Lab::with_config(&json!({"upstream": {"url": upstream.url}, "pins": TOOLS}));
        let proxy = lab.proxy(&[]);
        for peer in [Peer::stateless(&proxy.url), Peer::session(&proxy.url)] {
            assert_eq!(peer.tool_names().len(), TOOLS.len() + 2);
            let arguments = json!({"length": 3, "material": "oak"});
            let inner = json!({"name": "echo_arguments", "arguments": arguments});
            assert_eq!(peer.call("call_tool", &inner)["structuredContent"], arguments);
            assert_eq!(peer.call("echo_arguments", &arguments)["structuredContent"], arguments);
            assert_eq!(peer.call("fail_always", &json!({}))["isError"], true);
        }
    }
}

#[test]
fn clients_that_share_a_child_get_their_own_answers() {
    let lab = Lab::new();
    let record = lab.path("record");
    let script = Script::new(Era::Session)
        .on("tools/call", "\"from-a\"", result(r#"{"who":"a"}"#))
        .on("tools/call", "\"from-b\"", result(r#"{"who":"b"}"#));
    let proxy = child(&lab, script, &record);
    std::thread::scope(|scope| {
        for who in ["a", "b"] {
            let url = &proxy.url;
            scope.spawn(move || {
                let peer = Peer::session(url);
                for id in 0..100 {
                    let params = format!(r#"{{"name":"x","arguments":{{"w":"from-{who}"}}}}"#);
                    let body = peer.body(&id.to_string(), "tools/call", &params);
                    let expected =
                        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"who":"{who}"}}}}"#);
                    assert_eq!(peer.post("tools/call", Some("x"), &body).message(), expected);
                }
            });
        }
    });
}

fn child(lab: &Lab, mut script: Script, record: &Path) -> Proxy {
    script.record = Some(record.to_owned());
    let file = lab.write("script.json", &serde_json::to_string(&script).unwrap());
    let stub = bin("mws-stub-stdio").display().to_string();
    lab.proxy(&["--upstream-command", &stub, &file.display().to_string()])
}
