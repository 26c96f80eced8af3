//! Batches, which only protocol 2025-03-26 has.
//!
//! Invariant: each message is treated as if it came alone, in its turn; the answer is the array of
//! answers, or an event stream as soon as anything comes that is no answer.
//! Deliberately absent: two messages of one batch at the same time.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use mws_catalog::json;
use tokio::sync::mpsc::{self, Sender};

use crate::events::Events;
use crate::proxy::{Proxy, accepted};
use crate::reply::{self, Reply};
use crate::rpc::{self, INVALID_REQUEST, Message};
use crate::sse::{self, EVENT_MAX};

/// Messages in one batch.
const MOST: usize = 100;
/// Messages waiting for the client of a batch.
const BEHIND: usize = 16;

/// What is left of a batch, and who sent it.
struct Batch {
    proxy: Arc<Proxy>,
    headers: HeaderMap,
    conn: Option<String>,
    elements: std::vec::IntoIter<Bytes>,
}

/// The part of the answer that comes for one message of a batch.
struct Part {
    /// The id that is to be answered; `None` for a message without an answer.
    id: Option<String>,
    source: Source,
}

enum Source {
    Json(Option<String>),
    Stream(Events),
}

impl Proxy {
    /// Answers a batch.
    pub(crate) async fn batch(
        self: &Arc<Self>,
        headers: HeaderMap,
        body: &[u8],
        conn: Option<&str>,
    ) -> Reply {
        let refuse = |why: &str| reply::json(400, rpc::error(None, INVALID_REQUEST, why));
        let elements = std::str::from_utf8(body).ok().and_then(json::elements);
        let Some(elements) = elements else { return refuse("the batch is not a JSON array") };
        if elements.is_empty() || elements.len() > MOST {
            return refuse(&format!("a batch holds 1 to {MOST} messages"));
        }
        let owned = |element: &str| Bytes::copy_from_slice(element.as_bytes());
        let elements: Vec<_> = elements.into_iter().map(owned).collect();
        let (proxy, conn) = (Arc::clone(self), conn.map(str::to_owned));
        Batch { proxy, headers, conn, elements: elements.into_iter() }.answer().await
    }
}

impl Batch {
    async fn answer(mut self) -> Reply {
        let mut answers = Vec::new();
        while let Some(mut part) = self.next().await {
            let Some(id) = part.id.clone() else { continue };
            match part.next().await {
                Some(text) if !sse::answers(&text, &id) && !part.is_done() => {
                    answers.push(text);
                    return self.stream(answers, part);
                }
                Some(text) => answers.push(text),
                None => answers.push(lost(&id)),
            }
        }
        if answers.is_empty() {
            return accepted();
        }
        reply::json(200, format!("[{}]", answers.join(",")))
    }

    /// Goes on as a stream, with what came so far first.
    fn stream(mut self, before: Vec<String>, first: Part) -> Reply {
        let (to_client, messages) = mpsc::channel(BEHIND);
        tokio::spawn(async move {
            for text in before {
                let _ = to_client.send(text).await;
            }
            first.pass(&to_client).await;
            while let Some(part) = self.next().await {
                part.pass(&to_client).await;
            }
        });
        reply::messages(None, messages)
    }

    async fn next(&mut self) -> Option<Part> {
        let element = self.elements.next()?;
        let message = Message::parse(&element);
        let id = match &message {
            Ok(message) => message.id.filter(|_| message.method.is_some()),
            Err(_) => Some("null"),
        };
        let id = id.map(str::to_owned);
        let single = self.proxy.single(self.headers.clone(), element, self.conn.as_deref());
        let reply = Box::pin(single).await;
        if reply::is_stream(reply.headers()) {
            let source = Source::Stream(Events::of(reply.into_body(), EVENT_MAX));
            return Some(Part { id, source });
        }
        let body = reply.into_body().collect().await.ok().map(|body| body.to_bytes());
        let text = body.filter(|body| Message::parse(body).is_ok());
        let text = text.and_then(|body| String::from_utf8(body.into()).ok());
        Some(Part { id, source: Source::Json(text) })
    }
}

impl Part {
    async fn next(&mut self) -> Option<String> {
        match &mut self.source {
            Source::Json(text) => text.take(),
            Source::Stream(events) => events.next_message().await.ok().flatten(),
        }
    }

    /// True when nothing more can come.
    fn is_done(&self) -> bool {
        matches!(self.source, Source::Json(_))
    }

    /// Sends everything on; an error in the place of an answer that does not come.
    async fn pass(mut self, to_client: &Sender<String>) {
        let mut open = self.id.clone();
        while let Some(text) = self.next().await {
            open = open.filter(|id| !sse::answers(&text, id) && !self.is_done());
            let _ = to_client.send(text).await;
        }
        if let Some(id) = open {
            let _ = to_client.send(lost(&id)).await;
        }
    }
}

fn lost(id: &str) -> String {
    rpc::error(Some(id), rpc::SERVER_ERROR, "no answer from the upstream")
}
