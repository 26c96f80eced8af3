//! The upstream of the benchmark: answers at once, in both protocol eras, over HTTP or a pipe.
//!
//! Invariant: an answer depends on the request alone, so a direct one and one through the proxy can
//! be compared as bytes.
//! Deliberately absent: everything that no row needs.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{BufRead, Write};
use std::rc::Rc;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::{Fallible, catalog};

const CHANGED: &str = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct Params {
    #[serde(default)]
    arguments: Option<Arguments>,
    #[serde(rename = "protocolVersion")]
    version: Option<String>,
}

#[derive(Deserialize, Default)]
struct Arguments {
    #[serde(default)]
    bytes: Option<usize>,
}

/// What it answers.
pub(crate) struct Stub {
    tools: usize,
    version: Cell<usize>,
    list: RefCell<Rc<str>>,
    texts: RefCell<HashMap<usize, Rc<str>>>,
    streams: RefCell<Vec<UnboundedSender<Bytes>>>,
}

impl Stub {
    pub(crate) fn new(tools: usize) -> Self {
        Self {
            tools,
            version: Cell::new(0),
            list: RefCell::new(catalog::tools(tools, 0).into()),
            texts: RefCell::default(),
            streams: RefCell::default(),
        }
    }

    /// The answer to one message; `None` for a notification.
    fn answer(&self, body: &[u8]) -> Option<String> {
        let message: Envelope<'_> = serde_json::from_slice(body).ok()?;
        let id = message.id?.get();
        let params = message.params.map_or("{}", RawValue::get);
        let modern = params.contains("io.modelcontextprotocol/protocolVersion");
        let seal = if modern { "\"resultType\":\"complete\"," } else { "" };
        let read: Params = serde_json::from_str(params).unwrap_or_default();
        let result = match message.method? {
            "initialize" => {
                let version = read.version.unwrap_or_else(|| "2025-11-25".into());
                format!(r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"stub","version":"1"}}}}"#)
            }
            "server/discover" => r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#.to_owned(),
            "tools/list" => {
                let cache = if modern { "\"ttlMs\":0,\"cacheScope\":\"private\"," } else { "" };
                format!("{{{seal}{cache}\"tools\":{}}}", self.list.borrow())
            }
            "tools/call" => {
                let size = read.arguments.unwrap_or_default().bytes.unwrap_or(200);
                format!("{{{seal}\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}", self.text(size))
            }
            "bench/change" => self.change(),
            _ => "{}".to_owned(),
        };
        Some(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"))
    }

    /// Text with the escapes that JSON in a string has.
    fn text(&self, size: usize) -> Rc<str> {
        let make = || -> Rc<str> {
            let row = r#"{\"id\":1,\"note\":\"plain words of a usual line\"}\n"#;
            let mut text = row.repeat(size / row.len());
            text.extend(std::iter::repeat_n('x', size - text.len()));
            text.into()
        };
        Rc::clone(self.texts.borrow_mut().entry(size).or_insert_with(make))
    }

    fn change(&self) -> String {
        self.version.set(self.version.get() + 1);
        *self.list.borrow_mut() = catalog::tools(self.tools, self.version.get()).into();
        let event = Bytes::from_static(CHANGED.as_bytes());
        self.streams.borrow_mut().retain(|stream| stream.send(event.clone()).is_ok());
        "{}".to_owned()
    }

    async fn handle(&self, request: Request<Incoming>, sse: bool) -> Response<Body> {
        if request.method() == Method::GET {
            let (sender, receiver) = mpsc::unbounded_channel();
            let _ = sender.send(Bytes::from_static(b": open\n\n"));
            self.streams.borrow_mut().push(sender);
            return respond("text/event-stream", Events(receiver).boxed_unsync());
        }
        let Ok(body) = request.into_body().collect().await else { return plain(400) };
        let body = body.to_bytes();
        let Some(answer) = self.answer(&body) else { return plain(202) };
        let mut response = if sse {
            // Two writes, as servers do that open a stream before they have the answer.
            let (sender, receiver) = mpsc::unbounded_channel();
            let _ = sender.send(Bytes::from_static(b": open\n\n"));
            tokio::task::spawn_local(async move {
                tokio::task::yield_now().await;
                let event = format!("event: message\ndata: {answer}\n\n");
                let _ = sender.send(event.into());
            });
            respond("text/event-stream", Events(receiver).boxed_unsync())
        } else {
            respond("application/json", Full::from(answer).boxed_unsync())
        };
        if body.windows(12).any(|part| part == b"\"initialize\"") {
            response.headers_mut().insert(
                "mcp-session-id",
                "bench".parse().unwrap_or_else(|_| hyper::header::HeaderValue::from_static("x")),
            );
        }
        response
    }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

fn respond(kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let kind = hyper::header::HeaderValue::from_static(kind);
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, kind);
    response
}

fn plain(status: u16) -> Response<Body> {
    let mut response = Response::new(Full::default().boxed_unsync());
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    response
}

struct Events(UnboundedReceiver<Bytes>);

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(|chunk| Ok(hyper::body::Frame::data(chunk))))
    }
}

/// Serves over HTTP until it is killed.
pub(crate) async fn serve(address: &str, tools: usize, sse: bool) -> Fallible<()> {
    let listener = TcpListener::bind(address).await?;
    let stub = Rc::new(Stub::new(tools));
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async move {
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let stub = Rc::clone(&stub);
                let service = service_fn(move |request| {
                    let stub = Rc::clone(&stub);
                    async move { Ok::<_, Infallible>(stub.handle(request, sse).await) }
                });
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::task::spawn_local(serving);
            }
        })
        .await
}

/// Serves on stdin and stdout until stdin ends.
pub(crate) fn serve_pipe(tools: usize) -> Fallible<()> {
    let stub = Stub::new(tools);
    let mut stdout = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        if let Some(mut answer) = stub.answer(line?.as_bytes()) {
            answer.push('\n');
            stdout.write_all(answer.as_bytes())?;
            stdout.flush()?;
        }
    }
    Ok(())
}

/// Passes bytes on: the floor that the proxy is measured against.
pub(crate) async fn splice(address: &str, to: &str) -> Fallible<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (mut front, _) = listener.accept().await?;
        front.set_nodelay(true)?;
        let to = to.to_owned();
        tokio::spawn(async move {
            let Ok(mut back) = tokio::net::TcpStream::connect(to).await else { return };
            let _ = back.set_nodelay(true);
            let _ = tokio::io::copy_bidirectional(&mut front, &mut back).await;
        });
    }
}
