//! Who may come in, and with what: one table for every protocol version, and for both fronts where
//! a row is about the message.
//!
//! Invariant: a request that is refused never reaches the upstream, and the proxy serves on.
//! Deliberately absent: loads and long waits; see `overload`.

use mws_tests::lab::{Lab, bin, finish, free_port};
use mws_tests::pipe::Pipe;
use mws_tests::raw::receive;
use mws_tests::script::{Era, Script, result};
use mws_tests::stub::Stub;
use serde_json::{Value, json};
use std::io::Write as _;

use crate::door_rows::{
    FORMS, HEADERS, HOSTS, Knock, LINES, MESSAGES, MIRRORS, MODERN, ORIGINS, Row, TOKEN, TOKENS,
    VERSIONS,
};

fn script() -> Script {
    Script::new(Era::Both).on("vendor/thing", "", result(r#"{"resultType":"complete"}"#))
}

/// A session of this version; the stateless protocol has none.
fn session(address: &str, version: &str, token: Option<&str>) -> Option<String> {
    if version == MODERN {
        return None;
    }
    let mut knock = Knock::new(address, version, None);
    knock.drop("MCP-Protocol-Version");
    if let Some(token) = token {
        knock.add("Authorization", &format!("Bearer {token}"));
    }
    knock.body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "k", "version": "1"},
    }})
    .to_string()
    .into_bytes();
    let reply = knock.knock();
    assert_eq!(reply.status, 200, "{version}: {}", reply.text());
    Some(reply.header("mcp-session-id").unwrap().to_owned())
}

fn forwarded(stub: &Stub) -> usize {
    stub.seen_of("vendor/thing").len() + stub.seen_of("tools/call").len()
}

/// Tries each row against the proxy at `address` in each version; the number of rows tried.
fn try_all(stub: &Stub, address: &str, tables: &[&[Row]], token: Option<&str>) -> usize {
    let mut tried = 0;
    for version in VERSIONS {
        let session = session(address, version, token);
        for (want, name, edit) in tables.iter().flat_map(|table| table.iter()) {
            let mut knock = Knock::new(address, version, session.as_deref());
            edit(&mut knock);
            let before = forwarded(stub);
            let reply = knock.knock();
            assert_eq!(reply.status, *want, "{version}, {name}: {}", reply.text());
            let came = forwarded(stub) - before;
            assert_eq!(came, usize::from(*want == 200), "{version}, {name}: what came upstream");
            let cors = reply.head.to_ascii_lowercase().contains("access-control-allow");
            assert!(!cors, "{version}, {name}: {}", reply.head);
            tried += 1;
        }
    }
    tried
}

#[test]
fn every_row_holds_in_every_version() {
    let stub = Stub::start(script());
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let tables = [HOSTS, ORIGINS, FORMS, LINES, HEADERS, MESSAGES];
    let rows = tables.iter().map(|table| table.len()).sum::<usize>();
    assert!(rows >= 60, "{rows} rows");
    let tried = try_all(&stub, proxy.address(), &tables, None);
    assert_eq!(tried, rows * VERSIONS.len());
}

#[test]
fn the_headers_of_the_stateless_protocol_agree_with_the_body() {
    let stub = Stub::start(script());
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    for (want, name, edit) in MIRRORS {
        let mut knock = Knock::new(proxy.address(), MODERN, None);
        edit(&mut knock);
        let before = forwarded(&stub);
        let reply = knock.knock();
        assert_eq!(reply.status, *want, "{name}: {}", reply.text());
        assert_eq!(forwarded(&stub) - before, usize::from(*want == 200), "{name}");
        assert!(*want == 200 || reply.text().contains("-32020"), "{name}: {}", reply.text());
    }
}

