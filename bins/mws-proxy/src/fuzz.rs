//! What fuzz targets ask of the proxy's readers. Only built for them.
//!
//! Invariant: each function panics when a promise of its reader is broken.
//! Deliberately absent: anything that a program or another test may call.

use mws_catalog::json;

use crate::edit::{Edits, Object};
use crate::rpc::Message;
use crate::sse::{Splitter, data, with_data};

/// Reads an envelope, gives the message another id, and writes its parameters anew.
pub fn envelope(bytes: &[u8]) {
    let _ = Message::parse_strictly(bytes);
    let Ok(message) = Message::parse(bytes) else { return };
    let _ = message.check();
    let other = message.with_id("\"other\"");
    let again = Message::parse(other.as_bytes()).expect("an edited message is a message");
    assert_eq!(again.id, message.id.map(|_| "\"other\""));
    assert_eq!(again.params, message.params);
    assert_eq!((again.result, again.error), (message.result, message.error));
    let id = message.id.unwrap_or_default();
    assert_eq!(other.len() + id.len(), message.text.len() + again.id.unwrap_or_default().len());
    let mut edits = Edits::of(message.text);
    for member in &message.meta() {
        edits.replace(member.value, member.value);
    }
    assert_eq!(edits.apply(), message.text, "what is replaced by itself changes nothing");
    let mut params = Object::of(message.params);
    params.set("name", "\"x\"");
    let json = params.to_json();
    let members = json::members(&json).expect("an object written anew is an object");
    assert_eq!(json::get(&members, "name"), Some("\"x\""));
}

/// Splits a stream of events at once and in pieces.
pub fn sse(bytes: &[u8]) {
    let (whole, rest) = split(bytes, bytes.len().max(1));
    assert_eq!([whole.concat(), rest.clone()].concat(), bytes);
    for size in [1, 2, 7] {
        let (events, rest) = split(bytes, size);
        assert_eq!([events.concat(), rest].concat(), bytes, "in pieces of {size}");
        let all = |events: &[Vec<u8>]| events.iter().filter_map(|e| data(e)).collect::<Vec<_>>();
        assert_eq!(all(&events), all(&whole), "in pieces of {size}");
    }
    for event in &whole {
        let Some(text) = data(event) else { continue };
        let other = with_data(event, "{\"a\":\n1}");
        assert_eq!(data(&other).as_deref(), Some("{\"a\":\n1}"));
        let same = data(&with_data(event, &text));
        assert_eq!(same.as_deref(), Some(text.as_str()));
    }
}

fn split(bytes: &[u8], size: usize) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut splitter = Splitter::default();
    let mut events = Vec::new();
    for part in bytes.chunks(size) {
        splitter.push(part);
        while let Some(event) = splitter.next_event() {
            events.push(event);
        }
    }
    (events, splitter.rest())
}
