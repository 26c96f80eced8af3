//! The answer to one request, seen to its end: what the upstream cuts off is finished here.
//!
//! Invariant: whole events pass byte for byte; a stream that ends, breaks or falls silent without
//! the answer is closed with an error for that request alone.
//! Deliberately absent: streams that belong to a session; they may end at any time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use crate::body::{self, BoxBody, BoxError};
use crate::call::OpenCall;
use crate::catalog::Shelf;
use crate::fault::{Fault, FaultKind};
use crate::reply::{self, Reply};
use crate::rpc;
use crate::sse::{self, Splitter};

/// A JSON answer up to this size is read whole before its head goes out.
const WHOLE: usize = 1024 * 1024;
/// How long an answer that has begun may stand still.
const STANDSTILL: Duration = Duration::from_secs(60);

/// A JSON answer, read as far as that is cheap: while nothing is out, its loss can still be told as
/// an error. Streams and what is larger pass as they come.
///
/// # Errors
/// When it is cut off or stands still.
pub(crate) async fn settled(response: Reply) -> Result<Reply, Fault> {
    let is_large = response.body().size_hint().exact().is_some_and(|size| size > WHOLE as u64);
    if is_large || reply::is_stream(response.headers()) || response.body().is_end_stream() {
        return Ok(response);
    }
    let (parts, mut incoming) = response.into_parts();
    let (mut read, mut size) = (Vec::with_capacity(1), 0);
    while size <= WHOLE {
        let next = tokio::time::timeout(STANDSTILL, incoming.frame()).await.map_err(|_| {
            Fault::new(FaultKind::Timeout, "the upstream's answer stands still since 60 s")
        })?;
        let Some(frame) = next else {
            return Ok(Response::from_parts(parts, body::full(body::joined(read))));
        };
        let cut = |_| Fault::new(FaultKind::Closed, "the upstream's answer was cut off");
        if let Ok(data) = frame.map_err(cut)?.into_data() {
            size += data.len();
            read.push(data);
        }
    }
    Ok(Response::from_parts(parts, body::replayed(read, incoming)))
}

/// The event stream that answers one request.
pub(crate) struct Answering {
    inner: BoxBody,
    splitter: Splitter,
    id: String,
    call: Option<OpenCall>,
    /// Told when the upstream says here that its tools changed.
    shelf: Option<Arc<Shelf>>,
    /// The answer has passed, or may have.
    answered: bool,
    /// Its events carry ids: a client of a session may ask for the rest elsewhere.
    resumable: bool,
    ended: bool,
    silence: Duration,
    alarm: Pin<Box<Sleep>>,
}

impl Answering {
    /// `silence` is how long the upstream may say nothing before it has answered.
    pub(crate) fn boxed(
        inner: BoxBody,
        id: &str,
        call: Option<OpenCall>,
        silence: Duration,
        shelf: Option<&Arc<Shelf>>,
    ) -> BoxBody {
        let (splitter, id) = (Splitter::default(), id.to_owned());
        let alarm = Box::pin(tokio::time::sleep(silence));
        let (answered, resumable, ended, shelf) = (false, false, false, shelf.cloned());
        Self { inner, splitter, id, call, shelf, answered, resumable, ended, silence, alarm }
            .boxed_unsync()
    }

    fn see(&mut self, data: &[u8]) {
        let too_long = self.splitter.each(data, |event| {
            self.resumable |=
                event.split(|b| matches!(b, b'\n' | b'\r')).any(|line| line.starts_with(b"id:"));
            let Some(text) = sse::data(&event) else { return };
            if sse::answers(&text, &self.id) {
                self.answered = true;
                if let Some(call) = &mut self.call {
                    call.finish_by(text.as_bytes());
                }
            } else if rpc::says_tools_changed(&text)
                && let Some(shelf) = &self.shelf
            {
                shelf.mark_stale();
            }
        });
        // It may have been the answer.
        self.answered |= too_long.is_some();
        let next = Instant::now() + self.silence;
        self.alarm.as_mut().reset(next);
    }

    /// The end of a stream that lacks its answer. What came of an event that was cut off gets a
    /// type that no client listens to.
    fn finish(&mut self, why: &str) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.ended = true;
        self.inner = body::full(Bytes::new());
        self.call = None;
        let mut last =
            if self.splitter.rest().is_empty() { Vec::new() } else { b"\nevent: cut\n\n".to_vec() };
        last.extend(sse::message(&rpc::error(Some(&self.id), rpc::SERVER_ERROR, why)));
        Poll::Ready(Some(Ok(Frame::data(last.into()))))
    }
}

