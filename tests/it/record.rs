//! What the proxy writes about a call, and what it does not.
//!
//! Invariant: the fields and their order are those of the earlier version, so its readers go on working.
//! Deliberately absent: content of calls (see `privacy`).

use mws_tests::lab::{Lab, eventually};
use mws_tests::peer::Peer;
use mws_tests::script::{Act, Era, Script, result};
use mws_tests::stub::Stub;
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn a_call_is_one_line_with_the_known_fields_first() {
    each_era(|lab, peer, _| {
        peer.call("apple_pick", &json!({}));
        let line = one(lab, "apple_pick");
        let text = log(lab);
        let text = text.lines().find(|line| line.contains("apple_pick")).unwrap();
        let mut from = 0;
        for key in [
            "{\"ts\":\"",
            "\"tool\":\"apple_pick\"",
            "\"via\":\"direct\"",
            "\"ok\":true",
            "\"ms\":",
            "\"client\":\"suite\"",
        ] {
            let at =
                text[from..].find(key).unwrap_or_else(|| panic!("no {key} in its place: {text}"));
            from += at;
        }
        assert!(line.get("event").is_none() && line["ms"].is_u64(), "{line}");
        assert!(line["ts"].as_str().unwrap().ends_with('Z'), "{line}");
    });
}

#[test]
fn success_is_read_where_the_protocol_puts_it() {
    let failed = r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#;
    let quoted = r#"{"content":[{"type":"text","text":"{\"isError\":true}"}],"structuredContent":{"isError":true}}"#;
    let error = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"m"}}"#;
    for (name, act, ok) in [
        ("apple_pick", result(failed), false),
        ("pear_peel", result(quoted), true),
        ("plum_dry", Act::Message(error.to_owned()), false),
        ("unknown_tool", Act::Status(400, error.to_owned()), false),
    ] {
        each_era(|lab, peer, stub| {
            let era = if peer.session.is_some() { Era::Session } else { Era::Stateless };
            stub.play(Script::new(era).on("tools/call", "", act.clone()));
            peer.request("tools/call", &json!({"name": name, "arguments": {}}));
            assert_eq!(one(lab, name)["ok"], ok, "{name}");
        });
    }
}

#[test]
fn success_is_read_from_event_streams_too() {
    for (text, ok) in [(r#"{"isError":true,"content":[]}"#, false), (r#"{"content":[]}"#, true)] {
        let progress = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\r\n\r\n";
        let last =
            format!("id: 1\r\ndata: {{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{text}}}\r\n\r\n");
        let (head, tail) = last.split_at(20);
        let pieces = [progress, head, tail].map(str::to_owned).to_vec();
        each_era(|lab, peer, stub| {
            let era = if peer.session.is_some() { Era::Session } else { Era::Stateless };
            stub.play(Script::new(era).on("tools/call", "", Act::Stream(pieces.clone())));
            peer.request("tools/call", &json!({"name": "apple_pick"}));
            assert_eq!(one(lab, "apple_pick")["ok"], ok, "{text}");
        });
    }
}

#[test]
fn an_unfinished_call_is_not_recorded_yet() {
    let asks = r#"{"resultType":"input_required","inputRequests":{},"requestState":"s"}"#;
    let stub =
        Stub::start(Script::new(Era::Stateless).on("tools/call", "\"apple_pick\"", result(asks)));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    peer.call("apple_pick", &json!({}));
    peer.call("plum_dry", &json!({}));
    one(&lab, "plum_dry");
    assert!(lab.calls("apple_pick").is_empty(), "{:?}", lab.events());
}

#[test]
fn the_client_s_call_id_is_kept() {
    each_era(|lab, peer, _| {
        let meta = if peer.session.is_none() { peer.meta() } else { r#""_meta":{}"#.to_owned() };
        let comma = if peer.session.is_none() { "," } else { "" };
        let meta = meta.replacen("{", &format!(r#"{{"claudecode/toolUseId":"toolu_01"{comma}"#), 1);
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"apple_pick",{meta}}}}}"#
        );
        let reply = peer.post("tools/call", Some("apple_pick"), &body);
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(one(lab, "apple_pick")["call_id"], "toolu_01");
    });
}

#[test]
fn a_search_is_recorded_without_its_words() {
    each_era(|lab, peer, _| {
        peer.call("search_tools", &json!({"query": "dry fruit"}));
        let search = || lab.events().into_iter().find(|line| line["event"] == "search");
        assert!(eventually(Duration::from_secs(3), || search().is_some()), "{:?}", lab.events());
        let line = search().unwrap();
        assert!(line["bytes"].is_u64() && line["results"].is_u64(), "{line}");
        assert_eq!(line["client"], "suite", "{line}");
        assert!(lab.calls("search_tools").is_empty(), "a search is no call");
    });
}

fn each_era(test: impl Fn(&Lab, &Peer, &Stub)) {
    for era in [Era::Stateless, Era::Session] {
        let stub = Stub::start(Script::new(era));
        let lab = Lab::facing(&stub.url);
        let proxy = lab.proxy(&[]);
        let peer = if era == Era::Session {
            Peer::session(&proxy.url)
        } else {
            Peer::stateless(&proxy.url)
        };
        test(&lab, &peer, &stub);
    }
}

/// The only recorded call of this tool, once it is there.
fn one(lab: &Lab, tool: &str) -> Value {
    let there = eventually(Duration::from_secs(3), || !lab.calls(tool).is_empty());
    assert!(there, "no call of {tool}: {:?}", lab.events());
    let calls = lab.calls(tool);
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls[0].clone()
}

fn log(lab: &Lab) -> String {
    let folder = std::fs::read_dir(lab.state("events")).unwrap();
    let files = folder.map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}
