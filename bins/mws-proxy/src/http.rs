//! The front door: what is let in is read and answered, within limits.
//!
//! Invariant: every request passes the guard first; what is too much is told so, never left waiting.
//! Deliberately absent: who may come in; see [`crate::guard`].

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{HeaderMap, Method, Request, StatusCode};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;

use crate::body;
use crate::current::Current;
use crate::guard::{Guard, Refusal};
use crate::line::Line;
use crate::proxy::Proxy;
use crate::reply::{self, Reply};
use crate::rpc;

const BODY_MAX: usize = 16 * 1024 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// A body up to this size is not counted.
const SMALL: usize = 64 * 1024;
/// All larger bodies together, in KiB.
const BUDGET: usize = 64 * 1024;
/// A body of at least this size has a thread of its own, so that nobody waits while it is read.
const LARGE: usize = 512 * 1024;
/// Requests under way at one time.
pub(crate) const REQUESTS: usize = 1024;
/// How long a wrong token waits while somebody guesses.
const PENALTY: Duration = Duration::from_secs(1);
const OVERLOADED: &str = "the proxy is overloaded; try again in a moment";

/// The door of one listener.
pub(crate) struct Door {
    pub(crate) proxy: Arc<Current<Proxy>>,
    pub(crate) guard: Arc<Current<Guard>>,
    /// Requests that are not answered to the end.
    busy: Arc<AtomicUsize>,
    /// Streams that are open.
    streams: Arc<AtomicUsize>,
    streams_most: usize,
    budget: Arc<Semaphore>,
}

/// Counts one request as long as it lives.
struct Turn {
    count: Arc<AtomicUsize>,
    line: Arc<Line>,
    _body: Option<OwnedSemaphorePermit>,
}

impl Turn {
    fn take(count: &Arc<AtomicUsize>, line: &Arc<Line>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self { count: Arc::clone(count), line: Arc::clone(line), _body: None }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
        self.line.end();
    }
}

impl Door {
    pub(crate) fn new(
        proxy: Arc<Current<Proxy>>,
        guard: Arc<Current<Guard>>,
        streams_most: usize,
    ) -> Self {
        let (busy, streams) = Default::default();
        let budget = Arc::new(Semaphore::new(BUDGET));
        Self { proxy, guard, busy, streams, streams_most, budget }
    }

    /// Requests that are not answered to the end.
    pub(crate) fn busy(&self) -> usize {
        self.busy.load(Ordering::Acquire)
    }

    /// Answers one request.
    pub(crate) async fn handle(&self, request: Request<Incoming>, line: &Arc<Line>) -> Reply {
        line.begin();
        let guard = self.guard.get();
        if let Err((status, why)) = guard.check(&request) {
            if status == StatusCode::UNAUTHORIZED && guard.is_tried() {
                tokio::time::sleep(PENALTY).await;
            }
            line.end();
            return refuse(status, why);
        }
        let is_post = *request.method() == Method::POST;
        let (count, most) =
            if is_post { (&self.busy, REQUESTS) } else { (&self.streams, self.streams_most) };
        let mut turn = Turn::take(count, line);
        if count.load(Ordering::Acquire) > most {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, OVERLOADED);
        }
        let (mut parts, incoming) = request.into_parts();
        guard.keep_token(&mut parts.headers);
        let proxy = self.proxy.get();
        let reply = if is_post {
            match self.read(incoming).await {
                Ok((body, permit)) => {
                    turn._body = permit;
                    answer(proxy, parts.headers, body).await
                }
                Err((status, why)) => refuse(status, why),
            }
        } else {
            survive(pin!(proxy.session_stream(&parts.method, &parts.headers))).await
        };
        reply.map(|body| body::guarded(body, turn))
    }

    /// Reads a body; a large one takes from the budget that all share.
    async fn read(&self, body: Incoming) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refusal> {
        const TOO_LARGE: Refusal =
            (StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 16 MiB");
        if body.size_hint().lower() > BODY_MAX as u64 {
            return Err(TOO_LARGE);
        }
        let read = async {
            let (mut body, mut parts, mut size) = (body, Vec::with_capacity(1), 0);
            let mut permit: Option<OwnedSemaphorePermit> = None;
            while let Some(frame) = body.frame().await {
                let cut = |_| (StatusCode::BAD_REQUEST, "the body was cut off");
                let Ok(data) = frame.map_err(cut)?.into_data() else { continue };
                size += data.len();
                let held = SMALL + permit.as_ref().map_or(0, |p| p.num_permits() * 1024);
                if size > BODY_MAX {
                    return Err(TOO_LARGE);
                }
                if size > held {
                    // Some at a time, so that the lock of the budget is taken rarely.
                    let kib =
                        u32::try_from((size - held).div_ceil(1024).max(256)).unwrap_or(u32::MAX);
                    let more = Arc::clone(&self.budget).try_acquire_many_owned(kib);
                    let more = more.map_err(|_| (StatusCode::SERVICE_UNAVAILABLE, OVERLOADED))?;
                    match &mut permit {
                        Some(permit) => permit.merge(more),
                        None => permit = Some(more),
                    }
                }
                parts.push(data);
            }
            Ok((body::joined(parts), permit))
        };
        let late = (StatusCode::REQUEST_TIMEOUT, "the body took longer than 30 s");
        tokio::time::timeout(BODY_TIMEOUT, read).await.unwrap_or(Err(late))
    }
}