impl Body for Answering {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        const CUT: &str = "the upstream's stream ended without an answer";
        if self.ended {
            return Poll::Ready(None);
        }
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        let open = !self.answered && !self.resumable;
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    let data = data.clone();
                    self.see(&data);
                }
            }
            Poll::Ready(_) if open => {
                // The last event may lack the empty line behind it.
                let rest = self.splitter.rest();
                self.see(&[&rest, &b"\n\n"[..]].concat());
                if !self.answered {
                    self.splitter.push(&rest);
                    return self.finish(CUT);
                }
            }
            Poll::Pending if open && self.alarm.as_mut().poll(cx).is_ready() => {
                let why = Fault::silent(self.silence).message;
                return self.finish(&why);
            }
            Poll::Ready(_) | Poll::Pending => {}
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    const ANSWER: &str = "data: {\"id\":7,\"result\":{}}\n\n";
    const SILENCE: Duration = Duration::from_secs(300);

    /// A body of what is sent, and of nothing else: no comment keeps it alive.
    struct Sent(mpsc::Receiver<&'static str>);

    impl Body for Sent {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            let piece = self.0.poll_recv(cx);
            piece.map(|piece| piece.map(|piece| Ok(Frame::data(piece.into()))))
        }
    }

    /// What reaches the client of these pieces, each sent after a pause, and of a stream that then
    /// ends, or is held open.
    async fn passed_slowly(pieces: &[&'static str], pause: Duration, hold: bool) -> String {
        let (sender, receiver) = mpsc::channel(16);
        let body = Answering::boxed(Sent(receiver).boxed_unsync(), "7", None, SILENCE, None);
        let send = async move {
            for piece in pieces {
                tokio::time::sleep(pause).await;
                sender.send(*piece).await.expect("room");
            }
            Some(sender).filter(|_| hold)
        };
        let (_held, whole) = tokio::join!(send, body.collect());
        String::from_utf8(whole.expect("a body").to_bytes().to_vec()).expect("UTF-8")
    }

    async fn passed(pieces: &[&'static str]) -> String {
        passed_slowly(pieces, Duration::ZERO, false).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_without_its_answer_gets_an_error_and_one_with_it_nothing() {
        assert_eq!(passed(&[": a\n\n", ANSWER]).await, format!(": a\n\n{ANSWER}"));
        assert_eq!(
            passed(&["data: {\"id\":7,", "\"result\":{}}"]).await,
            "data: {\"id\":7,\"result\":{}}"
        );
        let cut = passed(&[": a\n\n", "data: {\"id\":7,\"res"]).await;
        assert!(
            cut.starts_with(": a\n\ndata: {\"id\":7,\"res\nevent: cut\n\nevent: message\n"),
            "{cut}"
        );
        assert!(cut.contains("\"id\":7,\"error\"") && cut.contains("ended without"), "{cut}");
        let marked = passed(&["\u{feff}data: {\"id\":7.0,\"result\":{}}\r", "\r"]).await;
        assert_eq!(marked, "\u{feff}data: {\"id\":7.0,\"result\":{}}\r\r");
        let foreign = passed(&["data: {\"id\":8,\"result\":{}}\n\n"]).await;
        assert!(foreign.contains("\"id\":7,\"error\""), "{foreign}");
        let resumable = passed(&["id: 1\ndata:\n\n"]).await;
        assert_eq!(resumable, "id: 1\ndata:\n\n", "the rest may be asked for elsewhere");
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_stream_and_progress_keeps_it() {
        let (begun, pause) = (Instant::now(), Duration::from_secs(200));
        let silent = passed_slowly(&[": a\n\n"], pause, true).await;
        assert!(silent.contains("did not answer in 300 s"), "{silent}");
        assert_eq!(begun.elapsed(), pause + SILENCE);
        let begun = Instant::now();
        let alive = passed_slowly(&[": a\n\n", ": b\n\n", ANSWER], pause, false).await;
        assert_eq!(alive, format!(": a\n\n: b\n\n{ANSWER}"));
        assert_eq!(begun.elapsed(), pause * 3);
    }
}
