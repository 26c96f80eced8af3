//! Who may come in: Host, Origin, content type, method and path.
//!
//! Invariant: a request that is refused never reaches the upstream.
//! Deliberately absent: authorisation, which is the upstream's.

use mws_tests::lab::{Lab, bin, finish, free_port};
use mws_tests::peer::Peer;
use mws_tests::raw::{RawReply, exchange};
use mws_tests::script::{Era, Script};
use mws_tests::stub::Stub;
use serde_json::json;

#[test]
fn only_local_pages_and_programs_get_in() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let own = proxy.address().to_owned();
    let port = own.rsplit(':').next().unwrap().to_owned();
    let json = "application/json";
    let table = [
        (200, own.as_str(), "", json),
        (200, &format!("localhost:{port}"), "", json),
        (200, &own, &format!("Origin: http://{own}\n"), json),
        (200, &own, &format!("Origin: http://localhost:{port}\n"), json),
        (200, &own, "", "application/json; charset=utf-8"),
        (403, "evil.example", "", json),
        (403, &format!("evil.example:{port}"), "", json),
        (403, &format!("127.0.0.1.evil.example:{port}"), "", json),
        (403, &format!("localhost.evil.example:{port}"), "", json),
        (403, &own, "Origin: http://evil.example\n", json),
        (403, &own, "Origin: https://evil.example\n", json),
        (403, &own, &format!("Origin: http://127.0.0.1.evil.example:{port}\n"), json),
        (403, &own, "Origin: null\n", json),
        (415, &own, "", "text/plain"),
        (415, &own, "", "application/x-www-form-urlencoded"),
        (415, &own, "", "multipart/form-data"),
    ];
    for (status, host, origin, kind) in table {
        let before = stub.seen_of("vendor/thing").len();
        let reply = knock(&own, "POST /mcp", host, origin, kind);
        let expected = if status == 200 { 404 } else { status };
        assert_eq!(reply.status, expected, "host {host}, {origin:?}, {kind}: {}", reply.text());
        let came = stub.seen_of("vendor/thing").len() - before;
        assert_eq!(came, usize::from(status == 200), "host {host}, {origin:?}, {kind}");
    }
}

#[test]
fn only_one_path_and_the_methods_of_the_protocol_exist() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let own = proxy.address().to_owned();
    for (line, status) in [
        ("GET /other", 404),
        ("POST /other", 404),
        ("POST /mcp/../other", 404),
        ("GET /", 404),
        ("PUT /mcp", 405),
        ("PATCH /mcp", 405),
    ] {
        let reply = knock(&own, line, &own, "", "application/json");
        assert_eq!(reply.status, status, "{line}: {}", reply.text());
    }
    assert!(stub.seen_of("vendor/thing").is_empty(), "a refused request reached the upstream");
}

#[test]
fn a_missing_content_type_or_a_form_never_reaches_the_upstream() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let own = proxy.address();
    let head = format!("POST /mcp HTTP/1.1\nHost: {own}\n");
    let reply = exchange(own, &head, b"{}").unwrap();
    assert_eq!(reply.status, 415);
    assert!(stub.seen_of("vendor/thing").is_empty());
}

#[test]
fn a_body_that_is_no_json_is_answered_with_an_error() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    for body in ["", "{", "nonsense", "[]", "\u{0}"] {
        let reply = peer.post("vendor/thing", None, body);
        assert!((400..500).contains(&reply.status), "{body:?}: {} {}", reply.status, reply.text());
    }
    assert_eq!(peer.tool_names()[..2], ["search_tools", "call_tool"]);
}

#[test]
fn other_machines_cannot_be_invited() {
    let lab = Lab::new();
    for host in ["0.0.0.0", "[::]", "192.0.2.1"] {
        let address = format!("{host}:{}", free_port());
        let done = finish(lab.command(bin("mws-proxy")).args(["--listen", &address]), "");
        assert_eq!(done.code, 2, "{address}: {}", done.stderr);
        assert!(done.stderr.contains("loopback"), "{address}: {}", done.stderr);
    }
}

fn knock(address: &str, line: &str, host: &str, extra: &str, kind: &str) -> RawReply {
    let peer = Peer::stateless(&format!("http://{address}/mcp"));
    let head = format!(
        "{line} HTTP/1.1\nHost: {host}\nContent-Type: {kind}\nAccept: application/json, text/event-stream\nMCP-Protocol-Version: 2026-07-28\nMcp-Method: vendor/thing\n{extra}"
    );
    let body = peer.body("1", "vendor/thing", &json!({"a": 1}).to_string());
    exchange(address, &head, body.as_bytes())
        .unwrap_or_else(|error| panic!("{line} {host}: {error}"))
}