#[test]
fn a_token_is_asked_for_in_every_version_and_never_sent_on() {
    let stub = Stub::start(script());
    let lab = Lab::new();
    let file = lab.write("token", &format!("{TOKEN}\n"));
    let listen = json!({"auth": {"tokenFile": file}});
    lab.write(
        mws_tests::lab::CONFIG,
        &json!({"upstream": {"url": stub.url}, "listen": listen}).to_string(),
    );
    let proxy = lab.proxy(&["-vvv"]);
    try_all(&stub, proxy.address(), &[TOKENS], Some(TOKEN));
    for seen in stub.seen() {
        assert!(!format!("{seen:?}").contains(TOKEN), "{seen:?}");
    }
    assert!(!proxy.stderr().contains(TOKEN), "{}", proxy.stderr());
    assert!(proxy.stderr().contains("chmod 600"), "{}", proxy.stderr());
}

#[test]
fn messages_on_stdin_are_read_by_the_same_rules() {
    let stub = Stub::start(script());
    let lab = Lab::facing(&stub.url);
    for version in VERSIONS {
        let mut command = lab.command(bin("mws-proxy"));
        command.arg("--stdio");
        let mut pipe = Pipe::start(command);
        if version != MODERN {
            pipe.ask("0", &format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"k","version":"1"}}}}}}"#));
        }
        for (want, name, edit) in MESSAGES {
            let mut knock = Knock::new("127.0.0.1:1", version, None);
            edit(&mut knock);
            // A batch that is empty and a document behind another are one line each here, too.
            let Ok(line) = String::from_utf8(knock.body) else { continue };
            let before = forwarded(&stub);
            pipe.send(&line);
            let answer: Value = serde_json::from_str(&pipe.next_line().unwrap()).unwrap();
            assert_eq!(answer.get("error").is_none(), *want == 200, "{version}, {name}: {answer}");
            assert_eq!(forwarded(&stub) - before, usize::from(*want == 200), "{version}, {name}");
        }
    }
}

#[test]
fn hosts_and_origins_of_the_configuration_get_in() {
    let stub = Stub::start(script());
    let listen = json!({
        "allowedHosts": ["box.example", "mcp.example:443"],
        "allowedOrigins": ["https://app.example"],
    });
    let lab = Lab::with_config(&json!({"upstream": {"url": stub.url}, "listen": listen}));
    let proxy = lab.proxy(&[]);
    let rows: &[Row] = &[
        (200, "loopback still", |_| ()),
        (200, "a named host", |k| k.host("box.example:PORT")),
        (200, "a named host with its own port", |k| k.host("mcp.example")),
        (403, "a named host with another port", |k| k.host("mcp.example:8443")),
        (403, "a host below it", |k| k.host("evil.box.example:PORT")),
        (200, "a named origin", |k| {
            k.origin("https://app.example");
            k.add("Sec-Fetch-Site", "cross-site");
        }),
        (403, "a named origin with another scheme", |k| k.origin("http://app.example")),
        (403, "an origin below it", |k| k.origin("https://app.example.evil.example")),
        (403, "an own origin that is not named", |k| k.origin("http://127.0.0.1:PORT")),
    ];
    try_all(&stub, proxy.address(), &[rows], None);
}

#[test]
fn an_empty_list_of_hosts_lets_nobody_in() {
    let stub = Stub::start(script());
    let listen = json!({"allowedHosts": []});
    let lab = Lab::with_config(&json!({"upstream": {"url": stub.url}, "listen": listen}));
    let proxy = lab.proxy(&[]);
    for (_, name, edit) in HOSTS {
        let mut knock = Knock::new(proxy.address(), MODERN, None);
        edit(&mut knock);
        assert!([400, 403].contains(&knock.knock().status), "{name}");
    }
    assert_eq!(forwarded(&stub), 0);
}

