//! The rows of the front door: what is done to a request that is let in, and the status it then gets.
//!
//! Invariant: a row names one thing; the request is otherwise one that every version lets in.
//! Deliberately absent: sending them all, which `frontdoor` does.

use mws_tests::raw::{RawReply, exchange_bytes};

pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const VERSIONS: [&str; 5] =
    [MODERN, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A request before it is sent.
pub(crate) struct Knock {
    pub(crate) address: String,
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// What the table expects, and what it does to a request that is let in.
pub(crate) type Row = (u16, &'static str, fn(&mut Knock));

impl Knock {
    pub(crate) fn new(address: &str, version: &str, session: Option<&str>) -> Self {
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

    pub(crate) fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.drop(name);
        self.add(name, value);
    }

    pub(crate) fn add(&mut self, name: &str, value: &str) {
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn drop(&mut self, name: &str) {
        self.headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
    }

    pub(crate) fn origin(&mut self, pattern: &str) {
        let value = pattern.replace("PORT", self.port());
        self.add("Origin", &value);
    }

    pub(crate) fn host(&mut self, pattern: &str) {
        let value = pattern.replace("PORT", self.port());
        self.set("Host", &value);
    }

    pub(crate) fn edit(&mut self, from: &str, to: &str) {
        let text = String::from_utf8(self.body.clone()).unwrap();
        assert!(text.contains(from), "{from} is not in {text}");
        self.body = text.replace(from, to).into_bytes();
    }

    /// Makes it a call of `tool`, mirrored where the version wants that.
    pub(crate) fn call(&mut self, tool: &str) {
        self.edit("vendor/thing", "tools/call");
        self.edit("\"name\":\"x\"", &format!("\"name\":\"{tool}\""));
        if self.headers.iter().any(|(name, _)| name == "Mcp-Method") {
            self.set("Mcp-Method", "tools/call");
            self.set("Mcp-Name", tool);
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
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

    pub(crate) fn knock(&self) -> RawReply {
        exchange_bytes(&self.address, &self.bytes()).unwrap()
    }
}

pub(crate) const HOSTS: &[Row] = &[
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

pub(crate) const ORIGINS: &[Row] = &[
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

pub(crate) const FORMS: &[Row] = &[
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

pub(crate) const LINES: &[Row] = &[
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

pub(crate) const HEADERS: &[Row] = &[
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
pub(crate) const MESSAGES: &[Row] = &[
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
pub(crate) const MIRRORS: &[Row] = &[
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
pub(crate) const TOKENS: &[Row] = &[
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
