//! What the proxy adds to a server: names it knows better, schemas after a refusal, news of a changed
//! listing, and whose credentials pass.
//!
//! Invariant: each addition is shown together with the case in which nothing is added.
//! Deliberately absent: the two meta-tools' plain working; see `meta`.

use mws_tests::lab::{Lab, eventually};
use mws_tests::peer::Peer;
use mws_tests::pipe::Pipe;
use mws_tests::raw::{RawStream, exchange, open};
use mws_tests::script::{Act, Era, Script, result};
use mws_tests::stub::Stub;
use serde_json::{Value, json};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(8);
const CHANGED: &str = "notifications/tools/list_changed";

fn peer(url: &str, era: Era) -> Peer {
    if era == Era::Session { Peer::session(url) } else { Peer::stateless(url) }
}

#[test]
fn a_wrong_name_gets_the_three_nearest() {
    for era in [Era::Stateless, Era::Session] {
        let stub = Stub::start(Script::new(era));
        let lab = Lab::facing(&stub.url);
        let proxy = lab.proxy(&[]);
        for wrong in ["pick_apple", "apple_pik", "mcp__toolbox__apple_pick", "zzz"] {
            let result = peer(&proxy.url, era).call("call_tool", &json!({"name": wrong}));
            assert_eq!(result["isError"], true, "{result}");
            let text = result["content"][0]["text"].as_str().unwrap();
            for name in ["apple_pick", "pear_peel", "plum_dry"] {
                assert!(text.contains(name), "{wrong}: {text}");
            }
            let first = text.find("apple_pick") < text.find("pear_peel");
            assert!(first || wrong == "zzz", "{wrong}: {text}");
        }
        assert!(stub.seen_of("tools/call").is_empty());
    }
}

#[test]
fn arguments_that_the_upstream_refuses_bring_the_schema_and_only_through_call_tool() {
    let schema =
        r#"{"type":"object","properties":{"knife":{"type":"string"}},"required":["knife"]}"#;
    let quoted = serde_json::to_string(schema).unwrap();
    let inner = quoted.trim_matches('"');
    let refusal = |text: &str| {
        format!(r#"{{"isError":true,"content":[{{"type":"text","text":"{text}"}}],"z":1.0}}"#)
    };
    let invalid = refusal("Input validation error: knife is required");
    let event = format!(
        "event: message\nid: 1\ndata: {{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{invalid}}}\n\n"
    );
    let error = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"bad","data":1.0}}"#;
    for (act, arguments, added) in [
        (result(&invalid), json!({"knife": "x"}), true),
        (Act::Stream(vec![": hi\n\n".into(), event]), json!({"knife": "x"}), true),
        (Act::Message(error.into()), json!({"knife": "x"}), true),
        (result(&refusal("it broke")), json!({}), true),
        (result(&refusal("it broke")), json!({"knife": "x"}), false),
    ] {
        for era in [Era::Stateless, Era::Session] {
            let stub = Stub::start(Script::new(era).on("tools/call", "", act.clone()));
            let lab = Lab::facing(&stub.url);
            let proxy = lab.proxy(&[]);
            let peer = peer(&proxy.url, era);
            peer.tool_names();
            let wrapped = json!({"name": "pear_peel", "arguments": arguments});
            let wrapped = json!({"name": "call_tool", "arguments": wrapped});
            let through = peer.request("tools/call", &wrapped).text();
            assert_eq!(through.matches(inner).count(), usize::from(added), "{era:?}: {through}");
            assert!(through.contains("1.0"), "{through}");
            let direct = json!({"name": "pear_peel", "arguments": arguments});
            let direct = peer.request("tools/call", &direct).text();
            assert!(!direct.contains(inner), "{era:?}: {direct}");
            assert!(eventually(SOON, || lab.calls("pear_peel").len() == 2));
            assert!(lab.calls("pear_peel").iter().all(|call| call["ok"] == false));
        }
    }
}

#[test]
fn a_tool_in_the_shadow_of_a_meta_tool_is_reached_and_reported() {
    let tools = r#"[{"name":"search_tools","description":"Theirs.","inputSchema":{"type":"object"}},{"name":"call_tool","description":"Theirs.","inputSchema":{"type":"object"}}]"#;
    for era in [Era::Stateless, Era::Session] {
        let stub = Stub::start(Script::new(era).tools(tools));
        let pins = json!(["search_tools", "call_tool"]);
        let lab = Lab::with_config(&json!({"upstream": {"url": stub.url}, "pins": pins}));
        let proxy = lab.proxy(&[]);
        let peer = peer(&proxy.url, era);
        assert_eq!(peer.tool_names(), ["search_tools", "call_tool"], "{era:?}");
        for name in ["search_tools", "call_tool"] {
            let result =
                peer.call("call_tool", &json!({"name": name, "arguments": {"query": "x"}}));
            assert_eq!(result["content"][0]["text"], "plain answer", "{name}");
            let told = format!("a tool named {name}");
            assert!(eventually(SOON, || proxy.stderr().contains(&told)), "{}", proxy.stderr());
        }
        assert_eq!(stub.seen_of("tools/call").len(), 2);
        let said = lab.run("mws", &["doctor"]);
        let said = said.stdout + &said.stderr;
        assert!(said.contains("'search_tools'") && said.contains("'call_tool'"), "{said}");
    }
}

