//! One running conversation with the upstream: over the pipes of a process, or over HTTP.
//!
//! Invariant: all bytes but ids and progress tokens pass unchanged; what is sent after the end is
//! refused, not lost.
//! Deliberately absent: whose messages they are; see [`super::mux`].

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::HeaderMap;
use mws_catalog::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::mpsc::{self, Receiver};
use tokio::sync::{oneshot, watch};

use crate::edit::Edits;
use crate::events::Events;
use crate::fault::{Fault, FaultKind};
use crate::lock::lock;
use crate::rpc::{Era, Message};
use crate::severity::Severity;
use crate::upstream::asks::Whom;
use crate::upstream::child::{self, Tail};
use crate::upstream::mux::{Mux, Notices, Pending, Terms};
use crate::upstream::post::Post;

/// Longest line that is read, in bytes.
const LINE_MAX: u64 = 64 * 1024 * 1024;
/// Lines waiting for the upstream.
const LINES: usize = 16;

/// A conversation and the requests under way in it.
pub(crate) struct Conn {
    mux: Arc<Mux>,
    way: Way,
    started: Instant,
    /// The level that `logging/setLevel` asked for last.
    pub(crate) level: tokio::sync::Mutex<Option<Severity>>,
}

enum Way {
    Process(Process),
    Http(Arc<Post>),
}

struct Process {
    /// Dropped to end the process.
    stop: Mutex<Option<oneshot::Sender<Duration>>>,
    /// Done when the process has ended.
    ended: watch::Receiver<bool>,
    tail: Tail,
}

