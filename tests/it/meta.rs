//! The listing and the two meta-tools.
//!
//! Invariant: what is asserted of a listing holds for both eras and for two requests in a row.
//! Deliberately absent: ranking quality, which `mws-search` measures on its own queries.

use mws_tests::lab::Lab;
use mws_tests::modern::Modern;
use mws_tests::peer::Peer;
use mws_tests::script::{Act, Era, Script, result};
use mws_tests::stub::Stub;
use serde_json::{Value, json};

const RICH: &str = r#"[{"name":"zeta_odd","vendor":{"z":1.10,"a":1},"title":"Z","description":"Odd one.","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"size":{"title":"Size","type":"integer","default":null}}},"execution":{"taskSupport":"optional"},"_meta":{"anthropic/searchHint":"odd","vendor/x":1e2}},{"name":"eu_call","description":"Has a header.","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"number"}},"required":["region"]}}]"#;

#[test]
fn a_listing_has_the_meta_tools_first_and_keeps_what_it_does_not_know() {
    each_era(RICH, &["zeta_odd"], |peer, _stub| {
        let first = peer.request("tools/list", &json!({})).message();
        let tools = peer.tools();
        assert_eq!(peer.tool_names(), ["search_tools", "call_tool", "zeta_odd"]);
        for needle in
            [r#""vendor":{"z":1.10,"a":1}"#, r#""vendor/x":1e2"#, r#""taskSupport":"optional""#]
        {
            assert!(first.contains(needle), "no {needle} in {first}");
        }
        let odd = &tools[2];
        assert_eq!(odd["_meta"]["anthropic/alwaysLoad"], true);
        assert_eq!(odd["_meta"]["anthropic/searchHint"], "odd");
        let size = &odd["inputSchema"]["properties"]["size"];
        assert_eq!(*size, json!({"type": "integer"}), "the listed schema is slimmed");
        for meta in &tools[..2] {
            assert_eq!(meta["inputSchema"]["type"], "object", "{meta}");
            assert!(!meta["description"].as_str().unwrap_or_default().is_empty(), "{meta}");
        }
        let text =
            |message: &str| serde_json::from_str::<Value>(message).unwrap()["result"].to_string();
        assert_eq!(text(&peer.request("tools/list", &json!({})).message()), text(&first));
    });
}

#[test]
fn all_pages_of_the_upstream_are_gathered() {
    for era in [Era::Stateless, Era::Session] {
        let seal = if era == Era::Stateless {
            r#""resultType":"complete","ttlMs":0,"cacheScope":"private","#
        } else {
            ""
        };
        let page = |name: &str, next: &str| {
            result(&format!(
                r#"{{{seal}"tools":[{{"name":"{name}","description":"d","inputSchema":{{"type":"object"}}}}]{next}}}"#
            ))
        };
        let script = Script::new(era)
            .on("tools/list", r#""cursor":"p2""#, page("two_b", r#","nextCursor":"p3""#))
            .on("tools/list", r#""cursor":"p3""#, page("three_c", ""))
            .on("tools/list", "", page("one_a", r#","nextCursor":"p2""#));
        let stub = Stub::start(script);
        let pins = json!(["one_a", "two_b", "three_c"]);
        let lab = Lab::with_config(&json!({"upstream": {"url": stub.url}, "pins": pins}));
        let proxy = lab.proxy(&[]);
        let peer = peer(&proxy.url, era);
        let message = peer.ask("tools/list", &json!({}));
        assert!(message["result"].get("nextCursor").is_none(), "{era:?}: {message}");
        let mut names = peer.tool_names();
        names.sort();
        assert_eq!(names, ["call_tool", "one_a", "search_tools", "three_c", "two_b"], "{era:?}");
    }
}

#[test]
fn search_finds_by_name_and_by_words_with_schemas_as_sent() {
    each_era(RICH, &[], |peer, _stub| {
        let reply = search(peer, &json!({"query": "zeta_odd"}));
        assert_eq!(reply["kind"], "exact", "{reply}");
        let size = &reply["results"][0]["inputSchema"]["properties"]["size"];
        assert_eq!(*size, json!({"title": "Size", "type": "integer", "default": null}));
        let reply = search(peer, &json!({"query": "header region"}));
        assert_eq!(reply["kind"], "ranked", "{reply}");
        assert_eq!(reply["results"][0]["name"], "eu_call", "{reply}");
        let reply = search(peer, &json!({}));
        assert_eq!(reply["kind"], "overview", "{reply}");
        assert_eq!(reply["results"], json!([]));
    });
}

#[test]
fn bad_arguments_are_told_in_a_tool_result() {
    each_era(RICH, &[], |peer, stub| {
        for (tool, arguments) in [
            ("call_tool", json!({})),
            ("call_tool", json!({"name": 5})),
            ("call_tool", json!({"name": ""})),
            ("call_tool", json!({"name": "zeta_odd", "arguments": [1]})),
            ("search_tools", json!({"query": 5})),
            ("search_tools", json!({"query": ["a"]})),
        ] {
            let result = peer.call(tool, &arguments);
            assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
            let text = result["content"][0]["text"].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{tool} {arguments}: {result}");
        }
        assert!(stub.seen_of("tools/call").is_empty(), "the upstream got a bad call");
    });
}

#[test]
fn a_name_that_is_nearly_right_gets_a_hint() {
    let unknown = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"Unknown tool"}}"#;
    each_era(RICH, &[], |peer, stub| {
        let era = if peer.session.is_some() { Era::Session } else { Era::Stateless };
        let unknown = Act::Message(unknown.to_owned());
        stub.play(Script::new(era).tools(RICH).on("tools/call", "", unknown));
        peer.tool_names();
        let result = peer.call("call_tool", &json!({"name": "zeta_od", "arguments": {}}));
        assert_eq!(result["isError"], true, "{result}");
        assert!(result.to_string().contains("zeta_odd"), "no hint in {result}");
    });
}

#[test]
fn call_tool_does_not_call_itself() {
    each_era(RICH, &[], |peer, stub| {
        let result = peer.call("call_tool", &json!({"name": "call_tool", "arguments": {}}));
        assert_eq!(result["isError"], true, "{result}");
        assert!(stub.seen_of("tools/call").is_empty(), "the upstream got a call of call_tool");
    });
}

#[test]
fn call_tool_works_before_the_first_listing() {
    let upstream = Modern::start(true);
    let lab = Lab::facing(&upstream.url);
    let proxy = lab.proxy(&[]);
    let inner = json!({"name": "bench_saw", "arguments": {"length": 3, "material": "oak"}});
    let result = Peer::stateless(&proxy.url).call("call_tool", &inner);
    assert!(result["content"][0]["text"].as_str().unwrap().contains("bench_saw done"), "{result}");
}

#[test]
fn call_tool_sends_the_inner_call_as_it_was_written() {
    each_era(RICH, &[], |peer, stub| {
        peer.tool_names();
        let inner =
            r#"{"n": 1.10,"region":"eu", "big":123456789012345678901234567890,"s":"\ud800"}"#;
        let params = format!(
            r#"{{"name":"call_tool","arguments":{{"name":"eu_call","arguments":{inner}}}}}"#
        );
        let body = peer.body("9", "tools/call", &params);
        let reply = peer.post("tools/call", Some("call_tool"), &body);
        let seen = stub.seen_of("tools/call").pop().expect("nothing reached the upstream");
        assert!(seen.body.contains(inner), "{}", seen.body);
        let sent: Value = serde_json::from_str(&seen.body.replace(r"\ud800", "")).unwrap();
        assert_eq!((&sent["id"], &sent["params"]["name"]), (&json!(9), &json!("eu_call")));
        assert!(reply.text().contains("plain answer"), "{}", reply.text());
        if peer.session.is_none() {
            assert_eq!(seen.header("mcp-method"), Some("tools/call"));
            assert_eq!(seen.header("mcp-name"), Some("eu_call"));
            assert_eq!(seen.header("mcp-param-region"), Some("eu"));
        }
    });
}

#[test]
fn parameters_that_no_header_can_hold_are_encoded() {
    let stub = Stub::start(Script::new(Era::Stateless).tools(RICH));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    peer.tool_names();
    for (region, header) in
        [("ä", "=?base64?w6Q=?="), (" x", "=?base64?IHg=?="), ("a\nb", "=?base64?YQpi?=")]
    {
        peer.call("call_tool", &json!({"name": "eu_call", "arguments": {"region": region}}));
        let seen = stub.seen_of("tools/call").pop().unwrap();
        assert_eq!(seen.header("mcp-param-region"), Some(header), "{region:?}");
    }
}

#[test]
fn a_call_of_an_unlisted_tool_gets_the_headers_that_its_client_cannot_know_of() {
    let rows = [
        ("", r#"{"region":"\u00e4","n":1}"#, &[][..], Some("=?base64?w6Q=?=")),
        ("", r#"{"n":1}"#, &[], None),
        ("Mcp-Param-Region: us\n", r#"{"region":"eu"}"#, &[], Some("us")),
        // A client that has the tool in its list is told by the upstream what it left out.
        ("", r#"{"region":"eu"}"#, &["eu_call"], None),
    ];
    for (own, arguments, pins, header) in rows {
        let stub = Stub::start(Script::new(Era::Stateless).tools(RICH));
        let lab = Lab::with_config(&json!({"upstream": {"url": stub.url}, "pins": pins}));
        let proxy = lab.proxy(&[]);
        let peer = Peer::stateless(&proxy.url);
        peer.tool_names();
        let head = peer.head("tools/call", Some("eu_call")) + own;
        let params = format!(r#"{{"name":"eu_call","arguments":{arguments}}}"#);
        let body = peer.body("1", "tools/call", &params);
        mws_tests::raw::exchange(proxy.address(), &head, body.as_bytes()).unwrap();
        let seen = stub.seen_of("tools/call").pop().unwrap();
        assert_eq!(seen.header("mcp-param-region"), header, "{own}{arguments} {pins:?}");
        assert!(seen.body.contains(arguments), "{}", seen.body);
    }
}

#[test]
fn a_streamed_list_ends_apart_from_its_message() {
    let list = format!(
        r#"data: {{"jsonrpc":"2.0","id":$ID,"result":{{"resultType":"complete","tools":{RICH},"ttlMs":0,"cacheScope":"private"}}}}"#
    );
    let streamed = Act::Stream(vec![format!("{list}\n\n")]);
    let stub = Stub::start(Script::new(Era::Stateless).on("tools/list", "", streamed));
    let lab = Lab::with_config(&json!({"upstream": {"url": stub.url}, "pins": ["eu_call"]}));
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    peer.tool_names();
    let reply = peer.request("tools/list", &json!({}));
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    assert_eq!(reply.header("content-length"), None);
    assert!(reply.text().contains(r#""x-mcp-header":"Region""#), "{}", reply.text());
}

#[test]
fn a_result_through_call_tool_is_byte_equal() {
    let odd =
        r#"{"content":[{"type":"hologram","n":1e2}],"z":1,"a":123456789012345678901234567890}"#;
    for era in [Era::Stateless, Era::Session] {
        let stub = Stub::start(Script::new(era).tools(RICH).on("tools/call", "", result(odd)));
        let lab = Lab::facing(&stub.url);
        let proxy = lab.proxy(&[]);
        let peer = peer(&proxy.url, era);
        let params = r#"{"name":"call_tool","arguments":{"name":"zeta_odd","arguments":{}}}"#;
        let reply =
            peer.post("tools/call", Some("call_tool"), &peer.body("9", "tools/call", params));
        assert_eq!(
            reply.text(),
            format!(r#"{{"jsonrpc":"2.0","id":9,"result":{odd}}}"#),
            "{era:?}"
        );
    }
}

#[test]
fn headers_that_concern_the_upstream_are_passed_on_and_others_are_not() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    let extra = "traceparent: 00-1-2-01\nAuthorization: Bearer t\nMcp-Param-Region: eu\nAccept-Encoding: gzip\nProxy-Authorization: x\nCookie: a=b\n";
    let head = peer.head("tools/call", Some("apple_pick")) + extra;
    let body = peer.body("1", "tools/call", r#"{"name":"apple_pick"}"#);
    mws_tests::raw::exchange(proxy.address(), &head, body.as_bytes()).unwrap();
    let seen = stub.seen_of("tools/call").pop().unwrap();
    for (name, value) in [
        ("traceparent", Some("00-1-2-01")),
        ("authorization", None),
        ("cookie", None),
        ("mcp-param-region", Some("eu")),
        ("mcp-protocol-version", Some("2026-07-28")),
        ("mcp-method", Some("tools/call")),
        ("mcp-name", Some("apple_pick")),
        ("accept-encoding", None),
        ("proxy-authorization", None),
        ("host", Some(stub.address())),
    ] {
        assert_eq!(seen.header(name), value, "{name}");
    }
}

#[test]
fn the_upstream_hears_who_calls() {
    let stub = Stub::start(Script::new(Era::Both));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let session = Peer::session(&proxy.url);
    session.call("apple_pick", &json!({}));
    for seen in stub.seen_of("initialize") {
        let sent: Value = serde_json::from_str(&seen.body).unwrap();
        let name = sent["params"]["clientInfo"]["name"].as_str().unwrap();
        assert!(name.starts_with("mcp-working-set"), "{name}");
    }
    Peer::stateless(&proxy.url).named("editor").call("apple_pick", &json!({}));
    let seen = stub.seen_of("tools/call").pop().unwrap();
    assert!(seen.body.contains(r#""name":"mcp-working-set/editor""#), "{}", seen.body);
}

#[test]
fn what_the_upstream_says_of_itself_is_kept() {
    for era in [Era::Stateless, Era::Session] {
        let stub = Stub::start(Script::new(era));
        let lab = Lab::facing(&stub.url);
        let proxy = lab.proxy(&[]);
        let text = if era == Era::Stateless {
            Peer::stateless(&proxy.url).request("server/discover", &json!({})).message()
        } else {
            let fresh = Peer::stateless(&proxy.url);
            fresh.post("initialize", None, &fresh.initialize_body()).message()
        };
        assert!(text.contains(r#""vendorThing":{"depth":1.0}"#), "{era:?}: {text}");
        let message: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(message["result"]["capabilities"]["tools"]["listChanged"], true, "{era:?}");
        assert!(message["result"]["instructions"].as_str().unwrap().contains("Stub."), "{era:?}");
    }
}

#[test]
fn a_hung_call_does_not_hold_up_others() {
    let stub = Stub::start(Script::new(Era::Stateless).on("tools/call", "plum_dry", Act::Hang));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    let body = peer.body("1", "tools/call", r#"{"name":"plum_dry"}"#);
    let _hanging = peer.open("tools/call", Some("plum_dry"), &body);
    assert_eq!(peer.call("apple_pick", &json!({}))["content"][0]["text"], "plain answer");
}

fn each_era(tools: &str, pins: &[&str], test: impl Fn(&Peer, &Stub)) {
    for era in [Era::Stateless, Era::Session] {
        let stub = Stub::start(Script::new(era).tools(tools));
        let lab = Lab::with_config(&json!({"upstream": {"url": stub.url}, "pins": pins}));
        let proxy = lab.proxy(&[]);
        test(&peer(&proxy.url, era), &stub);
    }
}

fn peer(url: &str, era: Era) -> Peer {
    if era == Era::Session { Peer::session(url) } else { Peer::stateless(url) }
}

fn search(peer: &Peer, arguments: &Value) -> Value {
    let result = peer.call("search_tools", arguments);
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
    serde_json::from_str(text).unwrap()
}
