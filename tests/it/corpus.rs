//! The corpus of messages over every way through the proxy: both fronts, three kinds of upstream,
//! called by name and through `call_tool`, and in both directions.
//!
//! Invariant: comparisons are on text; a declared edit is made to what was sent, never undone in
//! what arrived.
//! Deliberately absent: replies to calls by name over HTTP (`fidelity`).

use mws_tests::corpus::{Probe, lines, replies};
use mws_tests::lab::{Lab, Proxy, bin, eventually};
use mws_tests::peer::Peer;
use mws_tests::pipe::Pipe;
use mws_tests::script::{Act, Envelope, Era, Script};
use mws_tests::stub::Stub;
use serde_json::json;
use std::time::Duration;

const ERAS: [Era; 2] = [Era::Stateless, Era::Session];

#[test]
fn the_corpus_is_large_enough() {
    let files = ["requests.txt", "notifications.txt", "answers.txt", "pushes.txt"];
    let others: usize = files.iter().map(|file| lines(file).len()).sum();
    assert!(replies().len() >= 100 && others >= 60, "{} and {others}", replies().len());
}

#[test]
fn replies_through_call_tool_are_those_of_the_tool() {
    let probes = tool_replies();
    for era in ERAS {
        for streamed in [false, true] {
            let stub = Stub::start(answering(era, &probes, streamed));
            let lab = Lab::facing(&stub.url);
            let proxy = lab.proxy(&[]);
            let peer = peer(&proxy.url, era);
            for probe in &probes {
                let text = call_tool(&peer, probe.name(), "{}", "7");
                let sent = probe.message.replace("$ID", "7");
                let sent = if streamed { format!("data: {sent}\n\n") } else { sent };
                assert_eq!(text, sent, "{era:?}");
            }
        }
    }
}

#[test]
fn replies_of_a_process_through_call_tool_are_those_of_the_tool() {
    let probes: Vec<_> = tool_replies().into_iter().filter(Probe::is_one_line).collect();
    for era in ERAS {
        let lab = Lab::new();
        let proxy = in_front_of_process(&lab, answering(era, &probes, false));
        let peer = peer(&proxy.url, era);
        for probe in &probes {
            let text = call_tool(&peer, probe.name(), "{}", "\"x\"");
            assert_eq!(text, probe.message.replace("$ID", "\"x\""), "{era:?}");
        }
    }
}

#[test]
fn replies_reach_a_client_on_stdio_from_every_upstream() {
    let probes: Vec<_> = replies().into_iter().filter(Probe::is_one_line).collect();
    for era in ERAS {
        for kind in ["json", "stream", "process"] {
            let lab = Lab::new();
            let script = answering(era, &probes, kind == "stream");
            let stub = (kind != "process").then(|| Stub::start(script.clone()));
            let mut command = lab.command(bin("mws-proxy"));
            command.arg("--stdio");
            match &stub {
                Some(stub) => command.args(["--upstream", &stub.url]),
                None => command.args(process(&lab, script)),
            };
            let mut client = Pipe::start(command);
            let writer = writer(era);
            if era == Era::Session {
                client.ask("0", &writer.initialize_body());
                client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
            }
            for (number, probe) in probes.iter().enumerate() {
                let id = format!("\"at {number}\"");
                let body = writer.body(&id, &probe.method, &named(probe.name()));
                client.send(&body);
                let expected = probe.message.replace("$ID", &id);
                let got = client.next_with(&id);
                assert_eq!(got, expected, "{era:?} {kind}");
            }
        }
    }
}

#[test]
fn requests_reach_every_upstream_as_they_were_sent() {
    for era in ERAS {
        for kind in ["http", "process"] {
            let (lab, proxy, stub) = recording(era, kind);
            let peer = peer(&proxy.url, era);
            for (number, line) in lines("requests.txt").iter().enumerate() {
                for method in ["tools/call", "resources/read", "vendor/thing"] {
                    let name = format!("n{number}");
                    let id = format!("\"{number} {method}\"");
                    let sent = peer.body(&id, method, &line.replace("NAME", &name));
                    peer.post(method, Some(&name), &sent);
                    let got = received(&lab, stub.as_ref(), method);
                    assert_eq!(got, declared(&sent, era, kind, &got), "{era:?} {kind}");
                }
            }
        }
    }
}

