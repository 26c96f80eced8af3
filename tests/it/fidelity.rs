//! Bytes in, bytes out: what the upstream sends is what the client gets, and the other way round.
//!
//! Invariant: comparisons are on text, never on parsed JSON, except where an edit is declared.
//! Deliberately absent: `tools/list`, `initialize` and `server/discover`, which the proxy edits (see `listing`).

use mws_tests::corpus::{Probe, lines, replies};
use mws_tests::lab::{Lab, bin};
use mws_tests::peer::Peer;
use mws_tests::raw::RawReply;
use mws_tests::script::{Act, Era, Script};
use mws_tests::stub::Stub;
use serde_json::json;
use std::time::Duration;

#[test]
fn json_replies_arrive_byte_for_byte() {
    let probes = replies();
    let script = |era| {
        probes.iter().fold(Script::new(era), |script, probe| {
            script.on(&probe.method, &probe.mark, Act::Message(probe.message.clone()))
        })
    };
    both_eras(script, |peer, era| {
        for (number, probe) in probes.iter().enumerate() {
            let id = (number + 10).to_string();
            let reply = ask(peer, probe, &id);
            assert_eq!(reply.status, 200, "{era:?} {}", probe.message);
            assert_eq!(reply.header("content-type"), Some("application/json"), "{era:?}");
            assert_eq!(reply.text(), probe.message.replace("$ID", &id), "{era:?}");
        }
    });
}

#[test]
fn event_streams_arrive_byte_for_byte() {
    let probes = replies();
    let script = |era| {
        probes.iter().enumerate().fold(Script::new(era), |script, (number, probe)| {
            let pieces = framed(number, &probe.message);
            script.on(&probe.method, &probe.mark, Act::Stream(pieces))
        })
    };
    both_eras(script, |peer, era| {
        for (number, probe) in probes.iter().enumerate() {
            let reply = ask(peer, probe, "\"s\"");
            let kind = reply.header("content-type");
            assert_eq!(kind, Some("text/event-stream"), "{era:?} {}", probe.message);
            let sent = framed(number, &probe.message).concat().replace("$ID", "\"s\"");
            assert_eq!(reply.text(), sent, "{era:?}");
        }
    });
}

#[test]
fn events_are_passed_on_as_they_come() {
    let piece = ": note\r\n\r\ndata: {\"half\":";
    let script = |era| Script::new(era).on("tools/call", "", Act::Open(vec![piece.to_owned()]));
    both_eras(script, |peer, era| {
        let body = peer.body("1", "tools/call", r#"{"name":"x"}"#);
        let mut stream = peer.open("tools/call", Some("x"), &body);
        assert!(stream.read_until(piece, Duration::from_secs(2)), "{era:?}");
    });
}

#[test]
fn error_statuses_arrive_with_their_body() {
    let body = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32020,"message":"x","data":{"z":1,"a":1.0}}}"#;
    for status in [400, 403, 404, 409, 500] {
        let script =
            |era| Script::new(era).on("tools/call", "", Act::Status(status, body.to_owned()));
        both_eras(script, |peer, era| {
            let reply = peer.request("tools/call", &json!({"name": "x"}));
            assert_eq!(reply.status, status, "{era:?}");
            let id =
                serde_json::from_str::<serde_json::Value>(&reply.text()).unwrap()["id"].clone();
            assert_eq!(reply.text(), body.replace("$ID", &id.to_string()), "{era:?}");
        });
    }
}

#[test]
fn stdio_replies_arrive_byte_for_byte_but_for_the_id() {
    let probes = replies();
    for era in [Era::Session, Era::Stateless] {
        let lab = Lab::new();
        let one_line = probes.iter().filter(|probe| !probe.message.contains(['\n', '\r']));
        let script = one_line.fold(Script::new(era), |script, probe| {
            script.on(&probe.method, &probe.mark, Act::Message(probe.message.clone()))
        });
        let file = lab.write("script.json", &serde_json::to_string(&script).unwrap());
        let stub = bin("mws-stub-stdio").display().to_string();
        let proxy = lab.proxy(&["--upstream-command", &stub, &file.display().to_string()]);
        let peer = peer(&proxy.url, era);
        for probe in probes.iter().filter(|probe| !probe.message.contains(['\n', '\r'])) {
            let reply = ask(&peer, probe, "\"id \\u0041\"");
            let sent = probe.message.replace("$ID", "\"id \\u0041\"");
            assert_eq!(reply.message(), sent, "{era:?}");
        }
    }
}

#[test]
fn requests_reach_the_upstream_byte_for_byte() {
    both_eras_seeing(|peer, stub, era| {
        for params in lines("requests.txt") {
            let params = params.replace("NAME", "x");
            for id in ["7", "\"a\\u0062\"", "12345678901234567890", "-1"] {
                for method in
                    ["tools/call", "resources/read", "vendor/thing", "completion/complete"]
                {
                    let sent = peer.body(id, method, &params);
                    peer.post(method, Some("x"), &sent);
                    let got = stub.seen_of(method).last().unwrap().body.clone();
                    assert_eq!(got, declared(&sent, era), "{era:?}");
                }
            }
        }
    });
}

