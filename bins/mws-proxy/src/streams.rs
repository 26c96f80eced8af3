//! The GET streams of clients in front of an upstream process.
//!
//! Invariant: what belongs to no request goes to every stream that is open.
//! Deliberately absent: replay after a disconnect; events here carry no ids.

use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::mpsc::{self, UnboundedSender};

use crate::body::Channel;
use crate::reply::{self, Reply};
use crate::sse;

/// All open streams.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<Vec<UnboundedSender<Bytes>>>);

impl Streams {
    /// Opens one more stream.
    pub(crate) fn open(&self) -> Reply {
        let (sender, receiver) = mpsc::unbounded_channel();
        // A first byte makes the response head leave at once.
        let _ = sender.send(Bytes::from_static(b": open\n\n"));
        let mut streams = self.streams();
        streams.retain(|stream| !stream.is_closed());
        streams.push(sender);
        reply::stream(Channel::boxed(receiver, ()))
    }

    /// Sends a message to everybody.
    pub(crate) fn send(&self, text: &str) {
        let event = Bytes::from(sse::message(text));
        self.streams().retain(|stream| stream.send(event.clone()).is_ok());
    }

    /// Ends all streams.
    pub(crate) fn close(&self) {
        self.streams().clear();
    }

    fn streams(&self) -> MutexGuard<'_, Vec<UnboundedSender<Bytes>>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
