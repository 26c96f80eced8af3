//! Servers written by others, seen by a tap: with and without the proxy the bytes are the same.
//!
//! Invariant: each comparison is against the same tap on a direct connection.
//! Deliberately absent: clients written by others (`matrix`), and answers that are never the same twice.

use mws_tests::lab::{Lab, Proxy};
use mws_tests::peer::Peer;
use mws_tests::pipe::Pipe;
use mws_tests::real::{Target, parts};
use mws_tests::servers::{self, Server};
use serde_json::{Value, json};

#[test]
fn the_tap_sees_the_same_bytes_from_stdio_servers() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    let servers = [
        servers::everything(&parts, &lab, "stdio"),
        servers::filesystem(&parts, &lab),
        servers::memory(&parts, &lab),
        servers::git(&parts, &lab),
    ];
    for server in servers {
        let Target::Command(words) = &server.target else { unreachable!() };
        let mut command = lab.command(&words[0]);
        command.args(&words[1..]);
        let mut direct = Pipe::start(command);
        let greeting = Peer::stateless("http://unused/mcp").initialize_body();
        direct.ask("0", &greeting);
        direct.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let (_home, proxy) = proxied(json!({"command": words[0], "args": words[1..]}));
        let peer = Peer::session(&proxy.url);
        for (name, params) in calls(&server) {
            let body = peer.body("77", "tools/call", &params);
            let expected = direct.ask("77", &body);
            assert_eq!(peer.post("tools/call", Some(&name), &body).message(), expected, "{name}");
        }
    }
}

#[test]
fn the_tap_sees_the_same_bytes_from_an_http_server() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    let server = servers::everything(&parts, &lab, "http");
    let Target::Url(url) = &server.target else { unreachable!() };
    let (_home, proxy) = proxied(json!({"url": url}));
    let (direct, through) = (Peer::session(url), Peer::session(&proxy.url));
    let mut asked = calls(&server);
    asked.push(("no_such_tool".to_owned(), json!({"name": "no_such_tool"}).to_string()));
    for (name, params) in asked {
        let body = direct.body("77", "tools/call", &params);
        let [expected, got] =
            [&direct, &through].map(|peer| peer.post("tools/call", Some(&name), &body));
        assert_eq!(got.status, expected.status, "{name}");
        assert_eq!(got.header("content-type"), expected.header("content-type"), "{name}");
        assert_eq!(without_event_ids(&got.text()), without_event_ids(&expected.text()), "{name}");
    }
    for method in ["resources/list", "prompts/list", "resources/templates/list", "ping"] {
        let body = direct.body("78", method, "{}");
        let [expected, got] = [&direct, &through].map(|peer| peer.post(method, None, &body));
        assert_eq!(got.message(), expected.message(), "{method}");
    }
}

/// Names and params of the calls that are answered at once.
fn calls(server: &Server) -> Vec<(String, String)> {
    let plain = server.asks.iter().filter(|ask| ask.step["op"] == "call" && ask.kind != "elicit");
    let params = |step: &Value| json!({"name": step["name"], "arguments": step["arguments"]});
    let named = |step: &Value| step["name"].as_str().unwrap().to_owned();
    plain.map(|ask| (named(&ask.step), params(&ask.step).to_string())).collect()
}

/// Starts a proxy in its own home; both are kept as long as the test needs them.
fn proxied(upstream: Value) -> (Lab, Proxy) {
    let lab = Lab::with_config(&json!({"upstream": upstream}));
    let proxy = lab.proxy(&[]);
    (lab, proxy)
}

// Event ids of server-everything are random.
fn without_event_ids(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with("id:")).collect()
}
