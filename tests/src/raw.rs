//! A tap: HTTP over a plain socket that shows the bytes of head and body as they came.
//!
//! Invariant: nothing is parsed but what frames the message (status, content-length, chunk sizes).
//! Deliberately absent: connection reuse, redirects, decompression.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A server that is silent for so long will not answer; far above what a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// One HTTP response.
#[derive(Clone, Debug)]
pub struct RawReply {
    /// Status code.
    pub status: u16,
    /// Status line and headers, with the empty line that ends them.
    pub head: String,
    /// Body without its transfer coding.
    pub body: Vec<u8>,
}

/// A response whose body is read piece by piece.
pub struct RawStream {
    socket: TcpStream,
    buffer: Vec<u8>,
}

/// Sends one request and reads the whole response, for at most 30 seconds.
///
/// # Errors
/// When the peer cannot be reached, closes early or is silent for too long.
pub fn exchange(address: &str, head: &str, body: &[u8]) -> std::io::Result<RawReply> {
    receive(send(address, head, body)?)
}

/// Sends these bytes, which need be no proper request, and reads the whole response.
///
/// # Errors
/// As [`exchange`].
pub fn exchange_bytes(address: &str, bytes: &[u8]) -> std::io::Result<RawReply> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    // Who refuses a large request may close before all of it is sent.
    let _ = socket.write_all(bytes);
    receive(socket)
}

/// Reads the whole response that comes on this socket.
///
/// # Errors
/// As [`exchange`].
pub fn receive(mut socket: impl Read) -> std::io::Result<RawReply> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 65_536]);
    // Some servers keep the connection open though they were asked to close it.
    while !complete(&bytes) {
        match socket.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    RawReply::parse(&bytes)
}

/// Sends one request and leaves the response to be read bit by bit.
///
/// # Errors
/// When the peer cannot be reached.
pub fn open(address: &str, head: &str, body: &[u8]) -> std::io::Result<RawStream> {
    Ok(RawStream { socket: send(address, head, body)?, buffer: Vec::new() })
}

fn send(address: &str, head: &str, body: &[u8]) -> std::io::Result<TcpStream> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_nodelay(true)?;
    let mut bytes = head.replace('\n', "\r\n").into_bytes();
    bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    bytes.extend_from_slice(b"Connection: close\r\n\r\n");
    bytes.extend_from_slice(body);
    socket.write_all(&bytes)?;
    Ok(socket)
}

impl RawReply {
    fn parse(bytes: &[u8]) -> std::io::Result<Self> {
        let end = find(bytes, b"\r\n\r\n").ok_or_else(|| broken("no end of the head", bytes))?;
        let head = String::from_utf8_lossy(&bytes[..end + 4]).into_owned();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| broken("no status", bytes))?;
        let mut reply = Self { status, head, body: bytes[end + 4..].to_vec() };
        if reply.header("transfer-encoding").is_some_and(|coding| coding == "chunked") {
            reply.body = unchunk(&reply.body).ok_or_else(|| broken("bad chunks", bytes))?;
        } else if let Some(length) = reply.header("content-length")
            && length.parse() != Ok(reply.body.len())
        {
            return Err(broken("body and content-length differ", bytes));
        }
        Ok(reply)
    }

    /// Value of a header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Texts of the messages in the body: itself, or the data of each event that has any.
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        let text = self.text();
        if self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
            events(&text)
        } else {
            vec![text]
        }
    }

    /// Text of the last message, which in a complete exchange is the response.
    #[must_use]
    pub fn message(&self) -> String {
        self.messages().pop().unwrap_or_default()
    }
}

impl RawStream {
    /// What was received so far, with its framing.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.buffer).into_owned()
    }

    /// The next line that contains this text; what comes before it is dropped. `None` after `limit`
    /// or at the end.
    pub fn line_with(&mut self, text: &str, limit: Duration) -> Option<String> {
        if !self.read_until(text, limit) {
            return None;
        }
        let at = find(&self.buffer, text.as_bytes())?;
        let start =
            self.buffer[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.buffer.drain(..start);
        // The last line of a body has no end of its own.
        self.read_until("\n", limit);
        let end = find(&self.buffer, b"\n").unwrap_or(self.buffer.len());
        Some(String::from_utf8_lossy(&self.buffer.drain(..end).collect::<Vec<_>>()).into_owned())
    }

    /// Reads until the received bytes contain `needle`; `false` after `limit` or at the end.
    pub fn read_until(&mut self, needle: &str, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut piece = [0; 4096];
        while find(&self.buffer, needle.as_bytes()).is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.socket.set_read_timeout(Some(left)).unwrap();
            match self.socket.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Ok(0) | Err(_) => return false,
                Ok(count) => self.buffer.extend_from_slice(&piece[..count]),
            }
        }
        true
    }
}

fn complete(bytes: &[u8]) -> bool {
    let early = bytes.len().min(16_384);
    let Some(end) = find(&bytes[..early], b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&bytes[..end + 4]).into_owned();
    let reply = RawReply { status: 0, head, body: Vec::new() };
    let body = &bytes[end + 4..];
    match reply.header("content-length").map(str::parse::<usize>) {
        Some(length) => length.is_ok_and(|length| body.len() >= length),
        None => body.ends_with(b"0\r\n\r\n") && unchunk(body).is_some(),
    }
}

fn events(text: &str) -> Vec<String> {
    let text = text.replace("\r\n", "\n");
    let data = text.split("\n\n").map(|event| {
        let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
        lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
    });
    data.filter(|data| !data.is_empty()).collect()
}

fn unchunk(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = find(bytes, b"\r\n")?;
        let size = std::str::from_utf8(&bytes[..line]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(line + 2..line + 2 + size)?);
        bytes = bytes.get(line + 4 + size..)?;
    }
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

fn broken(what: &str, bytes: &[u8]) -> std::io::Error {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).into_owned();
    std::io::Error::other(format!("{what} in {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_chunks_apart() {
        assert_eq!(unchunk(b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n").unwrap(), b"abcde");
        assert!(unchunk(b"9\r\nabc\r\n").is_none());
    }

    #[test]
    fn finds_the_data_of_events() {
        let text = ": note\r\n\r\nid: 1\r\ndata: \r\n\r\nevent: message\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\n";
        assert_eq!(events(text), ["{\"a\":\n1}"]);
    }

    #[test]
    fn refuses_a_short_body() {
        assert!(RawReply::parse(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc").is_err());
    }
}
