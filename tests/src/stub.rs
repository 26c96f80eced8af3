//! An HTTP upstream without an SDK: it sends the bytes of its script and keeps the bytes it receives.
//!
//! Invariant: request bodies are recorded before they are answered, in the order of their arrival.
//! Deliberately absent: validation. A stub that corrects its input would hide what the proxy changed.

use crate::script::{Act, Envelope, Era, Script};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use hyper::{Method, Request, Response, server::conn::http1, service::service_fn};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

/// A running stub; it stops when it is dropped.
pub struct Stub {
    /// Where it listens, with the path `/mcp`.
    pub url: String,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// One HTTP request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// HTTP method.
    pub verb: String,
    /// JSON-RPC method, empty where there is none.
    pub method: String,
    /// Header names in lower case and values, in order.
    pub headers: Vec<(String, String)>,
    /// Body, byte for byte.
    pub body: String,
}

struct Shared {
    script: Mutex<Script>,
    seen: Mutex<Vec<Seen>>,
    sessions: AtomicUsize,
}

impl Stub {
    /// Listens on a free loopback port.
    #[must_use]
    pub fn start(script: Script) -> Self {
        Self::start_at("127.0.0.1:0", script)
    }

    /// Listens on this address, for upstreams that come back after an outage.
    #[must_use]
    pub fn start_at(address: &str, script: Script) -> Self {
        let listener = std::net::TcpListener::bind(address).expect("stub: cannot bind");
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            seen: Mutex::new(Vec::new()),
            sessions: AtomicUsize::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let serving = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                tokio::select! { () = accept(listener, serving) => (), _ = stopped => () }
            });
        });
        Self { url, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// Host and port, without scheme and path.
    #[must_use]
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://").trim_end_matches("/mcp")
    }

    /// Replaces the script; requests that arrive later are answered by the new one.
    pub fn play(&self, script: Script) {
        *self.shared.script.lock().unwrap() = script;
    }

    /// Every request so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Requests so far of one JSON-RPC method.
    #[must_use]
    pub fn seen_of(&self, method: &str) -> Vec<Seen> {
        let requested = |seen: &Seen| seen.method == method && seen.verb != CLOSED;
        self.seen().into_iter().filter(requested).collect()
    }

    /// How many responses to this method, hanging or open, were given up by the client.
    #[must_use]
    pub fn closed_of(&self, method: &str) -> usize {
        let closed = |seen: &&Seen| seen.method == method && seen.verb == CLOSED;
        self.seen().iter().filter(closed).count()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Seen {
    /// Value of a header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).unwrap();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| answer(request, Arc::clone(&shared)));
        let io = hyper_util::rt::TokioIo::new(stream);
        tokio::spawn(http1::Builder::new().serve_connection(io, service));
    }
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<Pieces>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = http_body_util::BodyExt::collect(body).await.map_err(std::io::Error::other)?;
    let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    let method = serde_json::from_str(&body).map(|e: Envelope<'_>| e.method).unwrap_or_default();
    let headers = head.headers.iter();
    let headers =
        headers.map(|(k, v)| (k.to_string(), String::from_utf8_lossy(v.as_bytes()).into_owned()));
    let seen = Seen { verb: head.method.to_string(), method, headers: headers.collect(), body };
    shared.seen.lock().unwrap().push(seen.clone());
    let script = shared.script.lock().unwrap().clone();
    if head.method != Method::POST {
        let rule = script.rules.iter().find(|rule| rule.method == head.method.as_str());
        return match rule {
            Some(rule) => {
                let closed = Closed { shared: Arc::clone(&shared), method: seen.method };
                act(Some(rule.act.clone()), closed).await
            }
            None => Ok(reply(405, &[], "")),
        };
    }
    let opens = seen.method == "initialize";
    let bare = seen.header("mcp-session-id").is_none();
    let sessionless = script.era == Era::Session && bare && !opens;
    if sessionless && !script.rules.iter().any(|rule| rule.method == seen.method) {
        return Ok(reply(400, JSON, NO_SESSION));
    }
    let session =
        format!("stub-{}", shared.sessions.fetch_add(usize::from(opens), Ordering::SeqCst));
    let closed = Closed { shared: Arc::clone(&shared), method: seen.method.clone() };
    let mut response = act(script.answer(&seen.body), closed).await?;
    if opens && script.era != Era::Stateless {
        response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
    }
    Ok(response)
}

/// Records that a response was given up which was not complete.
struct Closed {
    shared: Arc<Shared>,
    method: String,
}

impl Closed {
    fn record(&self) {
        let (method, headers, body) = (self.method.clone(), Vec::new(), String::new());
        let seen = Seen { verb: CLOSED.to_owned(), method, headers, body };
        self.shared.seen.lock().unwrap().push(seen);
    }
}

/// A response that the client does not wait for any longer is recorded, too.
struct Hanging(Closed);

impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.record();
    }
}

async fn act(act: Option<Act>, closed: Closed) -> Result<Response<Pieces>, std::io::Error> {
    match act {
        None => Ok(reply(202, &[], "")),
        Some(Act::Message(text)) => Ok(reply(200, JSON, &text)),
        Some(Act::Status(code, text)) => Ok(reply(code, JSON, &text)),
        Some(Act::Stream(pieces)) => Ok(stream(pieces, None)),
        Some(Act::Open(pieces)) => Ok(stream(pieces, Some(closed))),
        Some(Act::Hang) => {
            let _hanging = Hanging(closed);
            std::future::pending().await
        }
        Some(Act::Drop) => Err(std::io::Error::other("the script says so")),
    }
}

fn reply(status: u16, headers: &[(&str, &str)], body: &str) -> Response<Pieces> {
    let mut builder = Response::builder().status(status);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    let (sender, receiver) = mpsc::unbounded_channel();
    let _ = sender.send(Bytes::copy_from_slice(body.as_bytes()));
    builder.body(Pieces { receiver, length: Some(body.len() as u64) }).unwrap()
}

fn stream(pieces: Vec<String>, open: Option<Closed>) -> Response<Pieces> {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for piece in pieces {
            let _ = sender.send(Bytes::from(piece));
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        if let Some(closed) = open {
            sender.closed().await;
            closed.record();
        }
    });
    let builder = Response::builder().header("content-type", "text/event-stream");
    builder.header("cache-control", "no-cache").body(Pieces { receiver, length: None }).unwrap()
}

struct Pieces {
    receiver: mpsc::UnboundedReceiver<Bytes>,
    length: Option<u64>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.receiver.poll_recv(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.length.map_or_else(hyper::body::SizeHint::new, hyper::body::SizeHint::with_exact)
    }
}

/// The verb under which it is recorded that a client gave a response up.
const CLOSED: &str = "CLOSED";
const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
const NO_SESSION: &str = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#;