#[test]
fn authorization_passes_where_it_is_configured_and_a_cookie_never() {
    for forwards in [true, false] {
        let stub = Stub::start(Script::new(Era::Both));
        let upstream = json!({"url": stub.url, "forwardAuthorization": forwards});
        let lab = Lab::with_config(&json!({"upstream": upstream}));
        let proxy = lab.proxy(&[]);
        let peer = Peer::stateless(&proxy.url);
        let extra = "Authorization: Bearer s3cret\nCookie: a=b\ntraceparent: 00-1-2-01\n";
        let head = peer.head("tools/call", Some("apple_pick")) + extra;
        let body = peer.body("1", "tools/call", r#"{"name":"apple_pick"}"#);
        exchange(proxy.address(), &head, body.as_bytes()).unwrap();
        let seen = stub.seen_of("tools/call").pop().unwrap();
        assert_eq!(seen.header("authorization"), forwards.then_some("Bearer s3cret"));
        assert_eq!((seen.header("cookie"), seen.header("traceparent")), (None, Some("00-1-2-01")));
        drop(proxy);
        let kept = lab.shell("grep -rl s3cret . ; true");
        assert_eq!(kept.stdout, "", "the token was written down");
    }
}

fn publish(lab: &Lab, names: &[&str]) {
    let tools: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    lab.write_state("working-set.json", &json!({"v": 1, "tools": tools}).to_string());
}

fn session_stream(address: &str, peer: &Peer) -> RawStream {
    let session = peer.session.as_deref().unwrap_or_default();
    let head = format!(
        "GET /mcp HTTP/1.1\nHost: {address}\nAccept: text/event-stream\n\
         MCP-Protocol-Version: 2025-11-25\nMcp-Session-Id: {session}\n"
    );
    open(address, &head, b"").unwrap()
}

#[test]
fn a_promotion_is_told_on_open_streams_only_where_that_is_configured() {
    for told in [true, false] {
        let ack = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{\"notifications\":{}}}\n\n";
        let listening = Act::Open(vec![ack.to_owned()]);
        let stub = Stub::start(Script::new(Era::Both).on("subscriptions/listen", "", listening));
        let config = json!({"upstream": {"url": stub.url}, "notifyOnPromotion": told});
        let lab = Lab::with_config(&config);
        let proxy = lab.proxy(&[]);
        let session = Peer::session(&proxy.url);
        session.tool_names();
        let mut of_session = session_stream(proxy.address(), &session);
        let stateless = Peer::stateless(&proxy.url);
        let body = stateless.body(
            "\"sub\"",
            "subscriptions/listen",
            r#"{"notifications":{"toolsListChanged":true}}"#,
        );
        let mut listening = stateless.open("subscriptions/listen", None, &body);
        assert!(listening.read_until("acknowledged", SOON));
        // The state before the change is looked at first.
        std::thread::sleep(Duration::from_millis(1200));
        publish(&lab, &["pear_peel"]);
        let limit = if told { SOON } else { Duration::from_millis(2500) };
        assert_eq!(listening.read_until(CHANGED, limit), told, "listen");
        if told {
            assert!(
                listening.read_until("\"io.modelcontextprotocol/subscriptionId\":\"sub\"", SOON)
            );
        }
        assert_eq!(of_session.read_until(CHANGED, limit), told, "session stream");
        assert!(session.tool_names().contains(&"pear_peel".to_owned()));
    }
}

#[test]
fn a_promotion_is_told_on_stdout() {
    let stub = Stub::start(Script::new(Era::Session));
    let config = json!({"upstream": {"url": stub.url}, "notifyOnPromotion": true});
    let lab = Lab::with_config(&config);
    let mut command = lab.command(mws_tests::lab::bin("mws-proxy"));
    command.arg("--stdio");
    let mut pipe = Pipe::start(command);
    let opened = pipe.ask("0", &Peer::stateless(&stub.url).initialize_body());
    assert!(opened.contains(r#""listChanged":true"#), "{opened}");
    pipe.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    pipe.ask("1", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    std::thread::sleep(Duration::from_millis(1500));
    publish(&lab, &["pear_peel"]);
    assert!(pipe.hears(CHANGED, SOON));
}

#[test]
fn a_promotion_is_told_after_the_configuration_was_read_anew() {
    let stub = Stub::start(Script::new(Era::Session));
    let config = json!({"upstream": {"url": stub.url}, "notifyOnPromotion": true});
    let lab = Lab::with_config(&config);
    let proxy = lab.proxy(&[]);
    let session = Peer::session(&proxy.url);
    session.tool_names();
    let mut before = session_stream(proxy.address(), &session);
    proxy.signal(rustix::process::Signal::HUP);
    std::thread::sleep(Duration::from_millis(500));
    let later = Peer::session(&proxy.url);
    later.tool_names();
    let mut after = session_stream(proxy.address(), &later);
    std::thread::sleep(Duration::from_millis(1200));
    publish(&lab, &["pear_peel"]);
    assert!(after.read_until(CHANGED, SOON), "opened after it");
    assert!(before.read_until(CHANGED, SOON), "opened before it");
}