#[test]
fn arguments_of_call_tool_reach_every_upstream_as_they_were_sent() {
    for era in ERAS {
        for kind in ["http", "process"] {
            let (lab, proxy, stub) = recording(era, kind);
            let peer = peer(&proxy.url, era);
            for line in lines("requests.txt") {
                let Some(arguments) = arguments(&line) else { continue };
                call_tool(&peer, "apple_pick", arguments, "5");
                let got = received(&lab, stub.as_ref(), "tools/call");
                assert!(got.contains(&format!(":{arguments}")), "{era:?} {kind}: {got}");
            }
        }
    }
}

#[test]
fn notifications_reach_every_upstream_as_they_were_sent() {
    for kind in ["http", "process"] {
        let (lab, proxy, stub) = recording(Era::Session, kind);
        let peer = Peer::session(&proxy.url);
        for line in lines("notifications.txt") {
            let reply = peer.post("", None, &line);
            assert_eq!((reply.status, reply.text().as_str()), (202, ""), "{kind}: {line}");
            let arrived = || all_received(&lab, stub.as_ref()).contains(&line);
            // The cancellation of a request that is not there has nobody to reach on a shared pipe.
            let owned = ["notifications/cancelled", "notifications/progress"];
            if kind == "http" || !owned.iter().any(|word| line.contains(word)) {
                assert!(eventually(Duration::from_secs(5), arrived), "{kind}: {line}");
            }
        }
    }
}

