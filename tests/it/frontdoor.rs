//! Who may come in, and with what: one table for every protocol version, and for both fronts where
//! a row is about the message.
//!
//! Invariant: a request that is refused never reaches the upstream, and the proxy serves on.
//! Deliberately absent: loads and long waits; see `overload`.

use mws_tests::lab::{Lab, bin, finish, free_port};
use mws_tests::pipe::Pipe;
use mws_tests::raw::{RawReply, exchange_bytes, receive};
use mws_tests::script::{Era, Script, result};
use mws_tests::stub::Stub;
use serde_json::{Value, json};
use std::io::Write as _;

const MODERN: &str = "2026-07-28";
const VERSIONS: [&str; 5] = [MODERN, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A request before it is sent.
struct Knock {
    address: String,
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// What the table expects, and what it does to a request that is let in.
type Row = (u16, &'static str, fn(&mut Knock));

impl Knock {
    fn new(address: &str, version: &str, session: Option<&str>) -> Self {
        let meta = if version == MODERN {
            format!(
                r#","_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientInfo":{{"name":"k","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}"#
            )
        } else {
            String::new()
        };
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":5,"method":"vendor/thing","params":{{"name":"x"{meta}}}}}"#
        );
        let mut knock = Self {
            address: address.to_owned(),
            line: "POST /mcp HTTP/1.1".to_owned(),
            headers: Vec::new(),
            body: body.into_bytes(),
        };
        knock.set("Host", address);
        knock.set("Content-Type", "application/json");
        knock.set("Accept", "application/json, text/event-stream");
        knock.set("MCP-Protocol-Version", version);
        if version == MODERN {
            knock.set("Mcp-Method", "vendor/thing");
        }
        if let Some(session) = session {
            knock.set("Mcp-Session-Id", session);
        }
        knock
    }

    fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }

    fn set(&mut self, name: &str, value: &str) {
        self.drop(name);
        self.add(name, value);
    }

    fn add(&mut self, name: &str, value: &str) {
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    fn drop(&mut self, name: &str) {
        self.headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
    }

    fn origin(&mut self, pattern: &str) {
        let value = pattern.replace("PORT", self.port());
        self.add("Origin", &value);
    }

    fn host(&mut self, pattern: &str) {
        let value = pattern.replace("PORT", self.port());
        self.set("Host", &value);
    }

    fn edit(&mut self, from: &str, to: &str) {
        let text = String::from_utf8(self.body.clone()).unwrap();
        assert!(text.contains(from), "{from} is not in {text}");
        self.body = text.replace(from, to).into_bytes();
    }

    /// Makes it a call of `tool`, mirrored where the version wants that.
    fn call(&mut self, tool: &str) {
        self.edit("vendor/thing", "tools/call");
        self.edit("\"name\":\"x\"", &format!("\"name\":\"{tool}\""));
        if self.headers.iter().any(|(name, _)| name == "Mcp-Method") {
            self.set("Mcp-Method", "tools/call");
            self.set("Mcp-Name", tool);
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{}\r\n", self.line);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let framed =
            |name: &str| self.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
        if !framed("content-length") && !framed("transfer-encoding") {
            head += &format!("Content-Length: {}\r\n", self.body.len());
        }
        let mut bytes = (head + "Connection: close\r\n\r\n").into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }

    fn knock(&self) -> RawReply {
        exchange_bytes(&self.address, &self.bytes()).unwrap()
    }
}

const HOSTS: &[Row] = &[
    (200, "own address", |_| ()),
    (200, "localhost", |k| k.host("localhost:PORT")),
    (200, "localhost in capitals", |k| k.host("LOCALHOST:PORT")),
    (200, "the other loopback", |k| k.host("[::1]:PORT")),
    (400, "no host", |k| k.drop("Host")),
    (400, "empty host", |k| k.host("")),
    (400, "the host twice", |k| k.add("Host", &k.address.clone())),
    (400, "two hosts", |k| k.add("Host", "evil.example")),
    (403, "foreign host", |k| k.host("evil.example")),
    (403, "foreign host, own port", |k| k.host("evil.example:PORT")),
    (403, "own address as a prefix", |k| k.host("127.0.0.1.evil.example:PORT")),
    (403, "localhost as a prefix", |k| k.host("localhost.evil.example:PORT")),
    (403, "no port", |k| k.host("127.0.0.1")),
    (403, "another port", |k| k.host("127.0.0.1:1")),
    (403, "a port with a sign", |k| k.host("127.0.0.1:+PORT")),
    (403, "trailing dot", |k| k.host("localhost.:PORT")),
    (403, "user info", |k| k.host("localhost@127.0.0.1:PORT")),
    (403, "unspecified address", |k| k.host("0.0.0.0:PORT")),
    (200, "absolute form", |k| k.line = format!("POST http://{}/mcp HTTP/1.1", k.address)),
    (403, "absolute form, foreign", |k| k.line = "POST http://evil.example/mcp HTTP/1.1".into()),
];

const ORIGINS: &[Row] = &[
    (200, "own origin", |k| k.origin("http://127.0.0.1:PORT")),
    (200, "own origin by name", |k| k.origin("http://localhost:PORT")),
    (403, "own origin, other scheme", |k| k.origin("https://127.0.0.1:PORT")),
    (403, "own origin, other port", |k| k.origin("http://127.0.0.1:1")),
    (403, "own origin, no port", |k| k.origin("http://localhost")),
    (403, "foreign origin", |k| k.origin("http://evil.example")),
    (403, "own address as a prefix", |k| k.origin("http://127.0.0.1.evil.example:PORT")),
    (403, "null origin", |k| k.origin("null")),
    (403, "empty origin", |k| k.origin("")),
    (403, "origin of an extension", |k| k.origin("chrome-extension://abcdef")),
    (403, "two origins", |k| {
        k.origin("http://127.0.0.1:PORT");
        k.origin("http://evil.example");
    }),
    (403, "cross-site fetch", |k| k.add("Sec-Fetch-Site", "cross-site")),
    (403, "same-site fetch", |k| k.add("Sec-Fetch-Site", "same-site")),
    (200, "same-origin fetch", |k| k.add("Sec-Fetch-Site", "same-origin")),
    (403, "preflight", |k| {
        k.line = "OPTIONS /mcp HTTP/1.1".into();
        k.origin("http://evil.example");
        k.add("Access-Control-Request-Method", "POST");
    }),
];

const FORMS: &[Row] = &[
    (200, "charset", |k| k.set("Content-Type", "application/json; charset=utf-8")),
    (200, "quoted charset", |k| k.set("Content-Type", "application/json;charset=\"UTF-8\"")),
    (200, "capitals", |k| k.set("Content-Type", "Application/JSON")),
    (415, "another charset", |k| k.set("Content-Type", "application/json; charset=utf-16")),
    (415, "plain text", |k| k.set("Content-Type", "text/plain")),
    (415, "plain text that mentions JSON", |k| {
        k.set("Content-Type", "text/plain; application/json");
    }),
    (415, "a form", |k| k.set("Content-Type", "application/x-www-form-urlencoded")),
    (415, "parts", |k| k.set("Content-Type", "multipart/form-data; boundary=x")),
    (415, "a longer type", |k| k.set("Content-Type", "application/jsonx")),
    (415, "no type", |k| k.drop("Content-Type")),
    (400, "two types", |k| k.add("Content-Type", "text/plain")),
    (200, "identity", |k| k.add("Content-Encoding", "identity")),
    (415, "compressed", |k| k.add("Content-Encoding", "gzip")),
    (400, "two encodings", |k| {
        k.add("Content-Encoding", "identity");
        k.add("Content-Encoding", "gzip");
    }),
];

const LINES: &[Row] = &[
    (200, "a query", |k| k.line = "POST /mcp?a=b HTTP/1.1".into()),
    (404, "the root", |k| k.line = "POST / HTTP/1.1".into()),
    (404, "a slash behind", |k| k.line = "POST /mcp/ HTTP/1.1".into()),
    (404, "two slashes", |k| k.line = "POST //mcp HTTP/1.1".into()),
    (404, "capitals", |k| k.line = "POST /MCP HTTP/1.1".into()),
    (404, "up and down", |k| k.line = "POST /mcp/../other HTTP/1.1".into()),
    (404, "escaped", |k| k.line = "POST /%6dcp HTTP/1.1".into()),
    (404, "health", |k| k.line = "GET /health HTTP/1.1".into()),
    (404, "metrics", |k| k.line = "GET /metrics HTTP/1.1".into()),
    (405, "PUT", |k| k.line = "PUT /mcp HTTP/1.1".into()),
    (405, "PATCH", |k| k.line = "PATCH /mcp HTTP/1.1".into()),
    (405, "OPTIONS", |k| k.line = "OPTIONS /mcp HTTP/1.1".into()),
    (405, "TRACE", |k| k.line = "TRACE /mcp HTTP/1.1".into()),
    (200, "HTTP/1.0", |k| k.line = "POST /mcp HTTP/1.0".into()),
    (400, "nonsense", |k| k.line = "NONSENSE".into()),
    (400, "a WebSocket", |k| {
        k.line = "GET /mcp HTTP/1.1".into();
        k.add("Upgrade", "websocket");
    }),
    (200, "an upgrade to HTTP/2", |k| k.add("Upgrade", "h2c")),
];

const HEADERS: &[Row] = &[
    (400, "two session ids", |k| {
        k.add("Mcp-Session-Id", "a");
        k.add("Mcp-Session-Id", "b");
    }),
    (400, "two versions", |k| k.add("MCP-Protocol-Version", "2025-06-18")),
    (400, "two methods", |k| {
        k.add("Mcp-Method", "vendor/thing");
        k.add("Mcp-Method", "vendor/thing");
    }),
    (400, "two names", |k| {
        k.add("Mcp-Name", "a");
        k.add("Mcp-Name", "b");
    }),
    (400, "two authorisations", |k| {
        k.add("Authorization", "Bearer a");
        k.add("Authorization", "Bearer b");
    }),
    (431, "a hundred headers", |k| (0..100).for_each(|i| k.add(&format!("X-{i}"), "1"))),
    (431, "long headers", |k| (0..8).for_each(|i| k.add(&format!("X-{i}"), &"x".repeat(4000)))),
    (431, "a head without end", |k| k.add("X", &"x".repeat(200_000))),
    (400, "a blank before the colon", |k| k.add("X ", "1")),
    (400, "a coding that is none", |k| k.add("Transfer-Encoding", "gzip")),
    (400, "two lengths", |k| {
        k.add("Content-Length", "5");
        k.add("Content-Length", "6");
    }),
    (413, "a body that says it is too large", |k| k.add("Content-Length", "16777217")),
    (413, "a body that is too large", |k| {
        k.add("Transfer-Encoding", "chunked");
        k.body = format!("{:x}\r\n", 17 << 20).into_bytes();
        k.body.resize(18 << 20, b' ');
    }),
];

/// Rows about the message, which both fronts read.
const MESSAGES: &[Row] = &[
    (400, "no JSON", |k| k.body = b"nonsense".to_vec()),
    (400, "nothing", |k| k.body = b"\"\"".to_vec()),
    (400, "no end", |k| k.body.truncate(k.body.len() - 1)),
    (400, "two documents", |k| k.body.extend_from_slice(b"{}")),
    (400, "an empty batch", |k| k.body = b"[]".to_vec()),
    (400, "a number", |k| k.body = b"7".to_vec()),
    (400, "no method", |k| k.edit("\"method\":\"vendor/thing\",", "")),
    (400, "the id null", |k| k.edit("\"id\":5", "\"id\":null")),
    (400, "an object as id", |k| k.edit("\"id\":5", "\"id\":{}")),
    (400, "the method twice", |k| k.edit("\"id\":5", "\"id\":5,\"method\":\"tools/list\"")),
    (400, "the id twice", |k| k.edit("\"id\":5", "\"id\":5,\"id\":6")),
    (400, "another case", |k| k.edit("\"id\":5", "\"id\":5,\"Method\":\"tools/list\"")),
    (400, "an escaped double", |k| k.edit("\"id\":5", "\"id\":5,\"m\\u0065thod\":\"tools/list\"")),
    (400, "a NUL behind", |k| k.edit("\"id\":5", "\"id\":5,\"method\\u0000\":\"tools/list\"")),
    (400, "no UTF-8", |k| k.body.splice(1..1, *b"\"\xff\":1,").for_each(drop)),
    (400, "the tool twice", |k| {
        k.call("apple_pick");
        k.edit("\"name\":\"apple_pick\"", "\"name\":\"plum_dry\",\"name\":\"apple_pick\"");
    }),
    (400, "the tool in capitals", |k| {
        k.call("apple_pick");
        k.edit("\"name\":\"apple_pick\"", "\"Name\":\"plum_dry\",\"name\":\"apple_pick\"");
    }),
    (200, "deep", |k| {
        let deep = format!("\"x\":{}{},\"name\"", "[".repeat(100_000), "]".repeat(100_000));
        k.edit("\"name\"", &deep);
    }),
    (200, "a lone surrogate", |k| k.edit("\"x\"", "\"\\ud800\"")),
    (200, "a number beyond all", |k| k.edit("\"name\"", "\"n\":1e400,\"name\"")),
];

/// Rows of the stateless protocol, whose headers mirror the body.
const MIRRORS: &[Row] = &[
    (400, "no method", |k| k.drop("Mcp-Method")),
    (400, "another method", |k| k.set("Mcp-Method", "tools/list")),
    (400, "no version", |k| k.drop("MCP-Protocol-Version")),
    (400, "another version", |k| k.set("MCP-Protocol-Version", "2025-11-25")),
    (200, "a call", |k| k.call("apple_pick")),
    (400, "no name", |k| {
        k.call("apple_pick");
        k.drop("Mcp-Name");
    }),
    (400, "another name", |k| {
        k.call("apple_pick");
        k.set("Mcp-Name", "plum_dry");
    }),
    (200, "an encoded name", |k| {
        k.call("apple_pick");
        k.set("Mcp-Name", "=?base64?YXBwbGVfcGljaw==?=");
    }),
    (400, "another name, encoded", |k| {
        k.call("apple_pick");
        k.set("Mcp-Name", "=?base64?cGx1bV9kcnk=?=");
    }),
];

/// Rows of a proxy with a token.
const TOKENS: &[Row] = &[
    (401, "no token", |_| ()),
    (200, "the token", |k| k.add("Authorization", &format!("Bearer {TOKEN}"))),
    (200, "the scheme in small letters", |k| k.add("Authorization", &format!("bearer {TOKEN}"))),
    (401, "another token", |k| k.add("Authorization", "Bearer 0123456789abcdef0123456789abcdeF")),
    (401, "a part of it", |k| k.add("Authorization", "Bearer 0123456789abcdef")),
    (401, "more than it", |k| k.add("Authorization", &format!("Bearer {TOKEN}0"))),
    (401, "an empty one", |k| k.add("Authorization", "Bearer ")),
    (401, "another scheme", |k| k.add("Authorization", &format!("Basic {TOKEN}"))),
    (401, "an unknown path without it", |k| k.line = "POST /health HTTP/1.1".into()),
    (401, "a stream without it", |k| k.line = "GET /mcp HTTP/1.1".into()),
    (403, "the token at a foreign host", |k| {
        k.add("Authorization", &format!("Bearer {TOKEN}"));
        k.host("evil.example:PORT");
    }),
];

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
