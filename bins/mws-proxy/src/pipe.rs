//! The front on stdin and stdout, for clients that only start commands.
//!
//! Invariant: stdout carries protocol messages alone, one a line; each message is treated as over
//! HTTP, so both fronts behave alike.
//! Deliberately absent: a port.

use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::header::{ACCEPT, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};
use mws_catalog::json;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::{AbortHandle, JoinSet};

use crate::body::BoxBody;
use crate::caller::{PROTOCOL_VERSION, SESSION_ID};
use crate::control::session_version;
use crate::current::Current;
use crate::events::Events;
use crate::headers;
use crate::lock::lock;
use crate::proxy::Proxy;
use crate::reply::{self, Reply};
use crate::rpc::{self, META_VERSION, Message};
use crate::sse::EVENT_MAX;

/// Longest line that is read, in bytes.
const LINE_MAX: u64 = 16 * 1024 * 1024;
/// Lines read ahead of their turn.
const AHEAD: usize = 64;
/// How long requests under way may take after stdin ended.
const DRAIN: Duration = Duration::from_secs(10);

/// What is known of the one client on the other end.
struct Client {
    current: Arc<Current<Proxy>>,
    lines: UnboundedSender<String>,
    session: Mutex<Session>,
    /// Requests under way, by id, so that a stateless client can cancel one.
    running: Mutex<HashMap<String, AbortHandle>>,
    conn: String,
}

/// The session that `initialize` opened.
#[derive(Debug, Clone, Default)]
struct Session {
    id: Option<String>,
    version: Option<String>,
    /// The client's `initialize`, to open a new session when the upstream lost this one.
    initialize: Option<String>,
}

/// Serves until stdin ends or `stop` does; then `again` is asked for what cuts the draining short.
pub(crate) async fn serve<N: Future<Output = ()>>(
    current: Arc<Current<Proxy>>,
    stop: impl Future<Output = ()>,
    again: impl FnOnce() -> N,
) -> std::io::Result<Instant> {
    let (lines, queue) = mpsc::unbounded_channel();
    let writer = tokio::spawn(write_lines(queue));
    let client = Arc::new(Client {
        current,
        lines,
        session: Mutex::default(),
        running: Mutex::default(),
        conn: mws_state::hash_hex(&mws_state::random_u64().to_le_bytes()),
    });
    let mut tasks = JoinSet::new();
    let (sender, mut incoming) = mpsc::channel(AHEAD);
    // A thread of its own: a read that waits for ever must not hold up the end of the program.
    std::thread::Builder::new().name("stdin".into()).spawn(move || read_lines(&sender))?;
    tokio::pin!(stop);
    loop {
        tokio::select! {
            line = incoming.recv() => match line {
                Some(line) => client.take_in(&line, &mut tasks),
                None => break,
            },
            Some(_) = tasks.join_next() => {}
            () = &mut stop => break,
        }
    }
    let told = Instant::now();
    client.current.get().hang_up();
    let drained = async { while tasks.join_next().await.is_some() {} };
    tokio::select! {
        _ = tokio::time::timeout(DRAIN, drained) => {}
        () = again() => {}
    }
    drop((tasks, client));
    let _ = tokio::time::timeout(Duration::from_millis(400), writer).await;
    Ok(told)
}

fn read_lines(lines: &mpsc::Sender<Vec<u8>>) {
    let mut stdin = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        match (&mut stdin).take(LINE_MAX).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 && (n as u64) < LINE_MAX => {
                if lines.blocking_send(line).is_err() {
                    return;
                }
            }
            Ok(n) if n > 0 => {
                tracing::warn!("A line of over {LINE_MAX} bytes came on stdin; it is not read on.");
                return;
            }
            _ => return,
        }
    }
}

impl Client {
    fn take_in(self: &Arc<Self>, line: &[u8], tasks: &mut JoinSet<()>) {
        let body = Bytes::from(line.trim_ascii().to_vec());
        if body.is_empty() {
            return;
        }
        let Ok(message) = Message::parse(&body) else {
            let client = Arc::clone(self);
            tasks.spawn(async move { client.answer(body, None).await });
            return;
        };
        if self.cancels(&message) {
            return;
        }
        let id = message.id.filter(|_| message.method.is_some()).map(str::to_owned);
        let client = Arc::clone(self);
        let (bytes, key) = (body.clone(), id.clone());
        let handle = tasks.spawn(async move { client.answer(bytes, key).await });
        if let Some(id) = id {
            lock(&self.running).insert(id, handle);
        }
    }

    /// A stateless client cancels by a notification here, where over HTTP it hangs up.
    fn cancels(&self, message: &Message<'_>) -> bool {
        let is_cancel = message.method.as_deref() == Some("notifications/cancelled");
        if !is_cancel || lock(&self.session).initialize.is_some() {
            return false;
        }
        let params = message.params();
        let id = json::get(params, "requestId").unwrap_or_default();
        if let Some(running) = lock(&self.running).remove(id) {
            running.abort();
        }
        true
    }