#[test]
fn odd_envelopes_reach_the_upstream_byte_for_byte() {
    both_eras_seeing(|peer, stub, era| {
        let meta =
            if era == Era::Stateless { peer.meta() } else { r#""_meta":{"a":1}"#.to_owned() };
        for envelope in [
            r#"{ "params" : {META,"name":"x"} , "method":"tools/call","vendor":1e2, "id" : 5,"jsonrpc":"2.0" }"#,
            "{\r\n\t\"jsonrpc\": \"2.0\",\r\n\t\"id\": 5,\r\n\t\"method\": \"tools/call\",\r\n\t\"params\": {META, \"name\": \"x\"}\r\n}\r\n",
            r#"{"jsonrpc":"2.0","id":5,"method":"tools\/call","params":{META,"name":"\u0078"}}"#,
        ] {
            let sent = envelope.replace("META", &meta);
            peer.post("tools/call", Some("x"), &sent);
            let got = stub.seen_of("tools/call").last().unwrap().body.clone();
            assert_eq!(got, declared(&sent, era), "{era:?}");
        }
    });
}

#[test]
fn notifications_reach_the_upstream_byte_for_byte() {
    let stub = Stub::start(Script::new(Era::Session));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::session(&proxy.url);
    for method in ["notifications/cancelled", "notifications/progress", "notifications/vendor"] {
        let sent = format!(
            r#"{{ "method":"{method}","params":{{"z":1.0,"requestId":5}},"jsonrpc":"2.0"}}"#
        );
        let reply = peer.post(method, None, &sent);
        assert_eq!((reply.status, reply.text().as_str()), (202, ""), "{method}");
        assert_eq!(stub.seen_of(method).last().unwrap().body, sent);
    }
}

#[test]
fn the_probes_hold_without_a_proxy() {
    let probes = replies();
    for era in [Era::Stateless, Era::Session] {
        let stub = Stub::start(Script::new(era));
        let peer = peer(&stub.url, era);
        for (number, probe) in probes.iter().enumerate() {
            let json = Act::Message(probe.message.clone());
            stub.play(Script::new(era).on(&probe.method, &probe.mark, json));
            assert_eq!(ask(&peer, probe, "1").text(), probe.message.replace("$ID", "1"));
            let pieces = framed(number, &probe.message);
            stub.play(Script::new(era).on(&probe.method, &probe.mark, Act::Stream(pieces.clone())));
            assert_eq!(ask(&peer, probe, "1").text(), pieces.concat().replace("$ID", "1"));
        }
    }
}

fn both_eras(script: impl Fn(Era) -> Script, test: impl Fn(&Peer, Era)) {
    for era in [Era::Stateless, Era::Session] {
        let stub = Stub::start(script(era));
        let lab = Lab::facing(&stub.url);
        let proxy = lab.proxy(&[]);
        test(&peer(&proxy.url, era), era);
    }
}

fn both_eras_seeing(test: impl Fn(&Peer, &Stub, Era)) {
    for era in [Era::Stateless, Era::Session] {
        let stub = Stub::start(Script::new(era));
        let lab = Lab::facing(&stub.url);
        let proxy = lab.proxy(&[]);
        test(&peer(&proxy.url, era), &stub, era);
    }
}

fn peer(url: &str, era: Era) -> Peer {
    if era == Era::Session { Peer::session(url) } else { Peer::stateless(url) }
}

fn ask(peer: &Peer, probe: &Probe, id: &str) -> RawReply {
    let mark = &probe.mark;
    let params = format!(r#"{{"name":{mark},"uri":{mark},"arguments":{{}}}}"#);
    let body = peer.body(id, &probe.method, &params);
    peer.post(&probe.method, Some(mark.trim_matches('"')), &body)
}

// On the stateless protocol the client's name gets a prefix; nothing else may change.
fn declared(sent: &str, era: Era) -> String {
    match era {
        Era::Stateless => {
            sent.replacen("\"name\":\"suite\"", "\"name\":\"mcp-working-set/suite\"", 1)
        }
        _ => sent.to_owned(),
    }
}

/// Six ways to put one message on an event stream; line ends inside a message start a new data line.
fn framed(number: usize, message: &str) -> Vec<String> {
    let ends = if number.is_multiple_of(2) { "\n" } else { "\r\n" };
    let message = message.trim().replace("\r\n", "\n").replace('\n', &format!("{ends}data: "));
    let note = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1.0,"vendor":[]}}"#;
    let pieces: Vec<String> = match number % 6 {
        0 => vec![format!("data: {message}\n\n")],
        1 => vec![format!("event: message{ends}data: {message}{ends}{ends}")],
        2 => vec![
            format!("id: a/0{ends}retry: 3000{ends}data: {ends}{ends}"),
            format!("id: a/1{ends}data:{message}{ends}{ends}"),
        ],
        3 => vec![
            format!(": keep-alive{ends}{ends}"),
            format!("data: {note}{ends}{ends}:{ends}{ends}"),
            format!("vendor: x{ends}data: {message}{ends}id: é{ends}{ends}"),
        ],
        4 => vec![
            format!("event: message{ends}data: {note}{ends}{ends}event: message{ends}da"),
            format!("ta: {message}{ends}"),
            ends.to_owned(),
        ],
        _ => vec![
            format!("data: {message}{ends}{ends}"),
            format!(": after the response{ends}{ends}"),
        ],
    };
    pieces
}
