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
    ) -> Self {
        let mut event = Call::new(ts, tool, via, false, 0);
        event.client.clone_from(&caller.client);
        event.session.clone_from(&caller.session);
        event.call_id.clone_from(&caller.call_id);
        event.conn.clone_from(&caller.conn);
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
            Seen::End if self.size > JSON_MAX => self.call.finish(Outcome::Ok),
            Seen::End => match self.json.as_slice() {
                [one] => self.call.finish_by(one),
                many => self.call.finish_by(&many.concat()),
            },
        }
    }
}
