//! A tool call under way, and the event it leaves.
//!
//! Invariant: a call that was forwarded leaves at most one event, when it is complete; one that is
//! cut off or given up counts as failed.
//! Deliberately absent: arguments and results.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use mws_event::{Call, Event, Timestamp, Via};
use mws_state::Recorder;

use crate::body::Seen;
use crate::caller::Caller;
use crate::rpc::{Message, Outcome};
use crate::sse::{self, EVENT_MAX, Splitter};

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
    /// The events so far, for an event stream, with the id to look for.
    events: Option<(Splitter, String)>,
}

impl CallWatch {
    /// For a JSON body.
    pub(crate) fn json(call: OpenCall) -> Self {
        Self { call, json: Vec::new(), size: 0, events: None }
    }

    /// For an event stream that answers the request `id`.
    pub(crate) fn events(call: OpenCall, id: &str) -> Self {
        let events = Some((Splitter::default(), id.to_owned()));
        Self { call, json: Vec::new(), size: 0, events }
    }

    pub(crate) fn see(&mut self, seen: &Seen<'_>) {
        match (seen, &mut self.events) {
            (Seen::Data(data), Some((splitter, id))) => {
                splitter.push(data);
                while let Some(event) = splitter.next_event() {
                    if let Some(text) = sse::data(&event).filter(|text| sse::answers(text, id)) {
                        self.call.finish_by(text.as_bytes());
                    }
                }
                if splitter.len() > EVENT_MAX {
                    drop(splitter.rest());
                }
            }
            (Seen::Data(data), None) => {
                self.size += data.len();
                if self.size <= JSON_MAX {
                    self.json.push((*data).clone());
                }
            }
            (Seen::End, Some((splitter, id))) => {
                let rest = splitter.rest();
                if let Some(text) = sse::data(&rest).filter(|text| sse::answers(text, id)) {
                    self.call.finish_by(text.as_bytes());
                }
            }
            (Seen::End, None) if self.size > JSON_MAX => self.call.finish(Outcome::Ok),
            (Seen::End, None) => match self.json.as_slice() {
                [one] => self.call.finish_by(one),
                many => self.call.finish_by(&many.concat()),
            },
        }
    }
}
