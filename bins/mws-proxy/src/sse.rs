//! Server-sent events: splitting a byte stream into events without touching a byte.
//!
//! Invariant: the events handed out, put together, are the stream.
//! Deliberately absent: reconnection; the client does that.

use mws_catalog::json;

/// Longest event that is looked into, in bytes. A longer one passes, unread.
pub(crate) const EVENT_MAX: usize = 16 * 1024 * 1024;

/// Collects bytes until an event is whole.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    pending: Vec<u8>,
    /// Where the search for the end goes on.
    scanned: usize,
}

impl Splitter {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole event, with the blank line that ends it.
    pub(crate) fn next_event(&mut self) -> Option<Vec<u8>> {
        let end = self.event_end()?;
        let rest = self.pending.split_off(end);
        self.scanned = 0;
        Some(std::mem::replace(&mut self.pending, rest))
    }

    /// What is left when the stream ends.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.scanned = 0;
        std::mem::take(&mut self.pending)
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// An event ends with an empty line; lines end with LF, CRLF or CR.
    fn event_end(&mut self) -> Option<usize> {
        let bytes = &self.pending;
        let mut at = self.scanned;
        while at < bytes.len() {
            let Some(found) = bytes[at..].iter().position(|b| matches!(b, b'\n' | b'\r')) else {
                break;
            };
            let line_end = at + found;
            let next = after_break(bytes, line_end)?;
            if let Some(end) = blank_line_end(bytes, next) {
                return Some(end);
            }
            if next >= bytes.len() || (bytes[next] == b'\r' && next + 1 == bytes.len()) {
                self.scanned = line_end;
                return None;
            }
            at = next;
        }
        self.scanned = at.min(bytes.len());
        None
    }
}

/// The place behind the line break at `at`; `None` while a CR may still be followed by an LF.
fn after_break(bytes: &[u8], at: usize) -> Option<usize> {
    match (bytes[at], bytes.get(at + 1)) {
        (b'\r', Some(b'\n')) => Some(at + 2),
        (b'\r', None) => None,
        _ => Some(at + 1),
    }
}

fn blank_line_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at) {
        Some(b'\n' | b'\r') => after_break(bytes, at),
        _ => None,
    }
}

/// The data of an event: its `data` lines put together; `None` when it has none.
pub(crate) fn data(event: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(event).ok()?;
    let mut data: Option<String> = None;
    for line in text.split(['\n', '\r']) {
        let Some(value) = line.strip_prefix("data:") else { continue };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match &mut data {
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => data = Some(value.to_owned()),
        }
    }
    data
}

/// The value of a field of an event that is no data; the last one where it stands twice.
pub(crate) fn field(event: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(event).ok()?;
    let mut values = text.split(['\n', '\r']).filter_map(|line| {
        let value = line.strip_prefix(name)?.strip_prefix(':')?;
        Some(value.strip_prefix(' ').unwrap_or(value))
    });
    values.next_back().map(str::to_owned)
}

/// The event with other data; `id:`, `retry:` and comments stay.
pub(crate) fn with_data(event: &[u8], data: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(event);
    let mut out = String::with_capacity(data.len() + 64);
    for line in text.split(['\n', '\r']).filter(|l| !l.is_empty() && !l.starts_with("data:")) {
        out.push_str(line);
        out.push('\n');
    }
    for line in data.split('\n') {
        out.push_str("data: ");
        out.push_str(line.trim_end_matches('\r'));
        out.push('\n');
    }
    out.push('\n');
    out.into_bytes()
}

/// One event that carries a message.
pub(crate) fn message(text: &str) -> Vec<u8> {
    with_data(b"event: message\n", text)
}

/// True when `text` is a response to the request with this id.
pub(crate) fn answers(text: &str, id: &str) -> bool {
    let Some(members) = json::members(text) else { return false };
    let is_response =
        json::get(&members, "result").is_some() || json::get(&members, "error").is_some();
    is_response && json::get(&members, "id") == Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b": hi\n\nid: 1\r\nretry: 5\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:\n\n\
        data: x\r\rdata: tail";

    fn split(chunk: usize) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut splitter = Splitter::default();
        let mut events = Vec::new();
        for part in STREAM.chunks(chunk) {
            splitter.push(part);
            while let Some(event) = splitter.next_event() {
                events.push(event);
            }
        }
        (events, splitter.rest())
    }

    #[test]
    fn events_are_the_same_however_the_bytes_arrive() {
        let (whole, rest) = split(STREAM.len());
        assert_eq!(whole.len(), 4);
        assert_eq!([whole.concat(), rest].concat(), STREAM);
        for chunk in 1..STREAM.len() {
            assert_eq!(split(chunk).0, whole, "chunks of {chunk}");
        }
    }

    #[test]
    fn data_lines_are_joined_and_can_be_replaced() {
        let (events, _) = split(STREAM.len());
        assert_eq!(data(&events[0]), None);
        assert_eq!(data(&events[1]).as_deref(), Some("{\"a\":\n1}"));
        assert_eq!(with_data(&events[1], "{}"), b"id: 1\nretry: 5\ndata: {}\n\n");
        assert_eq!(message("{}"), b"event: message\ndata: {}\n\n");
    }

    #[test]
    fn only_a_response_with_the_same_id_answers() {
        assert!(answers(r#"{"id":1,"result":{}}"#, "1"));
        assert!(!answers(r#"{"id":"1","result":{}}"#, "1"));
        assert!(!answers(r#"{"id":1,"method":"x"}"#, "1"));
    }
}