/// The reply, or the one for a request that hit a defect of the proxy: it alone fails. Pinned by the
/// caller: an `async fn` would hold it twice, for every connection.
async fn survive(mut reply: Pin<&mut impl Future<Output = Reply>>) -> Reply {
    let caught = std::future::poll_fn(|cx| {
        let poll = AssertUnwindSafe(|| reply.as_mut().poll(cx));
        match std::panic::catch_unwind(poll) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => std::task::Poll::Ready(Err(panic)),
        }
    });
    caught.await.unwrap_or_else(|_| {
        tracing::error!("A request hit a defect of the proxy and was answered with an error.");
        defect()
    })
}

/// Answers a message; a large one apart from all others. The budget of large bodies bounds the
/// threads.
async fn answer(proxy: Arc<Proxy>, headers: HeaderMap, body: Bytes) -> Reply {
    if body.len() < LARGE {
        return survive(pin!(proxy.post(headers, body, None))).await;
    }
    let (held, given_up) = oneshot::channel::<()>();
    let runtime = Handle::current();
    let working = spawn_blocking(move || {
        runtime.block_on(async {
            let reply = pin!(proxy.post(headers, body, None));
            tokio::select! {
                reply = survive(reply) => Some(reply),
                _ = given_up => None,
            }
        })
    });
    let reply = working.await;
    drop(held);
    reply.ok().flatten().unwrap_or_else(defect)
}

fn defect() -> Reply {
    let text = rpc::error(None, rpc::INTERNAL_ERROR, "the proxy failed at this request");
    reply::json(200, text)
}

/// The answer to a request that is not let in.
pub(crate) fn refuse(status: StatusCode, why: &str) -> Reply {
    let mut reply = if why.is_empty() {
        reply::empty(status)
    } else {
        reply::json(status.as_u16(), rpc::error(None, rpc::SERVER_ERROR, why))
    };
    let headers = reply.headers_mut();
    match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert("allow", HeaderValue::from_static("POST, GET, DELETE"));
        }
        StatusCode::UNAUTHORIZED => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        // What is left of such a body is not worth reading.
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
    reply
}

/// What a connection is told for which there is no room, as bytes.
pub(crate) fn no_room() -> String {
    let text = rpc::error(None, rpc::SERVER_ERROR, OVERLOADED);
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_defect_costs_one_request() {
        let reply = survive(pin!(async { panic!("a defect") })).await;
        let body = reply.into_body().collect().await.expect("a body").to_bytes();
        assert!(String::from_utf8_lossy(&body).contains("-32603"));
        let fine = survive(pin!(async { reply::json(200, "{}") })).await;
        assert_eq!(fine.status(), 200);
    }
}
