//! Many clients at once that use the same ids and progress tokens, over HTTP and over one shared child.
//!
//! Invariant: whatever a client receives carries its own marker, also while others cancel or hang up.
//! Deliberately absent: how fast it goes.

use mws_tests::lab::{Lab, bin};
use mws_tests::modern::Modern;
use mws_tests::peer::Peer;
use mws_tests::random::Random;
use serde_json::{Value, json};
use std::time::Duration;

const CLIENTS: usize = 64;
const CALLS: usize = 12;

#[test]
fn answers_of_an_http_upstream_reach_who_asked() {
    for json in [true, false] {
        let upstream = Modern::start(json);
        crowd(&Lab::facing(&upstream.url), &[]);
    }
}

#[test]
fn answers_of_a_shared_process_reach_who_asked() {
    let upstream = bin("mws-modern-upstream").display().to_string();
    crowd(&Lab::new(), &["--upstream-command", &upstream, "--stdio"]);
}

fn crowd(lab: &Lab, args: &[&str]) {
    let proxy = lab.proxy(args);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let url = &proxy.url;
            scope.spawn(move || {
                let peer = match number % 2 {
                    0 => Peer::stateless(url),
                    _ => Peer::session(url),
                };
                let mut dice = Random(number as u64 + 1);
                for call in 0..CALLS {
                    one_call(&peer, call, &format!("m-{number}-{call}."), &mut dice);
                }
            });
        }
    });
    let answered = lab.calls("echo_arguments").iter().filter(|call| call["ok"] == true).count();
    assert!(answered >= CLIENTS * CALLS / 2, "only {answered} calls were answered");
}

/// One call under an id and a token that every client uses; one in four is cancelled.
fn one_call(peer: &Peer, id: usize, marker: &str, dice: &mut Random) {
    let arguments = json!({"marker": marker, "ms": dice.below(30)});
    let inner = json!({"name": "echo_arguments", "arguments": arguments});
    let (name, params) = match dice.below(2) {
        0 => ("echo_arguments", inner),
        _ => ("call_tool", json!({"name": "call_tool", "arguments": inner})),
    };
    let mut params = params;
    if peer.session.is_some() {
        params["_meta"] = json!({"progressToken": id});
    }
    let body = peer.body(&id.to_string(), "tools/call", &params.to_string());
    let token = format!(r#""_meta":{{"progressToken":{id},"io."#);
    let body = body.replacen(r#""_meta":{"io."#, &token, 1);
    if dice.below(4) > 0 {
        let messages = peer.post("tools/call", Some(name), &body).messages();
        return check(&messages, id, marker);
    }
    let mut stream = peer.open("tools/call", Some(name), &body);
    std::thread::sleep(Duration::from_millis(dice.below(20)));
    if peer.session.is_some() {
        let cancelled =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert_eq!(peer.post("", None, cancelled).status, 202);
    }
    // What came before the cancellation did is still the client's own.
    let _ = stream.read_until("structuredContent", Duration::from_millis(dice.below(20)));
    let text = stream.text();
    let foreign =
        text.split("m-").skip(1).find(|rest| !rest.starts_with(marker.trim_start_matches("m-")));
    assert!(foreign.is_none(), "{marker} received {text}");
}

fn check(messages: &[String], id: usize, marker: &str) {
    let parsed: Vec<Value> =
        messages.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    let (last, before) = parsed.split_last().unwrap();
    assert_eq!(last["id"], id, "{marker}: {messages:?}");
    assert_eq!(last["result"]["structuredContent"]["marker"], marker, "{messages:?}");
    for progress in before {
        assert_eq!(progress["params"]["progressToken"], id, "{marker}: {messages:?}");
        assert_eq!(progress["params"]["message"], marker, "{messages:?}");
    }
}
