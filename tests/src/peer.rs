//! A client without an SDK, for both eras: it builds each request as text and sends it through the tap.
//!
//! Invariant: what `post` is given is what goes over the wire.
//! Deliberately absent: retries, caching, and any view on whether an answer is right.

use crate::raw::{RawReply, RawStream, exchange, open};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A client at one endpoint.
pub struct Peer {
    /// Name that it gives as `clientInfo.name`.
    pub name: String,
    /// Session id, for the session protocol.
    pub session: Option<String>,
    /// Capabilities that it declares, as a JSON object.
    pub capabilities: String,
    /// `host:port`.
    pub address: String,
    path: String,
    next: AtomicUsize,
}

impl Peer {
    /// A client of the stateless protocol.
    #[must_use]
    pub fn stateless(url: &str) -> Self {
        let rest = url.trim_start_matches("http://");
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        Self {
            name: "suite".to_owned(),
            session: None,
            capabilities: "{}".to_owned(),
            address: address.to_owned(),
            path: format!("/{path}"),
            next: AtomicUsize::new(1),
        }
    }

    /// A client of the session protocol, which initializes at once.
    #[must_use]
    pub fn session(url: &str) -> Self {
        Self::session_that_can(url, "{}")
    }

    /// The same with these capabilities.
    #[must_use]
    pub fn session_that_can(url: &str, capabilities: &str) -> Self {
        let mut peer = Self::stateless(url).that_can(capabilities);
        let body = peer.initialize_body();
        let reply = peer.post("initialize", None, &body);
        assert_eq!(reply.status, 200, "initialize: {}", reply.text());
        peer.session = Some(reply.header("mcp-session-id").unwrap_or_default().to_owned());
        peer.post("", None, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        peer
    }

    /// The same client with these capabilities.
    #[must_use]
    pub fn that_can(mut self, capabilities: &str) -> Self {
        capabilities.clone_into(&mut self.capabilities);
        self
    }

    /// The same client under another name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Text of an `initialize` request.
    #[must_use]
    pub fn initialize_body(&self) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{{"name":"{}","version":"1"}}}}}}"#,
            self.capabilities, self.name
        )
    }

    /// Text of a request; `params` is a JSON object, which on the stateless protocol gets its `_meta`.
    #[must_use]
    pub fn body(&self, id: &str, method: &str, params: &str) -> String {
        let mut params = params.to_owned();
        if self.session.is_none() {
            let comma = if params.trim() == "{}" { "" } else { "," };
            params =
                format!("{{{}{comma}{}", self.meta(), params.trim_start().trim_start_matches('{'));
        }
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    }

    /// The `_meta` member of a stateless request.
    #[must_use]
    pub fn meta(&self) -> String {
        format!(
            r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"{}","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{}}}"#,
            self.name, self.capabilities
        )
    }

    /// Request head for this method and, where the method names one, this tool, resource or prompt.
    #[must_use]
    pub fn head(&self, method: &str, name: Option<&str>) -> String {
        let mut head = format!(
            "POST {} HTTP/1.1\nHost: {}\nContent-Type: application/json\nAccept: application/json, text/event-stream\nUser-Agent: {}/1\n",
            self.path, self.address, self.name
        );
        match &self.session {
            Some(id) => {
                head.push_str("MCP-Protocol-Version: 2025-11-25\n");
                let _ = writeln!(head, "Mcp-Session-Id: {id}");
            }
            None if method == "initialize" => (),
            None => {
                let _ = writeln!(head, "MCP-Protocol-Version: 2026-07-28\nMcp-Method: {method}");
                if let Some(name) = name {
                    let _ = writeln!(head, "Mcp-Name: {name}");
                }
            }
        }
        head
    }

    /// Opens the stream of the session.
    pub fn listen(&self) -> RawStream {
        let head = self.head("", None).replacen("POST", "GET", 1);
        open(&self.address, &head, b"").unwrap()
    }

    /// Ends the session.
    pub fn end(&self) -> RawReply {
        let head = self.head("", None).replacen("POST", "DELETE", 1);
        exchange(&self.address, &head, b"").unwrap()
    }

    /// Sends this text.
    pub fn post(&self, method: &str, name: Option<&str>, body: &str) -> RawReply {
        let reply = exchange(&self.address, &self.head(method, name), body.as_bytes());
        reply.unwrap_or_else(|error| panic!("{method} to {}: {error}", self.address))
    }

    /// Sends this text and leaves the response to be read piece by piece.
    pub fn open(&self, method: &str, name: Option<&str>, body: &str) -> RawStream {
        open(&self.address, &self.head(method, name), body.as_bytes()).unwrap()
    }

    /// Sends a request with a fresh id.
    pub fn request(&self, method: &str, params: &Value) -> RawReply {
        let id = self.next.fetch_add(1, Ordering::SeqCst).to_string();
        let name = ["name", "uri"].iter().find_map(|key| params[key].as_str());
        self.post(method, name, &self.body(&id, method, &params.to_string()))
    }

    /// Sends a request and returns its response message.
    pub fn ask(&self, method: &str, params: &Value) -> Value {
        let reply = self.request(method, params);
        let text = reply.message();
        serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{method}: {error} in {} {text:?}", reply.status))
    }

    /// Calls a tool and returns the result.
    pub fn call(&self, tool: &str, arguments: &Value) -> Value {
        let message = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        message.get("result").cloned().unwrap_or_else(|| panic!("{tool}: {message}"))
    }

    /// Tools listed now, in order.
    pub fn tools(&self) -> Vec<Value> {
        let message = self.ask("tools/list", &json!({}));
        message["result"]["tools"].as_array().unwrap_or_else(|| panic!("{message}")).clone()
    }

    /// Names of the tools listed now, in order.
    pub fn tool_names(&self) -> Vec<String> {
        self.tools().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}
