//! Server-sent events: splitting a byte stream into events without touching a byte.
//!
//! Invariant: the events handed out, put together, are the stream.
//! Deliberately absent: reconnection; the client does that.

use std::borrow::Cow;

use mws_catalog::json;

use crate::rpc::unmarked;

/// Longest event that is looked into, in bytes. A longer one passes, unread.
pub(crate) const EVENT_MAX: usize = 16 * 1024 * 1024;

/// Collects bytes until an event is whole.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    bytes: Vec<u8>,
    /// Where what was not handed out begins.
    start: usize,
    /// Where the search for the end goes on.
    scanned: usize,
    /// The last event ended with a CR, to which an LF may still belong.
    cr: bool,
}

impl Splitter {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Hands out the events that `bytes` make whole. What is too long to be looked into comes back.
    pub(crate) fn each(&mut self, bytes: &[u8], mut see: impl FnMut(Vec<u8>)) -> Option<Vec<u8>> {
        self.push(bytes);
        while let Some(event) = self.next_event() {
            see(event);
        }
        (self.len() > EVENT_MAX).then(|| self.rest())
    }

    /// The next whole event, with the blank line that ends it. An LF that came too late for its CR
    /// is handed out alone.
    pub(crate) fn next_event(&mut self) -> Option<Vec<u8>> {
        let first = *self.bytes.get(self.start)?;
        let late = std::mem::take(&mut self.cr) && first == b'\n';
        let end = if late { self.start + 1 } else { self.event_end()? };
        let event = if self.start == 0 && end == self.bytes.len() {
            self.rest()
        } else {
            self.bytes[self.start..end].to_vec()
        };
        (self.start, self.scanned) = if self.bytes.is_empty() { (0, 0) } else { (end, end) };
        self.cr = event.last() == Some(&b'\r');
        Some(event)
    }

    /// What is left when the stream ends.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let rest = std::mem::take(&mut self.bytes).split_off(self.start);
        (self.start, self.scanned) = (0, 0);
        rest
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// An event ends with an empty line; lines end with LF, CRLF or CR.
    fn event_end(&mut self) -> Option<usize> {
        let bytes = &self.bytes;
        let mut at = self.scanned;
        while at < bytes.len() {
            let Some(found) = bytes[at..].iter().position(|b| matches!(b, b'\n' | b'\r')) else {
                break;
            };
            let line_end = at + found;
            self.scanned = line_end;
            let next = after_break(bytes, line_end)?;
            match bytes.get(next) {
                // Nobody waits for the LF: the stream may end here, or be silent for long.
                Some(b'\n' | b'\r') => return Some(after_break(bytes, next).unwrap_or(next + 1)),
                Some(_) => at = next,
                None => return None,
            }
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

/// The data of an event: its `data` lines put together; `None` when it has none.
pub(crate) fn data(event: &[u8]) -> Option<String> {
    let text = decoded(event);
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

/// The text of an event as clients read it: without the mark that a stream may begin with, and with
/// a sign in the place of what is no UTF-8.
fn decoded(event: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(unmarked(event))
}

/// The value of a field of an event that is no data; the last one where it stands twice.
pub(crate) fn field(event: &[u8], name: &str) -> Option<String> {
    let text = decoded(event);
    let mut values = text.split(['\n', '\r']).filter_map(|line| {
        let value = line.strip_prefix(name)?.strip_prefix(':')?;
        Some(value.strip_prefix(' ').unwrap_or(value))
    });
    values.next_back().map(str::to_owned)
}

/// The event with other data; `id:`, `retry:` and comments stay.
pub(crate) fn with_data(event: &[u8], data: &str) -> Vec<u8> {
    let text = decoded(event);
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
    is_response && json::get(&members, "id").is_some_and(|own| is_same_id(own, id))
}

/// Two forms of one id: libraries escape strings and write numbers each in their own way.
fn is_same_id(one: &str, other: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    one == other
        || match (json::string(one), json::string(other)) {
            (Some(one), Some(other)) => one == other,
            (None, None) => number(one).is_some_and(|one| number(other) == Some(one)),
            _ => false,
        }
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
        let all_data = |events: &[Vec<u8>]| events.iter().map(|e| data(e)).collect::<Vec<_>>();
        let (whole, rest) = split(STREAM.len());
        assert_eq!(whole.len(), 4);
        assert_eq!([whole.concat(), rest].concat(), STREAM);
        for chunk in 1..STREAM.len() {
            let (mut events, rest) = split(chunk);
            assert_eq!([events.concat(), rest].concat(), STREAM, "chunks of {chunk}");
            events.retain(|event| event != b"\n");
            assert_eq!(all_data(&events), all_data(&whole), "chunks of {chunk}");
        }
    }

    #[test]
    fn an_event_that_ends_with_a_cr_is_not_held_back() {
        let mut splitter = Splitter::default();
        splitter.push(b"data: 1\r\r");
        assert_eq!(splitter.next_event().as_deref(), Some(&b"data: 1\r\r"[..]));
        splitter.push(b"data: 2\r\n\r");
        assert_eq!(splitter.next_event().as_deref(), Some(&b"data: 2\r\n\r"[..]));
        splitter.push(b"\ndata: 3\n");
        assert_eq!(splitter.next_event().as_deref(), Some(&b"\n"[..]));
        assert_eq!((splitter.next_event(), splitter.rest()), (None, b"data: 3\n".to_vec()));
    }

    #[test]
    fn a_mark_at_the_beginning_and_bytes_that_are_no_text_hide_no_data() {
        let event = b"\xEF\xBB\xBFdata: {}\n: \xFF\n\n";
        assert_eq!(data(event).as_deref(), Some("{}"));
        assert_eq!(data(&with_data(event, "1")).as_deref(), Some("1"));
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
        for (own, id) in [(r#""\u00e9\/""#, r#""é/""#), ("1", "1.0"), ("1e2", "100"), ("0", "-0")]
        {
            assert!(answers(&format!(r#"{{"id":{own},"result":1}}"#), id), "{own} {id}");
        }
        for (own, id) in [("null", "0"), (r#""1.0""#, r#""1""#), ("1", r#""1""#), ("1", "2")] {
            assert!(!answers(&format!(r#"{{"id":{own},"result":1}}"#), id), "{own} {id}");
        }
    }
}
