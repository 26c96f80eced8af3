//! Batches, which only protocol 2025-03-26 has.
//!
//! Invariant: each message is treated as if it came alone; the answer is the array of answers.
//! Deliberately absent: streaming. A batch is answered when its last message is.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use mws_catalog::json;

use crate::proxy::{Proxy, accepted};
use crate::reply::{self, Reply};
use crate::rpc::{self, INVALID_REQUEST, Message};
use crate::sse::{self, Splitter};

/// Messages in one batch.
const MOST: usize = 100;

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
        let mut answers = Vec::new();
        for element in elements {
            let message = Message::parse(element.as_bytes());
            let id = message.as_ref().ok().filter(|m| m.method.is_some()).and_then(|m| m.id);
            let bytes = Bytes::copy_from_slice(element.as_bytes());
            let reply = Box::pin(self.single(headers.clone(), bytes, conn)).await;
            let is_answer = id.is_some() || message.is_err();
            if is_answer {
                let id = id.unwrap_or("null");
                let lost =
                    || rpc::error(Some(id), rpc::SERVER_ERROR, "no answer from the upstream");
                answers.push(answer_in(reply, id).await.unwrap_or_else(lost));
            }
        }
        if answers.is_empty() {
            return accepted();
        }
        reply::json(200, format!("[{}]", answers.join(",")))
    }
}

/// The answer to `id` in a reply, be it JSON or a stream.
async fn answer_in(reply: Reply, id: &str) -> Option<String> {
    let is_stream = reply::is_stream(reply.headers());
    let body = reply.into_body().collect().await.ok()?.to_bytes();
    if !is_stream {
        Message::parse(&body).ok()?;
        return String::from_utf8(body.to_vec()).ok();
    }
    let mut splitter = Splitter::default();
    splitter.push(&body);
    splitter.push(b"\n\n");
    while let Some(event) = splitter.next_event() {
        if let Some(text) = sse::data(&event).filter(|text| sse::answers(text, id)) {
            return Some(text);
        }
    }
    None
}
