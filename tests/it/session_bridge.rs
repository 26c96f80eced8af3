//! A session client in front of an upstream that speaks the stateless protocol alone: at both fronts,
//! over both kinds of upstream.
//!
//! Invariant: the client sees a server of its own protocol, the upstream a client of its own; bytes
//! that no difference of the two asks to change arrive as they were sent.
//! Deliberately absent: questions of the upstream to the client; see `questions`.

use mws_tests::front::{initialize, ways};
use mws_tests::lab::{Lab, eventually};
use mws_tests::peer::Peer;
use mws_tests::script::{Act, Era, Script, result};
use mws_tests::stub::Stub;
use serde_json::json;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
const KEYS: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"mcp-working-set/suite","version":"1","n":1e2},"io.modelcontextprotocol/clientCapabilities":{"roots":{ "x":1.10}}"#;
const CAPABILITIES: &str = r#"{"roots":{ "x":1.10},"tasks":{"list":{}}}"#;

#[test]
fn initialize_is_answered_from_what_the_upstream_says_of_itself() {
    for mut way in ways(&Script::new(Era::Stateless), "{}") {
        let want = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{},"prompts":{},"completions":{},"vendorThing":{"depth":1.0}},"serverInfo":{"name":"stub","version":"0.1"},"instructions":"Only the tools"#;
        let is_so = way.opened.starts_with(want) && way.opened.ends_with(r#"\n\nStub."}}"#);
        assert!(is_so, "{}: {}", way.name, way.opened);
        // Neither the greeting nor what ends it is known to the upstream.
        way.ask("1", "tools/call", r#"{"name":"apple_pick"}"#);
        assert_eq!(way.received("notifications/initialized").len(), 0, "{}", way.name);
        if let Some(peer) = way.peer() {
            let strange = peer.post("initialize", None, &initialize("1999-01-01", "{}"));
            assert!(strange.text().contains(r#""protocolVersion":"2025-11-25""#));
            assert_ne!(strange.header("mcp-session-id"), peer.session.as_deref());
        }
    }
}

#[test]
fn a_request_says_who_asks_and_keeps_its_bytes() {
    for mut way in ways(&script(), CAPABILITIES) {
        let params = r#"{"name":"saw","arguments":{"n": 1.10,"material":"ash é"},"z":[ ],"_meta":{"own":1e2}}"#;
        way.ask("7", "tools/call", params);
        let got = way.received("tools/call").pop().unwrap();
        let want = format!(
            r#""method":"tools/call","params":{{"name":"saw","arguments":{{"n": 1.10,"material":"ash é"}},"z":[ ],"_meta":{{"own":1e2,{KEYS}}}}}}}"#
        );
        assert!(got.ends_with(&want), "{}: {got}", way.name);
        way.ask("8", "resources/read", r#"{"uri":"file:///ä"}"#);
        let got = way.received("resources/read").pop().unwrap();
        let want = format!(r#""params":{{"uri":"file:///ä","_meta":{{{KEYS}}}}}}}"#);
        assert!(got.ends_with(&want), "{}: {got}", way.name);
        way.ask("9", "vendor/thing", r#"{"name":"n"}"#);
        assert_eq!(way.received("vendor/thing").len(), 1, "{}", way.name);
        let bad = way.ask("10", "vendor/thing", "[1]");
        assert!(bad.contains("-32602"), "{}: {bad}", way.name);
        let Some(stub) = &way.stub else { continue };
        let (call, read) = (stub.seen_of("tools/call").remove(0), stub.seen_of("resources/read"));
        for (name, value) in [
            ("mcp-protocol-version", Some("2026-07-28")),
            ("mcp-method", Some("tools/call")),
            ("mcp-name", Some("saw")),
            ("mcp-param-material", Some("=?base64?YXNoIMOp?=")),
            ("mcp-session-id", None),
            ("content-type", Some("application/json")),
        ] {
            assert_eq!(call.header(name), value, "{}: {name}", way.name);
        }
        assert_eq!(read[0].header("mcp-method"), Some("resources/read"));
        assert_eq!(read[0].header("mcp-name"), Some("=?base64?ZmlsZTovLy/DpA==?="));
        assert_eq!(stub.seen_of("vendor/thing")[0].header("mcp-name"), None);
    }
}

#[test]
fn a_result_loses_what_only_the_stateless_protocol_has() {
    let odd = r#"{"resultType":"complete","content":[{"type":"hologram","n":1e2}],"z":1.10 ,"structuredContent":[1],"_meta":{"b":"\ud800","a":{}}}"#;
    let want =
        r#"{"content":[{"type":"hologram","n":1e2}],"z":1.10 ,"_meta":{"b":"\ud800","a":{}}}"#;
    let event = format!(
        ": hi\n\nevent: message\ndata: {{\"method\":\"notifications/message\",\"params\":{{\"n\":1e2}}}}\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{odd}}}\n\n"
    );
    let script = script()
        .on("tools/call", "apple", result(odd))
        .on("tools/call", "pear", Act::Stream(vec![event]))
        .on(
            "prompts/list",
            "",
            Act::Status(
                404,
                r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no","data":1e2}}"#
                    .into(),
            ),
        );
    for mut way in ways(&script, "{}") {
        let got = way.ask("7", "tools/call", r#"{"name":"apple"}"#);
        assert_eq!(got, format!(r#"{{"jsonrpc":"2.0","id":7,"result":{want}}}"#), "{}", way.name);
        let got = way.ask("\"s\"", "prompts/list", "{}");
        let error =
            r#"{"jsonrpc":"2.0","id":"s","error":{"code":-32601,"message":"no","data":1e2}}"#;
        assert_eq!(got, error, "{}", way.name);
        if way.stub.is_some() {
            way.start("8", "tools/call", r#"{"name":"pear"}"#);
            let told = way.hear("notifications/message");
            assert_eq!(told, r#"{"method":"notifications/message","params":{"n":1e2}}"#);
            let got = way.hear("\"id\":8,");
            assert_eq!(got, format!(r#"{{"jsonrpc":"2.0","id":8,"result":{want}}}"#));
        }
    }
}

#[test]
fn progress_comes_under_the_client_s_own_token() {
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,"progress":1.0}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}"#;
    // On a pipe the token is the proxy's own, which is the id.
    let lines = vec![progress.replace("TOKEN", "$ID"), answer.to_owned()];
    for mut way in ways(&script().on("tools/call", "", Act::Stream(lines)), "{}") {
        if let Some(stub) = &way.stub {
            let pieces = [&progress.replace("TOKEN", "\"mine\""), answer];
            let pieces = pieces.iter().map(|text| format!("data: {text}\n\n")).collect();
            stub.play(script().on("tools/call", "", Act::Stream(pieces)));
        }
        way.start("5", "tools/call", r#"{"name":"plum_dry","_meta":{"progressToken":"mine"}}"#);
        let got = way.hear("notifications/progress");
        assert_eq!(got, progress.replace("TOKEN", "\"mine\""), "{}", way.name);
        assert!(way.hear("\"id\":5,").contains("content"));
    }
}

#[test]
fn what_the_stateless_protocol_lacks_is_answered_here() {
    for mut way in ways(&script(), "{}") {
        assert_eq!(way.ask("1", "ping", "{}"), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        let level = way.ask("2", "logging/setLevel", r#"{"level":"notice"}"#);
        assert_eq!(level, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
        let wrong = way.ask("3", "logging/setLevel", r#"{"level":"loud"}"#);
        assert!(wrong.contains("-32602"), "{}: {wrong}", way.name);
        way.ask("4", "tools/call", r#"{"name":"apple_pick"}"#);
        let call = way.received("tools/call").pop().unwrap();
        assert!(call.contains(r#""io.modelcontextprotocol/logLevel":"notice""#), "{call}");
        way.tell(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
        for method in ["tasks/get", "tasks/list", "tasks/result", "tasks/cancel"] {
            let refused = way.ask("5", method, r#"{"taskId":"t"}"#);
            assert!(refused.contains("-32601"), "{}: {refused}", way.name);
        }
        way.ask("6", "tools/call", r#"{"name":"apple_pick"}"#);
        for method in ["ping", "logging/setLevel", "notifications/roots/list_changed", "tasks/get"]
        {
            assert_eq!(way.received(method).len(), 0, "{}: {method}", way.name);
        }
    }
}

#[test]
fn changes_upstream_reach_the_session_s_stream() {
    let changed = |what: &str, more: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/{what}","params":{{{more}"_meta":{{"io.modelcontextprotocol/subscriptionId":$ID}}}}}}"#
        )
    };
    let lists = [
        changed("subscriptions/acknowledged", r#""notifications":{"toolsListChanged":true},"#),
        changed("tools/list_changed", ""),
        changed("prompts/list_changed", r#""v":1e2,"#),
    ];
    let agreed = r#""notifications":{"resourceSubscriptions":["a://b"]},"#;
    let updates = [
        changed("subscriptions/acknowledged", agreed),
        changed("resources/updated", r#""uri":"a://b","#),
    ];
    for (front, http) in [(0, true), (1, false), (2, true), (3, false)] {
        let open = |texts: &[String]| match http {
            true => Act::Open(texts.iter().map(|text| format!("data: {text}\n\n")).collect()),
            false => Act::Open(texts.to_vec()),
        };
        let script = script().on("subscriptions/listen", "a://b", open(&updates)).on(
            "subscriptions/listen",
            "",
            open(&lists),
        );
        let mut way = ways(&script, CAPABILITIES).swap_remove(front);
        way.listen();
        let tools = way.notified("tools/list_changed");
        assert_eq!(
            tools,
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}"#
        );
        let prompts = way.notified("prompts/list_changed");
        assert!(prompts.ends_with(r#""params":{"v":1e2}}"#), "{}: {prompts}", way.name);
        let asked = way.received("subscriptions/listen").pop().unwrap();
        let filter = r#""params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true},"_meta":{"#;
        assert!(asked.contains(filter) && asked.contains(KEYS), "{}: {asked}", way.name);

        let done = way.ask("4", "resources/subscribe", r#"{"uri":"a://b"}"#);
        assert_eq!(done, r#"{"jsonrpc":"2.0","id":4,"result":{}}"#, "{}", way.name);
        let updated = way.notified("resources/updated");
        assert!(updated.ends_with(r#""params":{"uri":"a://b"}}"#), "{}: {updated}", way.name);
        let asked = way.received("subscriptions/listen").pop().unwrap();
        assert!(asked.contains(r#","resourceSubscriptions":["a://b"]}"#), "{}: {asked}", way.name);
        // The next one is open before the last one is closed: there is one in the end.
        assert!(way.gives_up("subscriptions/listen", 1), "{}", way.name);
        let done = way.ask("5", "resources/unsubscribe", r#"{"uri":"a://b"}"#);
        assert_eq!(done, r#"{"jsonrpc":"2.0","id":5,"result":{}}"#, "{}", way.name);
        assert!(way.receives("subscriptions/listen", 3), "{}", way.name);
        let asked = way.received("subscriptions/listen").pop().unwrap();
        assert!(!asked.contains("resourceSubscriptions"), "{}: {asked}", way.name);
        for method in ["resources/subscribe", "resources/unsubscribe"] {
            assert_eq!(way.received(method).len(), 0, "{}: {method}", way.name);
        }
    }
}

#[test]
fn a_subscription_that_the_upstream_does_not_take_is_refused() {
    let error = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"none here"}}"#;
    let script = script().on("subscriptions/listen", "", Act::Status(404, error.to_owned()));
    for mut way in ways(&script, "{}") {
        for id in ["4", "5"] {
            let refused = way.ask(id, "resources/subscribe", r#"{"uri":"a://b"}"#);
            assert!(refused.contains("-32601") && refused.contains("none here"), "{refused}");
        }
        let wrong = way.ask("6", "resources/subscribe", r#"{"uri":1}"#);
        assert!(wrong.contains("-32602"), "{}: {wrong}", way.name);
    }
}

#[test]
fn a_cancelled_request_is_given_up_upstream_and_one_left_alone_is_not() {
    let script = script().on("tools/call", "plum", Act::Hang);
    for mut way in ways(&script, "{}") {
        way.ask("1", "tools/call", r#"{"name":"apple_pick"}"#);
        way.start("2", "tools/call", r#"{"name":"plum_dry"}"#);
        assert!(way.receives("tools/call", 2), "{}", way.name);
        if way.hang_up() {
            way.start("3", "tools/call", r#"{"name":"plum_dry"}"#);
            assert!(way.receives("tools/call", 3), "{}", way.name);
        }
        assert!(!way.gives_up_at_once("tools/call"), "{}", way.name);
        way.tell(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"r"}}"#);
        assert!(way.gives_up("tools/call", 1), "{}", way.name);
        let failed = || way.lab.calls("plum_dry").iter().any(|call| call["ok"] == false);
        assert!(eventually(PATIENCE, failed), "{}: {:?}", way.name, way.lab.events());
    }
}

#[test]
fn the_meta_tools_and_the_event_log_work() {
    let answer = r#"{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#;
    let script = script().on("tools/call", "saw", result(answer));
    for mut way in ways(&script, "{}") {
        let found =
            way.ask("1", "tools/call", r#"{"name":"search_tools","arguments":{"query":"saw"}}"#);
        assert!(found.contains(r#"\"kind\":\"exact\""#), "{}: {found}", way.name);
        let inner =
            r#"{"name":"call_tool","arguments":{"name":"saw","arguments":{"material":"oak"}}}"#;
        let got = way.ask("2", "tools/call", inner);
        let want =
            r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"done"}]}}"#;
        assert_eq!(got, want, "{}", way.name);
        let asked = way.received("tools/call").pop().unwrap();
        assert!(asked.contains(r#""name":"saw","arguments":{"material":"oak"}"#), "{asked}");
        if let Some(stub) = &way.stub {
            let call = stub.seen_of("tools/call").pop().unwrap();
            assert_eq!(call.header("mcp-name"), Some("saw"));
            assert_eq!(call.header("mcp-param-material"), Some("oak"));
        }
        assert!(eventually(PATIENCE, || way.lab.calls("saw").len() == 1), "{}", way.name);
        let call = way.lab.calls("saw").remove(0);
        assert_eq!(call["client"], "suite", "{}: {call}", way.name);
        assert_eq!((&call["ok"], &call["via"]), (&json!(true), &json!("call_tool")), "{call}");
        assert!(call["conn"].is_string(), "{call}");
    }
}

#[test]
fn a_batch_is_answered_as_an_array() {
    for mut way in ways(&script(), "{}") {
        let Some(peer) = way.peer() else { continue };
        let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/roots/list_changed"},{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"apple_pick"}}]"#;
        let reply = peer.post("", None, batch).text();
        let want = r#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":"b","result":{"content":[{"type":"text","text":"plain answer"}],"isError":false}}]"#;
        assert_eq!(reply, want, "{}", way.name);
        way.tell("[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}]");
    }
}

#[test]
fn a_batch_with_more_than_answers_is_a_stream() {
    let told = r#"{"method":"notifications/message","params":{"n":1e2}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}"#;
    let asks = r#"{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}}}"#;
    let script = script()
        .on("tools/call", "pear", Act::Stream(vec![format!("data: {told}\n\ndata: {answer}\n\n")]))
        .on("tools/call", "inputResponses", result(r#"{"content":[]}"#))
        .on("tools/call", "fig", result(asks));
    let way = ways(&script, CAPABILITIES).swap_remove(0);
    let peer = way.peer().unwrap();
    let call = |id: &str, name: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}"}}}}"#
        )
    };
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let batch =
        format!("[{ping},{},{},{}]", call("2", "pear"), call("3", "fig"), call("4", "plum"));
    let mut stream = peer.open("", None, &batch);
    let mut next =
        |text: &str| stream.line_with(text, PATIENCE).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(next("\"id\":1,"), r#"data: {"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_eq!(next("notifications/message"), format!("data: {told}"));
    next("\"id\":2,");
    next("roots/list");
    peer.post("", None, r#"[{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}]"#);
    assert_eq!(next("\"id\":3,"), r#"data: {"jsonrpc":"2.0","id":3,"result":{"content":[]}}"#);
    next("plain answer");
}

#[test]
fn output_schemas_that_the_session_protocol_lacks_are_not_listed() {
    let tools = r#"[{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}},{"name":"b","inputSchema":{"type":"object"},"outputSchema":{"type":"object","n":1e2}}]"#;
    let stub = Stub::start(Script::new(Era::Stateless).tools(tools));
    let lab = Lab::with_config(&json!({"upstream": {"url": stub.url}, "pins": ["a", "b"]}));
    let proxy = lab.proxy(&[]);
    let listed = Peer::session(&proxy.url).tools();
    assert_eq!(listed[2].get("outputSchema"), None);
    assert_eq!(listed[3]["outputSchema"]["type"], "object");
    assert_eq!(Peer::stateless(&proxy.url).tools()[2]["outputSchema"]["type"], "array");
}

#[test]
fn a_session_opened_while_the_upstream_was_down_is_bridged_later() {
    let stub = Stub::start(script());
    let address = stub.address().to_owned();
    let lab = Lab::facing(&stub.url);
    let first = lab.proxy(&[]);
    let old = Peer::session(&first.url);
    old.call("apple_pick", &json!({}));
    let session = old.session.clone();
    drop((stub, first));
    let proxy = lab.proxy(&[]);
    // A session of an earlier run is known to be lost, so the client opens a new one.
    let mut lost = Peer::stateless(&proxy.url);
    lost.session = session;
    assert_eq!(lost.post("tools/list", None, &lost.body("1", "tools/list", "{}")).status, 404);
    let peer = Peer::session(&proxy.url);
    let _stub = Stub::start_at(&address, script());
    let result = peer.call("apple_pick", &json!({}));
    assert_eq!(result["content"][0]["text"], "plain answer");
    assert_eq!(result.get("resultType"), None);
}

#[test]
fn an_ended_session_is_refused_and_not_listened_for() {
    let open = Act::Open(vec![": hi\n\n".to_owned()]);
    let stub = Stub::start(script().on("subscriptions/listen", "", open));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::session(&proxy.url);
    let mut stream = peer.listen();
    assert!(stream.read_until("x-accel-buffering: no", PATIENCE));
    assert!(eventually(PATIENCE, || stub.seen_of("subscriptions/listen").len() == 1));
    assert_eq!(peer.end().status, 200);
    assert!(eventually(PATIENCE, || stub.closed_of("subscriptions/listen") == 1));
    assert_eq!(peer.post("ping", None, &peer.body("1", "ping", "{}")).status, 404);
}

/// An upstream with a tool whose parameter is repeated in a header.
fn script() -> Script {
    let tools = r#"[{"name":"saw","description":"Saws wood.","inputSchema":{"type":"object","properties":{"material":{"type":"string","x-mcp-header":"Material"}}}},{"name":"apple_pick","inputSchema":{"type":"object"}}]"#;
    Script::new(Era::Stateless).tools(tools)
}
