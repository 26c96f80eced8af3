//! The harness on direct connections: what is asserted through the proxy elsewhere holds without it here.
//!
//! Invariant: no test in this file starts a proxy.
//! Deliberately absent: anything about servers that are not part of this repository (see `real`).

use mws_tests::lab::{Lab, bin, finish};
use mws_tests::modern::{Modern, TOOLS};
use mws_tests::peer::Peer;
use mws_tests::script::{Act, Era, Script, result};
use mws_tests::stub::Stub;
use serde_json::{Value, json};

#[test]
fn the_stub_sends_and_keeps_bytes_in_both_eras() {
    let odd = r#"{"content":[ {"type":"text","text":"\ud800"}],"n":1e2}"#;
    let stub = Stub::start(Script::new(Era::Both).on("tools/call", "odd", result(odd)));
    for peer in [Peer::stateless(&stub.url), Peer::session(&stub.url)] {
        let body = peer.body("1.0", "tools/call", r#"{"name" : "odd"}"#);
        let reply = peer.post("tools/call", Some("odd"), &body);
        assert_eq!(reply.status, 200);
        assert_eq!(reply.text(), format!(r#"{{"jsonrpc":"2.0","id":1.0,"result":{odd}}}"#));
        assert_eq!(stub.seen_of("tools/call").last().unwrap().body, body);
        assert_eq!(peer.tool_names(), ["apple_pick", "pear_peel", "plum_dry"]);
    }
    let seen = stub.seen_of("tools/call");
    assert_eq!(seen[0].header("mcp-name"), Some("odd"));
    assert_eq!(seen[1].header("mcp-session-id"), Some("stub-0"));
}

#[test]
fn the_stub_sends_event_streams_and_refuses_what_its_era_lacks() {
    let pieces =
        vec![": note\r\n\r\n".to_owned(), "id: 7\r\ndata: {\"id\":$ID}\r\n\r\n".to_owned()];
    let script = Script::new(Era::Session).on("tools/call", "", Act::Stream(pieces));
    let stub = Stub::start(script);
    let peer = Peer::session(&stub.url);
    let reply = peer.request("tools/call", &json!({"name": "x"}));
    assert_eq!(reply.text(), ": note\r\n\r\nid: 7\r\ndata: {\"id\":1}\r\n\r\n");
    assert_eq!(reply.message(), "{\"id\":1}");
    assert_eq!(Peer::stateless(&stub.url).request("server/discover", &json!({})).status, 400);
    stub.play(Script::new(Era::Stateless));
    let body = peer.initialize_body();
    assert_eq!(Peer::stateless(&stub.url).post("initialize", None, &body).status, 404);
}

#[test]
fn the_sdk_upstream_serves_both_eras() {
    for json in [true, false] {
        let upstream = Modern::start(json);
        for peer in [Peer::stateless(&upstream.url), Peer::session(&upstream.url)] {
            assert_eq!(peer.tool_names(), TOOLS);
            let arguments = json!({"length": 3, "material": "oak"});
            assert_eq!(peer.call("echo_arguments", &arguments)["structuredContent"], arguments);
            assert_eq!(peer.call("fail_always", &json!({}))["isError"], json!(true));
            let saw = json!({"name": "bench_saw", "arguments": {"material": "oak"}});
            let code = peer.ask("tools/call", &saw)["error"]["code"].clone();
            let wanted = if peer.session.is_none() { json!(-32020) } else { Value::Null };
            assert_eq!(code, wanted, "a missing header is an error on the stateless protocol");
        }
    }
}

#[test]
fn the_sdk_upstream_serves_stdio() {
    let peer = Peer::stateless("http://unused/mcp");
    let request = peer.body("1", "tools/list", "{}");
    let lab = Lab::new();
    let done =
        finish(lab.command(bin("mws-modern-upstream")).arg("--stdio"), &format!("{request}\n"));
    let message: Value = serde_json::from_str(done.stdout.trim()).unwrap();
    assert_eq!(message["result"]["tools"].as_array().unwrap().len(), TOOLS.len());
}

#[test]
fn the_stdio_stub_sends_and_keeps_lines() {
    let lab = Lab::new();
    let mut script = Script::new(Era::Session).on("tools/call", "", result(r#"{"n":1.10}"#));
    script.record = Some(lab.path("record"));
    let file = lab.write("script.json", &serde_json::to_string(&script).unwrap());
    let lines = "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"tools/call\"}\n{\"method\":\"notifications/x\"}\n";
    let done = finish(lab.command(bin("mws-stub-stdio")).arg(file), lines);
    assert_eq!(done.stdout, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"n\":1.10}}\n");
    assert_eq!(std::fs::read_to_string(lab.path("record")).unwrap(), lines);
}

#[test]
fn a_program_sees_nothing_of_the_person_who_runs_the_tests() {
    let lab = Lab::new();
    let done = lab.shell("env | cut -d= -f1 | sort | tr '\\n' ' '; pwd").ok();
    let seen: Vec<_> = done.stdout.split_whitespace().collect();
    let known = ["HOME", "LANG", "OLDPWD", "PATH", "PWD", "SHLVL", "TMPDIR", "_"];
    for name in &seen[..seen.len() - 1] {
        assert!(name.starts_with("XDG_") || known.contains(name), "{name} leaks in");
    }
    assert_eq!(lab.path("").canonicalize().unwrap().to_str(), seen.last().copied());
}