#[test]
fn other_machines_are_served_only_with_a_token_and_named_hosts() {
    let auth = json!({"tokenEnv": "MWS_TEST_TOKEN"});
    let hosts = json!(["box.example"]);
    for (auth, hosts) in [
        (Value::Null, Value::Null),
        (auth.clone(), Value::Null),
        (Value::Null, hosts.clone()),
        (auth.clone(), json!([])),
    ] {
        let listen = json!({"auth": auth, "allowedHosts": hosts});
        let lab = Lab::with_config(&json!({"listen": listen}));
        for host in ["0.0.0.0", "[::]", "192.0.2.1"] {
            let address = format!("{host}:{}", free_port());
            let mut command = lab.command(bin("mws-proxy"));
            command.args(["--listen", &address]).env("MWS_TEST_TOKEN", TOKEN);
            let done = finish(&mut command, "");
            assert_eq!(done.code, 2, "{address}, {listen}: {}", done.stderr);
            assert!(done.stderr.contains("loopback"), "{address}: {}", done.stderr);
        }
    }
    let stub = Stub::start(script());
    let listen = json!({"auth": auth, "allowedHosts": hosts});
    let lab = Lab::with_config(&json!({"upstream": {"url": stub.url}, "listen": listen}));
    let mut command = lab.command(bin("mws-proxy"));
    command.args(["--listen", "0.0.0.0:0"]).env("MWS_TEST_TOKEN", TOKEN);
    let proxy = mws_tests::lab::Proxy::start(command);
    let port = proxy.address().rsplit(':').next().unwrap();
    let mut knock = Knock::new(&format!("127.0.0.1:{port}"), MODERN, None);
    assert_eq!(knock.knock().status, 401);
    knock.add("Authorization", &format!("Bearer {TOKEN}"));
    assert_eq!(knock.knock().status, 200);
}

#[test]
fn a_token_that_cannot_be_used_ends_the_proxy_with_what_to_do() {
    for (auth, word) in [
        (json!({"tokenEnv": "NO_SUCH_VARIABLE"}), "NO_SUCH_VARIABLE"),
        (json!({"tokenFile": "/nonexistent/token"}), "/nonexistent/token"),
        (json!({"tokenFile": "~/short"}), "openssl rand"),
        (json!({}), "listen.auth"),
        (json!({"tokenFile": "a", "tokenEnv": "b"}), "listen.auth"),
    ] {
        let lab = Lab::with_config(&json!({"listen": {"port": 0, "auth": auth}}));
        lab.write("short", "s3cr3t");
        let done = lab.run("mws-proxy", &[]);
        assert_eq!(done.code, 2, "{auth}: {}", done.stderr);
        assert!(done.stderr.contains(word), "{auth}: {}", done.stderr);
        assert!(!done.stderr.contains("s3cr3t"), "{}", done.stderr);
    }
}

#[test]
fn a_socket_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let stub = Stub::start(script());
    let lab = Lab::new();
    let path = lab.path("mcp.sock");
    let config = json!({"upstream": {"url": stub.url}, "listen": {"unix": path}});
    lab.write(mws_tests::lab::CONFIG, &config.to_string());
    // One that was left behind is in nobody's way.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let mut proxy = mws_tests::lab::Proxy::start(lab.command(bin("mws-proxy")));
    assert_eq!(proxy.url, format!("unix:{}", path.display()));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let mut socket = std::os::unix::net::UnixStream::connect(&path).unwrap();
    socket.write_all(&Knock::new("localhost:1", MODERN, None).bytes()).unwrap();
    assert_eq!(receive(socket).unwrap().status, 200);
    let second = finish(&mut lab.command(bin("mws-proxy")), "");
    assert_eq!(second.code, 1, "{}", second.stderr);
    assert!(second.stderr.contains("mcp.sock"), "{}", second.stderr);
    assert_eq!(proxy.stop(), 0);
    assert!(!path.exists(), "the socket file is left behind");
    lab.write("mcp.sock", "precious");
    let third = finish(&mut lab.command(bin("mws-proxy")), "");
    assert_eq!(third.code, 2, "{}", third.stderr);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn an_upstream_that_is_the_proxy_itself_is_noticed() {
    let port = free_port();
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        let config = json!({"upstream": {"url": format!("http://{host}:{port}/mcp")}});
        let lab = Lab::with_config(&config);
        let listen = format!("127.0.0.1:{port}");
        let done = finish(lab.command(bin("mws-proxy")).args(["--listen", &listen]), "");
        assert_eq!(done.code, 2, "{host}: {}", done.stderr);
        assert!(done.stderr.contains("itself"), "{host}: {}", done.stderr);
    }
}
