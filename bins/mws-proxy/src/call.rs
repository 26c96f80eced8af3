//! A tool call under way, and the event it leaves.
//!
//! Invariant: a call that was forwarded leaves at most one event, when it is complete; one that is
//! cut off or given up counts as failed.
//! Deliberately absent: arguments and results.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use memchr::memmem;
use mws_event::{Call, Event, Timestamp, Via};
use mws_state::Recorder;

use crate::body::Seen;
use crate::caller::Caller;
use crate::rpc::{Message, Outcome};

/// Largest JSON response that is looked into, in bytes. A larger one passes unread and counts as
/// a success.
const JSON_MAX: usize = 16 * 1024 * 1024;

/// A call whose outcome is not known yet.
#[derive(Debug)]
pub(crate) struct OpenCall {
    event: Option<Box<Call>>,
    started: Instant,
    recorder: Arc<Recorder>,
}

impl OpenCall {
    pub(crate) fn start(
        recorder: &Arc<Recorder>,
        ts: Timestamp,
        tool: &str,
        via: Via,
        caller: &Caller,
        rank: Option<u32>,
    ) -> Self {
        let mut event = Call::new(ts, tool, via, false, 0);
        event.client.clone_from(&caller.client);
        event.session.clone_from(&caller.session);
        event.call_id.clone_from(&caller.call_id);
        event.conn.clone_from(&caller.conn);
        event.rank = rank;
        let recorder = Arc::clone(recorder);
        Self { event: Some(Box::new(event)), started: Instant::now(), recorder }
    }

    /// Writes the event; nothing for a call that goes on.
    pub(crate) fn finish(&mut self, outcome: Outcome) {
        let Some(mut event) = self.event.take() else { return };
        if outcome == Outcome::Open {
            return;
        }
        event.ok = outcome == Outcome::Ok;
        event.ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.recorder.record(Event::Call(event));
    }

    /// Reads the outcome from a response.
    pub(crate) fn finish_by(&mut self, response: &[u8]) {
        let outcome = Message::parse(response).map_or(Outcome::Failed, |m| Outcome::of(&m));
        self.finish(outcome);
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.finish(Outcome::Failed);
    }
}

/// Watches a response as it streams to the client and finishes the call at its end.
pub(crate) struct CallWatch {
    call: OpenCall,
    /// The JSON body so far; the frames are shared with the stream, not copied.
    json: Vec<Bytes>,
    size: usize,
}

impl CallWatch {
    /// For a JSON body.
    pub(crate) fn json(call: OpenCall) -> Self {
        Self { call, json: Vec::new(), size: 0 }
    }

    pub(crate) fn see(&mut self, seen: &Seen<'_>) {
        match seen {
            Seen::Data(data) => {
                self.size += data.len();
                if self.size <= JSON_MAX {
                    self.json.push((*data).clone());
                }
            }
            Seen::End if self.size > JSON_MAX || plainly_ok(&self.json, self.size) => {
                self.call.finish(Outcome::Ok);
            }
            Seen::End => match self.json.as_slice() {
                [one] => self.call.finish_by(one),
                many => self.call.finish_by(&many.concat()),
            },
        }
    }
}

/// A response of at least this size is searched before it is parsed, in bytes.
const LARGE: usize = 16 * 1024;
/// The pieces of a body overlap by this much when they are searched.
const OVERLAP: usize = 64;

/// True for a large response that can be no failure and no handle, whatever else is in it: it has a
/// result, and nowhere a member that could say otherwise. Parsing would take longer than passing it on.
fn plainly_ok(pieces: &[Bytes], size: usize) -> bool {
    if size < LARGE {
        return false;
    }
    let has_result = pieces.first().is_some_and(|head| {
        let mut found = memmem::find_iter(&head[..head.len().min(256)], b"\"result\"");
        found.any(|at| value_at(head, at + 8).is_some_and(|value| value.starts_with(b"{")))
    });
    let mut seam = Vec::new();
    has_result
        && pieces.iter().all(|piece| {
            seam.extend_from_slice(&piece[..piece.len().min(OVERLAP)]);
            let clear = is_clear(&seam) && is_clear(piece);
            let whole = if piece.len() < OVERLAP { &seam[..] } else { &piece[..] };
            seam = whole[whole.len().saturating_sub(OVERLAP)..].to_vec();
            clear
        })
}

/// True when no member says that a result is an error, or that the call goes on. An escape in a key
/// could hide one.
fn is_clear(text: &[u8]) -> bool {
    let is = |at: usize, harmless: &[u8]| match value_at(text, at) {
        Some(value) => !harmless.is_empty() && value.starts_with(harmless),
        // A key whose colon may be in the next piece must be in the seam.
        None => !text[at..].trim_ascii().is_empty() || at + OVERLAP / 2 > text.len(),
    };
    let hides = |at: usize| matches!(text.get(at + 4), Some(b'4'..=b'7'));
    memmem::find_iter(text, b"\"isError\"").all(|at| is(at + 9, b"false"))
        && memmem::find_iter(text, b"\"resultType\"").all(|at| is(at + 12, b"\"complete\""))
        && memmem::find_iter(text, b"\"task\"").all(|at| is(at + 6, b""))
        && !memmem::find_iter(text, b"\\u00").any(hides)
}

/// What follows the colon behind a key that ends at `at`; `None` when there is no colon.
fn value_at(text: &[u8], at: usize) -> Option<&[u8]> {
    Some(text.get(at..)?.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A response of over 20 KB in pieces of `piece` bytes.
    fn is_ok(before: &str, after: &str, piece: usize) -> bool {
        let filler = r#"\"isError\":true \"resultType\" said he, "#.repeat(500);
        let text = format!("{before}{filler}{after}");
        let pieces: Vec<_> = text.as_bytes().chunks(piece).map(Bytes::copy_from_slice).collect();
        let ok = plainly_ok(&pieces, text.len());
        let parsed = Message::parse(text.as_bytes()).map(|m| Outcome::of(&m));
        assert!(!ok || parsed == Ok(Outcome::Ok), "{before} … {after}");
        ok
    }

    #[test]
    fn a_large_response_is_parsed_where_anything_could_say_that_it_failed() {
        const HEAD: &str =
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":""#;
        for piece in [7, 100, 8192, 1_000_000] {
            assert!(is_ok(
                HEAD,
                r#""}],"isError" : false,"resultType":"complete"}}"#,
                piece.max(100)
            ));
            for after in [
                r#""}],"isError":true}}"#,
                r#""}],"is\u0045rror":true}}"#,
                r#""}],"structuredContent":{"isError":true}}}"#,
                r#""}],"resultType" : "input_required"}}"#,
                r#""}],"task":{"taskId":"t"}}}"#,
            ] {
                assert!(!is_ok(HEAD, after, piece), "{piece} {after}");
            }
            let error = r#"{"id":"result","error":{"code":1,"message":""#;
            assert!(!is_ok(error, r#""}}"#, piece));
        }
    }
}