#[test]
fn what_an_upstream_pushes_while_it_answers_reaches_the_client() {
    for era in ERAS {
        for kind in ["http", "process"] {
            let pushes = pushes(era, kind);
            let mut script = Script::new(era);
            for (number, push) in pushes.iter().enumerate() {
                let last = r#"{"jsonrpc":"2.0","id":$ID,"result":{}}"#.to_owned();
                let pieces = match kind {
                    "http" => vec![format!("data: {push}\n\n"), format!("data: {last}\n\n")],
                    _ => vec![push.clone(), last],
                };
                script =
                    script.on("vendor/thing", &format!("\"push-{number}\""), Act::Stream(pieces));
            }
            let (_lab, proxy, _stub) = with(script, kind);
            let peer = peer(&proxy.url, era);
            for (number, push) in pushes.iter().enumerate() {
                let params = match era {
                    Era::Session => format!(r#"{{"name":"push-{number}","_meta":{{"z":1}}}}"#),
                    _ => format!(r#"{{"name":"push-{number}"}}"#),
                };
                let body = peer.body("\"own\"", "vendor/thing", &params);
                let body = body.replacen("\"_meta\":{", "\"_meta\":{\"progressToken\":\"own\",", 1);
                let messages = peer.post("vendor/thing", None, &body).messages();
                assert_eq!(messages[0], push.replace("$TOKEN", "\"own\""), "{era:?} {kind}");
                assert_eq!(messages.len(), 2, "{era:?} {kind}: {messages:?}");
            }
        }
    }
}

#[test]
fn what_an_upstream_pushes_between_requests_reaches_the_client() {
    let pushes = pushes(Era::Session, "http").into_iter();
    let pushes: Vec<_> = pushes.map(|push| push.replace("$TOKEN", "\"gone\"")).collect();
    let stream: Vec<_> =
        pushes.iter().map(|push| format!("id: é/1\r\ndata: {push}\r\n\r\n")).collect();
    let script = Script::new(Era::Session).on("GET", "", Act::Open(stream.clone()));
    let (_lab, proxy, _stub) = with(script, "http");
    let peer = Peer::session(&proxy.url);
    let mut got = peer.listen();
    for piece in stream {
        assert!(got.read_until(&piece, Duration::from_secs(5)), "{piece}");
    }
}

#[test]
fn answers_of_a_client_reach_an_upstream_as_they_were_sent() {
    let (lab, proxy, stub) = recording(Era::Session, "http");
    let peer = Peer::session(&proxy.url);
    for line in lines("answers.txt") {
        for id in ["7", "\"srv \\u0041\"", "12345678901234567890"] {
            let sent = line.replace("$ID", id);
            let reply = peer.post("", None, &sent);
            assert_eq!(reply.status, 202, "{line}");
            // The proxy's own first requests may come in between.
            assert!(all_received(&lab, stub.as_ref()).contains(&sent), "{sent}");
        }
    }
}

fn tool_replies() -> Vec<Probe> {
    // An argument error that was reached through call_tool may get the tool's schema behind it.
    let own = |probe: &Probe| {
        let error =
            probe.message.contains(r#""isError":true,"#) || probe.message.contains("-32602");
        probe.method == "tools/call" && !error && probe.is_one_line()
    };
    replies().into_iter().filter(own).collect()
}

/// A stub that lists each probe as a tool and answers with it.
fn answering(era: Era, probes: &[Probe], streamed: bool) -> Script {
    let tools: Vec<_> = probes
        .iter()
        .map(|probe| json!({"name": probe.name(), "inputSchema": {"type": "object"}}))
        .collect();
    let script = Script::new(era).tools(&json!(tools).to_string());
    probes.iter().fold(script, |script, probe| {
        let message = probe.message.clone();
        let act = match streamed {
            true => Act::Stream(vec![format!("data: {message}\n\n")]),
            false => Act::Message(message),
        };
        script.on(&probe.method, &probe.mark, act)
    })
}

fn call_tool(peer: &Peer, name: &str, arguments: &str, id: &str) -> String {
    let params = format!(
        r#"{{"name":"call_tool","arguments":{{"name":"{name}","arguments":{arguments}}}}}"#
    );
    let body = peer.body(id, "tools/call", &params);
    peer.post("tools/call", Some("call_tool"), &body).text()
}

fn named(name: &str) -> String {
    format!(r#"{{"name":"{name}","uri":"{name}","arguments":{{}}}}"#)
}

fn arguments(line: &str) -> Option<&str> {
    #[derive(serde::Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        arguments: Option<&'a serde_json::value::RawValue>,
    }
    let params: Params<'_> = serde_json::from_str(line).unwrap();
    params.arguments.map(serde_json::value::RawValue::get)
}

/// What a server may send outside its responses; a stateless one sends no requests.
fn pushes(era: Era, kind: &str) -> Vec<String> {
    let all = lines("pushes.txt").into_iter();
    // On a pipe only progress belongs to a request; the rest is told to everybody.
    let fits = |line: &String| match (era, kind) {
        (_, "process") => line.contains("notifications/progress"),
        (Era::Stateless, _) => line.contains("notifications/"),
        _ => true,
    };
    all.filter(fits).collect()
}

fn writer(era: Era) -> Peer {
    let mut peer = Peer::stateless("http://127.0.0.1:1/mcp");
    peer.session = (era == Era::Session).then(String::new);
    peer
}

fn peer(url: &str, era: Era) -> Peer {
    if era == Era::Session { Peer::session(url) } else { Peer::stateless(url) }
}

fn recording(era: Era, kind: &str) -> (Lab, Proxy, Option<Stub>) {
    with(Script::new(era), kind)
}

fn with(script: Script, kind: &str) -> (Lab, Proxy, Option<Stub>) {
    if kind == "process" {
        let lab = Lab::new();
        let proxy = in_front_of_process(&lab, script);
        return (lab, proxy, None);
    }
    let stub = Stub::start(script);
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    (lab, proxy, Some(stub))
}

fn in_front_of_process(lab: &Lab, script: Script) -> Proxy {
    let words = process(lab, script);
    lab.proxy(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn process(lab: &Lab, mut script: Script) -> Vec<String> {
    script.record = Some(lab.path("record"));
    let file = lab.write("script.json", &serde_json::to_string(&script).unwrap());
    let stub = bin("mws-stub-stdio");
    let words = [stub.display().to_string(), file.display().to_string()];
    std::iter::once("--upstream-command".to_owned()).chain(words).collect()
}

fn all_received(lab: &Lab, stub: Option<&Stub>) -> Vec<String> {
    match stub {
        Some(stub) => stub.seen().into_iter().map(|seen| seen.body).collect(),
        None => {
            let record = std::fs::read_to_string(lab.path("record")).unwrap_or_default();
            record.lines().map(str::to_owned).collect()
        }
    }
}

fn received(lab: &Lab, stub: Option<&Stub>, method: &str) -> String {
    let of = |text: &String| {
        serde_json::from_str::<Envelope<'_>>(text).is_ok_and(|envelope| envelope.method == method)
    };
    all_received(lab, stub).into_iter().rfind(of).unwrap()
}

/// What was sent, with the edits that are declared: the client's name, and the id on a pipe.
fn declared(sent: &str, era: Era, kind: &str, got: &str) -> String {
    let mut sent = sent.to_owned();
    if era == Era::Stateless {
        sent = sent.replacen(r#""name":"suite""#, r#""name":"mcp-working-set/suite""#, 1);
    }
    if kind == "process" {
        let id = |text: &str| {
            let envelope: Envelope<'_> = serde_json::from_str(text).unwrap();
            format!("\"id\":{}", envelope.id.unwrap())
        };
        sent = sent.replacen(&id(&sent), &id(got), 1);
    }
    sent
}