    async fn answer(self: Arc<Self>, body: Bytes, id: Option<String>) {
        let mut reply = self.post(&body).await;
        let lost = reply.status() == StatusCode::NOT_FOUND && !reply::is_json(&reply);
        let initialize = lock(&self.session).initialize.clone().filter(|_| lost);
        if let Some(initialize) = initialize {
            let opened = self.post(initialize.as_bytes()).await;
            self.learn(&opened, &initialize);
            reply = self.post(&body).await;
        }
        let is_initialize = Message::parse(&body)
            .is_ok_and(|message| message.method.as_deref() == Some("initialize"));
        let opens = is_initialize && reply.status().is_success();
        if opens {
            self.learn(&reply, &String::from_utf8_lossy(&body));
        }
        self.pass(reply, id.as_deref(), opens).await;
        if let Some(id) = id {
            lock(&self.running).remove(&id);
        }
    }

    async fn post(&self, body: &[u8]) -> Reply {
        let headers = self.headers(Message::parse(body).ok().as_ref());
        let body = Bytes::copy_from_slice(body);
        self.current.get().post(headers, body, Some(&self.conn)).await
    }

    /// The headers that a client over HTTP would send with this message.
    fn headers(&self, message: Option<&Message<'_>>) -> HeaderMap {
        let mut map = HeaderMap::new();
        headers::set_kinds(&mut map);
        let meta = message.map(Message::meta).unwrap_or_default();
        if let Some(version) = json::get(&meta, META_VERSION).and_then(json::string) {
            let Some(message) = message else { return map };
            headers::set(&mut map, PROTOCOL_VERSION, &version);
            let tools = self.current.get().shelf.last();
            headers::mirror(&mut map, message, tools.as_ref().map(|tools| &tools.catalog));
            return map;
        }
        let session = lock(&self.session).clone();
        if message.is_some_and(|m| m.method.as_deref() != Some("initialize")) {
            for (name, value) in [(SESSION_ID, session.id), (PROTOCOL_VERSION, session.version)] {
                if let Some(value) = value {
                    headers::set(&mut map, name, &value);
                }
            }
        }
        map
    }

    /// Keeps the session that an answer to `initialize` opened.
    fn learn(&self, reply: &Reply, initialize: &str) {
        let mut session = lock(&self.session);
        session.id = headers::text(reply.headers(), SESSION_ID).map(str::to_owned);
        session.initialize = Some(initialize.to_owned());
    }

    /// Goes on in the version that the answer to `initialize` names, which may be another than was
    /// asked for.
    fn opened(self: &Arc<Self>, answer: &str) {
        let result = Message::parse(answer.as_bytes()).ok().and_then(|message| message.result);
        if let Some(version) = result.and_then(session_version) {
            lock(&self.session).version = Some(version);
            tokio::spawn(Arc::clone(self).listen());
        }
    }

    /// Passes on what belongs to the session and to no request.
    async fn listen(self: Arc<Self>) {
        let mut map = self.headers(Message::parse(b"{}").ok().as_ref());
        map.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let reply = self.current.get().session_stream(&Method::GET, &map).await;
        if reply.status().is_success() && reply::is_stream(reply.headers()) {
            self.pass_stream(reply.into_body(), false).await;
        }
    }

    /// Writes what a reply holds as lines; `opens` is true for the answer to `initialize`.
    async fn pass(self: &Arc<Self>, reply: Reply, id: Option<&str>, opens: bool) {
        if reply::is_stream(reply.headers()) {
            return self.pass_stream(reply.into_body(), opens).await;
        }
        let status = reply.status();
        let body = reply.into_body().collect().await.map(|body| body.to_bytes());
        let text = body.ok().and_then(|body| String::from_utf8(body.to_vec()).ok());
        let text = text.filter(|text| !text.trim().is_empty());
        match (text, id) {
            (Some(text), _) if text.trim_start().starts_with(['{', '[']) => {
                if opens {
                    self.opened(&text);
                }
                self.write(&text);
            }
            (_, Some(id)) => {
                let what = format!("the upstream answered with HTTP {}", status.as_u16());
                self.write(&rpc::error(Some(id), rpc::SERVER_ERROR, &what));
            }
            (_, None) => {}
        }
    }

    async fn pass_stream(self: &Arc<Self>, body: BoxBody, opens: bool) {
        let mut events = Events::of(body, EVENT_MAX);
        while let Ok(Some(text)) = events.next_message().await {
            if opens {
                self.opened(&text);
            }
            self.write(&text);
        }
    }

    fn write(&self, text: &str) {
        let _ = self.lines.send(text.replace(['\n', '\r'], " "));
    }
}

async fn write_lines(mut queue: UnboundedReceiver<String>) {
    let mut stdout = tokio::io::stdout();
    while let Some(mut line) = queue.recv().await {
        line.push('\n');
        if stdout.write_all(line.as_bytes()).await.is_err() || stdout.flush().await.is_err() {
            return;
        }
    }
}