impl Conn {
    /// Over the pipes of a process.
    pub(crate) fn of_process(
        mut child: Child,
        tail: Tail,
        whom: Whom,
        notices: Notices,
    ) -> Result<Arc<Self>, Fault> {
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Fault::new(FaultKind::Spawn, "the upstream process has no pipes"));
        };
        let (lines, queue) = mpsc::channel(LINES);
        let mux = Arc::new(Mux::new(whom, notices, lines));
        tokio::spawn(write_lines(stdin, queue, Arc::clone(&mux)));
        tokio::spawn(read_lines(stdout, Arc::clone(&mux)));
        let (stop, stopped) = oneshot::channel();
        let (done, ended) = watch::channel(false);
        let hung_up = Arc::clone(&mux);
        tokio::spawn(async move {
            child::supervise(child, stopped, || hung_up.close()).await;
            let _ = done.send(true);
        });
        let process = Process { stop: Mutex::new(Some(stop)), ended, tail };
        Ok(Arc::new(Self::new(mux, Way::Process(process))))
    }

    fn new(mux: Arc<Mux>, way: Way) -> Self {
        Self { mux, way, started: Instant::now(), level: Default::default() }
    }

    /// Over a session that was opened by HTTP.
    pub(crate) fn over_http(post: Post, whom: Whom, notices: Notices) -> Arc<Self> {
        let (lines, mut queue) = mpsc::channel::<String>(LINES);
        let mux = Arc::new(Mux::new(whom, notices, lines));
        let post = Arc::new(post);
        let (poster, to) = (Arc::clone(&post), Arc::downgrade(&mux));
        tokio::spawn(async move {
            while let Some(line) = queue.recv().await {
                let Some(to) = to.upgrade() else { break };
                if let Err(fault) = poster.send(&to, line, None, HeaderMap::new()).await {
                    tracing::debug!("A notification did not reach the upstream: {fault}.");
                }
            }
            poster.end();
        });
        Arc::new(Self::new(mux, Way::Http(post)))
    }

    /// Over HTTP, with a stream that is open already and brings everything.
    pub(crate) fn following(post: Post, whom: Whom, notices: Notices, events: Events) -> Arc<Self> {
        let conn = Self::over_http(post, whom, notices);
        if let Way::Http(post) = &conn.way {
            post.follow(&conn.mux, events);
        }
        conn
    }

    /// Takes in what comes to nobody's request over HTTP, from now on.
    pub(crate) fn listen(&self) {
        if let Way::Http(post) = &self.way {
            post.listen(&self.mux);
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.mux.is_open()
    }

    /// How long it has lasted, or had when it ended.
    pub(crate) fn lived(&self) -> Duration {
        let end = self.mux.ended_at().unwrap_or_else(Instant::now);
        end.saturating_duration_since(self.started)
    }

    /// True while a request is under way.
    pub(crate) fn is_busy(&self) -> bool {
        !self.mux.waiting().is_empty()
    }

    /// Done when it is over.
    pub(crate) async fn closed(&self) {
        self.mux.closed().await;
    }

    /// Why the process ended before it served anybody. Later its words may hold what clients sent.
    pub(crate) fn failed_to_start(&self) -> Fault {
        let Way::Process(process) = &self.way else { return ended() };
        let words = child::last_words(&process.tail);
        let words = words.map_or_else(String::new, |words| format!("; its last words: {words}"));
        Fault::new(FaultKind::Closed, format!("the upstream process ended{words}"))
    }

    /// Sends a request under an id of ours. `era` says whether a client that goes away cancels;
    /// `None` means it does not.
    pub(crate) async fn request(
        &self,
        text: &str,
        owner: &str,
        era: Option<Era>,
    ) -> Result<Pending, Fault> {
        let (owner, cancels) = (owner.to_owned(), era == Some(Era::Modern));
        let terms = Terms { owner, cancels, ..Terms::default() };
        self.request_on(text, terms, HeaderMap::new()).await
    }

    /// As [`Conn::request`], on these terms; over HTTP with these headers beside our own.
    pub(crate) async fn request_on(
        &self,
        text: &str,
        terms: Terms,
        headers: HeaderMap,
    ) -> Result<Pending, Fault> {
        let (text, pending) = self.mux.enter(text, terms)?;
        match &self.way {
            Way::Process(_) => self.write(&text).await,
            Way::Http(post) => post.send(&self.mux, text, Some(pending.number), headers).await?,
        }
        // The reader may have closed in between; then nobody would end this request.
        if self.is_open() || matches!(self.way, Way::Http(_)) { Ok(pending) } else { Err(ended()) }
    }

    /// Sends a request of our own and waits for its response.
    pub(crate) async fn ask(&self, text: &str) -> Result<String, Fault> {
        let id = Message::parse(text.as_bytes()).ok().and_then(|m| m.id).unwrap_or("0");
        let mut pending = self.request(text, "own", None).await?;
        loop {
            let text = pending.messages.recv().await.ok_or_else(ended)?;
            if crate::sse::answers(&text, id) {
                return Ok(text);
            }
        }
    }

    /// Sends a notification; a cancellation is addressed to the id on the pipe, and dropped when
    /// `owner` has no such request. An answer goes to the request that it is for.
    pub(crate) async fn notify(&self, message: &Message<'_>, owner: &str) {
        if message.method.is_none() {
            if let Some(text) = self.mux.answered(message) {
                self.write(&text).await;
            }
            return;
        }
        if message.method.as_deref() != Some("notifications/cancelled") {
            return self.write(message.text).await;
        }
        let params = message.params();
        let Some(id) = json::get(params, "requestId") else { return };
        if let Some(number) = self.mux.number_of(id, owner) {
            let mut edits = Edits::of(message.text);
            edits.replace(id, number.to_string());
            self.write(&edits.apply()).await;
        }
    }

    /// Waits while the upstream is slow to read.
    async fn write(&self, text: &str) {
        if let Some(lines) = self.mux.lines() {
            let _ = lines.send(one_line(text)).await;
        }
    }

    /// Closes the pipe and ends the process, which may take `patience` twice; or ends the session.
    pub(crate) async fn stop(&self, patience: Duration) {
        match &self.way {
            Way::Process(process) => {
                if let Some(stop) = lock(&process.stop).take() {
                    let _ = stop.send(patience);
                }
                let _ = process.ended.clone().wait_for(|ended| *ended).await;
            }
            Way::Http(post) => {
                self.mux.close();
                post.delete().await;
            }
        }
    }
}

/// What a request is told whose process is gone.
pub(crate) fn ended() -> Fault {
    Fault::new(FaultKind::Closed, "the upstream process ended")
}

/// A line break inside JSON text is white space, never data.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

async fn write_lines(mut stdin: ChildStdin, mut queue: Receiver<String>, mux: Arc<Mux>) {
    while let Some(mut line) = queue.recv().await {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return mux.close();
        }
    }
}

async fn read_lines(stdout: ChildStdout, mux: Arc<Mux>) {
    let mut reader = BufReader::with_capacity(64 * 1024, stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        line.shrink_to(1024 * 1024);
        match (&mut reader).take(LINE_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => break,
            Ok(_) if line.last() == Some(&b'\n') || (line.len() as u64) < LINE_MAX => {
                if let Some(behind) = mux.take_in(line.trim_ascii(), None) {
                    mux.hold(behind).await;
                }
            }
            Ok(_) => {
                tracing::warn!("The upstream sent a line of over {LINE_MAX} bytes; it is skipped.");
                mux.unreadable(&line);
                while line.last() != Some(&b'\n') {
                    line.clear();
                    match (&mut reader).take(LINE_MAX).read_until(b'\n', &mut line).await {
                        Ok(0) | Err(_) => return mux.close(),
                        Ok(_) => {}
                    }
                }
            }
        }
    }
    mux.close();
}
