//! One client on one connection: blocking, since it should cost as little as it can.
//!
//! Invariant: one write a request, Nagle's algorithm off.
//! Deliberately absent: reconnecting. A connection that ends fails the run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::Fallible;

/// Which protocol it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Session,
    Stateless,
}

/// A client that has done its handshake.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    address: String,
    era: Era,
    session: String,
    id: u64,
    body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: &str, era: Era) -> Fallible<Self> {
        let stream = BufReader::with_capacity(64 * 1024, TcpStream::connect(address)?);
        stream.get_ref().set_nodelay(true)?;
        stream.get_ref().set_read_timeout(Some(Duration::from_secs(60)))?;
        let (address, session) = (address.to_owned(), String::new());
        let mut client = Self { stream, address, era, session, id: 0, body: Vec::new() };
        if era == Era::Session {
            client.ask("initialize", r#""protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}"#)?;
            let body = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            client.post("notifications/initialized", "", body)?;
        }
        Ok(client)
    }

    /// Opens the session's stream; gives the connection that carries it.
    pub(crate) fn listen(&self) -> Fallible<BufReader<TcpStream>> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let Self { address, session, .. } = self;
        let head = format!(
            "GET /mcp HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n{session}\r\n"
        );
        stream.write_all(head.as_bytes())?;
        Ok(BufReader::new(stream))
    }

    /// Calls the tool that answers with `bytes` bytes, directly or through `call_tool`.
    pub(crate) fn call(&mut self, bytes: usize, wrapped: bool) -> Fallible<&[u8]> {
        let params = if wrapped {
            format!(
                r#""name":"call_tool","arguments":{{"name":"echo","arguments":{{"bytes":{bytes}}}}}"#
            )
        } else {
            format!(r#""name":"echo","arguments":{{"bytes":{bytes}}}"#)
        };
        self.ask("tools/call", &params)?;
        if self.body.len() < bytes {
            return Err(String::from_utf8_lossy(&self.body).into());
        }
        Ok(&self.body)
    }

    /// Sends a request with the members of its `params`; gives the body of the answer.
    pub(crate) fn ask(&mut self, method: &str, params: &str) -> Fallible<&[u8]> {
        const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
        let (meta, comma) = match self.era {
            Era::Stateless => (META, if params.is_empty() { "" } else { "," }),
            Era::Session => ("", ""),
        };
        let id = self.id;
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}{comma}{meta}}}}}"#
        );
        self.id += 1;
        let name = params.strip_prefix("\"name\":\"").and_then(|rest| rest.split('"').next());
        self.post(method, name.unwrap_or_default(), &body)?;
        let bad = |part: &[u8]| self.body.windows(part.len()).any(|window| window == part);
        if bad(b"\"error\":{\"code\"") || bad(b"\"isError\":true") {
            let end = self.body.len().min(500);
            return Err(String::from_utf8_lossy(&self.body[..end]).into());
        }
        Ok(&self.body)
    }

    fn post(&mut self, method: &str, name: &str, body: &str) -> Fallible<()> {
        let Self { address, session, .. } = self;
        let mirrors = match self.era {
            Era::Session => String::new(),
            Era::Stateless => {
                let name =
                    if name.is_empty() { String::new() } else { format!("Mcp-Name: {name}\r\n") };
                format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}")
            }
        };
        let length = body.len();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{session}{mirrors}\
             Content-Length: {length}\r\n\r\n{body}"
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.read()
    }

    fn read(&mut self) -> Fallible<()> {
        let (mut length, mut chunked, mut line) = (0, false, String::new());
        self.stream.read_line(&mut line)?;
        if !line.starts_with("HTTP/1.1 20") {
            return Err(format!("the answer begins with {line:?}").into());
        }
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let Some((key, value)) = line.trim_end().split_once(':') else { break };
            match key.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse()?,
                "transfer-encoding" => chunked = value.contains("chunked"),
                "mcp-session-id" => {
                    self.session =
                        format!("Mcp-Session-Id:{value}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
                }
                _ => {}
            }
        }
        self.body.clear();
        if !chunked {
            self.body.resize(length, 0);
            return Ok(self.stream.read_exact(&mut self.body)?);
        }
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16)?;
            let start = self.body.len();
            self.body.resize(start + size, 0);
            self.stream.read_exact(&mut self.body[start..])?;
            line.clear();
            self.stream.read_line(&mut line)?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}
