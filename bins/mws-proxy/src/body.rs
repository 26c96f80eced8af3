//! Response bodies: whole ones, streams that are watched as they pass, streams that are rewritten
//! event by event, and streams fed from a channel.
//!
//! Invariant: a watched stream reaches the client byte for byte, frame by frame, never collected; a
//! stream of our own is never silent for long.
//! Deliberately absent: compression.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, Sleep, sleep};

use crate::sse::Splitter;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type BoxBody = UnsyncBoxBody<Bytes, BoxError>;

/// A body that is there already.
pub(crate) fn full(bytes: impl Into<Bytes>) -> BoxBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// The upstream's body as it comes.
pub(crate) fn passed(body: Incoming) -> BoxBody {
    body.map_err(Into::into).boxed_unsync()
}

/// The whole body when it has at most `max` bytes; a longer one comes back to be passed on.
pub(crate) async fn at_most(
    mut body: BoxBody,
    max: usize,
) -> Result<Result<Bytes, BoxBody>, BoxError> {
    let (mut read, mut size) = (Vec::with_capacity(1), 0);
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            size += data.len();
            read.push(data);
        }
        if size > max {
            return Ok(Err(replayed(read, body)));
        }
    }
    Ok(Ok(joined(read)))
}

/// The parts as one piece; a single one is not copied.
pub(crate) fn joined(mut parts: Vec<Bytes>) -> Bytes {
    match parts.as_mut_slice() {
        [one] => std::mem::take(one),
        many => many.concat().into(),
    }
}

/// A body of which some was read.
pub(crate) fn replayed(read: Vec<Bytes>, rest: BoxBody) -> BoxBody {
    Replayed { read: read.into(), rest }.boxed_unsync()
}

struct Replayed {
    read: VecDeque<Bytes>,
    rest: BoxBody,
}

impl Body for Replayed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.read.pop_front() {
            Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }
}

/// A body that keeps `guard` until its end.
pub(crate) fn guarded<G: Send + Unpin + 'static>(inner: BoxBody, guard: G) -> BoxBody {
    Guarded { inner, _guard: guard }.boxed_unsync()
}

struct Guarded<G> {
    inner: BoxBody,
    _guard: G,
}

impl<G: Unpin> Body for Guarded<G> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// What an observer of a stream is told.
pub(crate) enum Seen<'a> {
    Data(&'a Bytes),
    /// The stream ended in good order.
    End,
}

/// The upstream's body as it comes, with an observer beside it.
pub(crate) struct Observed<F> {
    inner: BoxBody,
    observe: F,
}

impl<F: FnMut(Seen<'_>) + Send + Unpin + 'static> Observed<F> {
    pub(crate) fn boxed(inner: BoxBody, mut observe: F) -> BoxBody {
        if inner.is_end_stream() {
            observe(Seen::End);
            return full(Bytes::new());
        }
        Self { inner, observe }.boxed_unsync()
    }
}

impl<F: FnMut(Seen<'_>) + Unpin> Body for Observed<F> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    (self.observe)(Seen::Data(data));
                }
                // With a known length hyper asks for no further frame after the last byte.
                if self.inner.is_end_stream() {
                    (self.observe)(Seen::End);
                }
            }
            Poll::Ready(None) => (self.observe)(Seen::End),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// An event stream in which `map` may replace or drop whole events; at the end it is called with
/// `None` and may add one.
pub(crate) struct Rewritten<F> {
    inner: BoxBody,
    splitter: Splitter,
    ready: VecDeque<Bytes>,
    map: F,
    ended: bool,
}

impl<F: FnMut(Option<Vec<u8>>) -> Option<Vec<u8>> + Send + Unpin + 'static> Rewritten<F> {
    pub(crate) fn boxed(inner: BoxBody, map: F) -> BoxBody {
        Self::of(inner, map).boxed_unsync()
    }
}

impl<F: FnMut(Option<Vec<u8>>) -> Option<Vec<u8>>> Rewritten<F> {
    pub(crate) fn of(inner: BoxBody, map: F) -> Self {
        let (splitter, ready) = (Splitter::default(), VecDeque::new());
        Self { inner, splitter, ready, map, ended: false }
    }

    /// True while an event has begun and not ended.
    pub(crate) fn is_inside(&self) -> bool {
        self.splitter.len() > 0
    }

    fn take_in(&mut self, data: &Bytes) {
        let unread = self.splitter.each(data, |event| {
            self.ready.extend((self.map)(Some(event)).map(Bytes::from));
        });
        self.ready.extend(unread.map(Bytes::from));
    }
}

impl<F: FnMut(Option<Vec<u8>>) -> Option<Vec<u8>> + Unpin> Body for Rewritten<F> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            match Pin::new(&mut self.inner).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Some(data) = frame.data_ref() {
                        self.take_in(data);
                    }
                }
                Poll::Ready(Some(Err(e))) => return Poll::Ready(Some(Err(e))),
                Poll::Ready(None) => {
                    self.ended = true;
                    let rest = self.splitter.rest();
                    if !rest.is_empty() {
                        self.ready.push_back(rest.into());
                    }
                    let last = (self.map)(None);
                    self.ready.extend(last.map(Bytes::from));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// How long a stream of our own may be idle: reverse proxies and clients give up after a minute or so.
pub(crate) const IDLE: Duration = Duration::from_secs(15);

/// An event stream fed from a channel, kept alive by comments.
pub(crate) struct Channel<T> {
    first: Option<T>,
    chunks: Receiver<T>,
    form: fn(T) -> Bytes,
    idle: Pin<Box<Sleep>>,
}

impl<T: Send + Unpin + 'static> Channel<T> {
    /// `first` comes before what is in the channel; `form` makes one event of each, or several.
    pub(crate) fn boxed(first: Option<T>, chunks: Receiver<T>, form: fn(T) -> Bytes) -> BoxBody {
        Self { first, chunks, form, idle: Box::pin(sleep(IDLE)) }.boxed_unsync()
    }
}

impl<T: Unpin> Body for Channel<T> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let next = match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => self.chunks.poll_recv(cx),
        };
        let chunk = match next {
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(chunk)) => (self.form)(chunk),
            Poll::Pending => {
                ready!(self.idle.as_mut().poll(cx));
                Bytes::from_static(b":\n\n")
            }
        };
        self.idle.as_mut().reset(Instant::now() + IDLE);
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }
}
