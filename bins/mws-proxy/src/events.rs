//! The events of a stream that is read here, one after the other.
//!
//! Invariant: an event is handed out whole, as it was sent; one without an end is given up at a limit.
//! Deliberately absent: streams that only pass; see [`crate::body`].

use bytes::Bytes;
use http_body_util::BodyExt;
use mws_catalog::json;

use crate::body::{BoxBody, replayed};
use crate::sse::{self, Splitter};

/// Reads an event stream.
pub(crate) struct Events {
    body: BoxBody,
    splitter: Splitter,
    /// Longest event, in bytes.
    max: usize,
}

/// Why there are no further events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The stream was cut off.
    Cut,
    /// An event is longer than the limit.
    TooLong,
}

impl Events {
    pub(crate) fn of(body: BoxBody, max: usize) -> Self {
        Self { body, splitter: Splitter::default(), max }
    }

    /// The same stream with another limit.
    pub(crate) fn up_to(self, max: usize) -> Self {
        Self { max, ..self }
    }

    /// The next event; `None` at the end. May be given up and asked again.
    ///
    /// # Errors
    /// When the stream is cut off, or an event is too long.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, Unread> {
        loop {
            if let Some(event) = self.splitter.next_event() {
                return Ok(Some(event));
            }
            if self.splitter.len() > self.max {
                return Err(Unread::TooLong);
            }
            match self.body.frame().await.transpose().map_err(|_| Unread::Cut)? {
                Some(frame) => self.splitter.push(frame.data_ref().map_or(&[][..], |data| data)),
                None => return Ok(self.unended()),
            }
        }
    }

    /// The data of the next event that has any; `None` at the end. May be given up and asked again.
    ///
    /// # Errors
    /// As [`Events::next`].
    pub(crate) async fn next_message(&mut self) -> Result<Option<String>, Unread> {
        while let Some(event) = self.next().await? {
            if let Some(text) = sse::data(&event).filter(|text| !text.is_empty()) {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// The last event may lack the line that ends it, but must be whole.
    fn unended(&mut self) -> Option<Vec<u8>> {
        let rest = self.splitter.rest();
        if sse::data(&rest).is_some_and(|text| json::members(&text).is_some()) {
            return Some(rest);
        }
        self.splitter.push(&rest);
        None
    }

    /// The stream from its beginning, of which these events were read.
    pub(crate) fn again(mut self, mut read: Vec<Bytes>) -> BoxBody {
        read.push(self.splitter.rest().into());
        replayed(read, self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::full;

    const STREAM: &str = ": a\n\nid: 1\ndata: {\"n\":1}\n\ndata: {\"n\":2}";

    #[tokio::test]
    async fn messages_are_read_to_the_last_and_what_was_cut_off_is_none() {
        let mut events = Events::of(full(STREAM), 64);
        assert_eq!(events.next_message().await, Ok(Some("{\"n\":1}".to_owned())));
        assert_eq!(events.next_message().await, Ok(Some("{\"n\":2}".to_owned())));
        assert_eq!(events.next_message().await, Ok(None));
        let mut cut = Events::of(full("data: {\"n\":"), 64);
        assert_eq!(cut.next_message().await, Ok(None));
    }

    #[tokio::test]
    async fn an_event_without_end_is_given_up_at_the_limit() {
        let mut events = Events::of(full(": a\n\ndata: {\"n\":1}"), 8);
        assert_eq!(events.next().await, Ok(Some(b": a\n\n".to_vec())));
        assert_eq!(events.next().await, Err(Unread::TooLong));
        let mut events = events.up_to(64);
        assert_eq!(events.next().await, Ok(Some(b"data: {\"n\":1}".to_vec())));
        assert_eq!(events.next().await, Ok(None));
    }

    #[tokio::test]
    async fn a_stream_that_was_read_in_part_is_the_same_again() {
        let mut events = Events::of(full(STREAM), 64);
        let first = events.next().await.expect("readable").expect("an event");
        let whole = events.again(vec![first.into()]).collect().await.expect("a body").to_bytes();
        assert_eq!(whole, STREAM.as_bytes());
    }
}
