//! One running upstream process, shared by all clients of one era.
//!
//! Invariant: ids and progress tokens on the pipe are the proxy's own, so two clients can never
//! get each other's messages; all other bytes pass unchanged.
//! Deliberately absent: requests from the upstream to a client. They are answered with an error,
//! since a shared process cannot say whom it means.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use mws_catalog::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{oneshot, watch};

use crate::edit::Edits;
use crate::fault::{Fault, FaultKind};
use crate::lock::lock;
use crate::rpc::{self, Era, META_SUBSCRIPTION, Message};
use crate::upstream::child::{self, Tail};

/// Longest line that is read, in bytes.
const LINE_MAX: u64 = 64 * 1024 * 1024;
/// Lines waiting for the process.
const LINES: usize = 16;
/// Messages waiting for a client; more notices than that are dropped.
const MESSAGES: usize = 256;
/// The first id on the pipe: easy to tell from the small numbers that clients use.
const FIRST_ID: u64 = 1_000_000;

/// Notifications that belong to no request.
pub(crate) type Notices = Arc<dyn Fn(&str) + Send + Sync>;

/// A process and the requests under way in it.
pub(crate) struct Conn {
    shared: Arc<Shared>,
    /// Dropped to end the process.
    stop: Mutex<Option<oneshot::Sender<Duration>>>,
    /// Done when the process has ended.
    ended: watch::Receiver<bool>,
    tail: Tail,
    started: Instant,
}

struct Shared {
    waiting: Mutex<HashMap<u64, Waiting>>,
    next: AtomicU64,
    closed: OnceLock<Instant>,
    notices: Notices,
    /// Lines for the process; `None` once its stdin is to be closed.
    lines: Mutex<Option<Sender<String>>>,
}

struct Waiting {
    /// The id as the client wrote it.
    id: String,
    /// The progress token as the client wrote it.
    token: Option<String>,
    /// Whose request it is.
    owner: String,
    messages: Sender<String>,
}

/// A request under way: what the upstream sends for it, the response last.
pub(crate) struct Pending {
    pub(crate) messages: Receiver<String>,
    number: u64,
    /// Cancel upstream when the client goes away.
    cancels: bool,
    shared: Arc<Shared>,
}

impl Conn {
    pub(crate) fn new(mut child: Child, tail: Tail, notices: Notices) -> Result<Arc<Self>, Fault> {
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Fault::new(FaultKind::Spawn, "the upstream process has no pipes"));
        };
        let (lines, queue) = mpsc::channel(LINES);
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            next: AtomicU64::new(FIRST_ID),
            closed: OnceLock::new(),
            notices,
            lines: Mutex::new(Some(lines)),
        });
        tokio::spawn(write_lines(stdin, queue, Arc::clone(&shared)));
        tokio::spawn(read_lines(stdout, Arc::clone(&shared)));
        let (stop, stopped) = oneshot::channel();
        let (done, ended) = watch::channel(false);
        let hung_up = Arc::clone(&shared);
        tokio::spawn(async move {
            child::supervise(child, stopped, || hung_up.close()).await;
            let _ = done.send(true);
        });
        Ok(Arc::new(Self {
            shared,
            stop: Mutex::new(Some(stop)),
            ended,
            tail,
            started: Instant::now(),
        }))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.shared.closed.get().is_none()
    }

    /// How long the process has lived, or had when it ended.
    pub(crate) fn lived(&self) -> Duration {
        let end = self.shared.closed.get().copied().unwrap_or_else(Instant::now);
        end.saturating_duration_since(self.started)
    }

    /// Why the process ended before it served anybody. Later its words may hold what clients sent.
    pub(crate) fn failed_to_start(&self) -> Fault {
        let words = child::last_words(&self.tail);
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
        let unfit = |why: String| Fault::new(FaultKind::Protocol, why);
        let message = Message::parse(text.as_bytes()).map_err(unfit)?;
        let id = message.id.ok_or_else(|| unfit("a request without an id".into()))?;
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let mut edits = Edits::of(text);
        edits.replace(id, number.to_string());
        let token = json::get(&message.meta(), "progressToken");
        if let Some(token) = token {
            edits.replace(token, number.to_string());
        }
        let (messages, receiver) = mpsc::channel(MESSAGES);
        let (id, token, owner) = (id.to_owned(), token.map(str::to_owned), owner.to_owned());
        self.shared.waiting().insert(number, Waiting { id, token, owner, messages });
        let cancels = era == Some(Era::Modern);
        let shared = Arc::clone(&self.shared);
        // From here on a client that goes away leaves nothing behind.
        let pending = Pending { messages: receiver, number, cancels, shared };
        self.write(&edits.apply()).await;
        // The reader may have closed in between; then nobody would end this request.
        if self.is_open() { Ok(pending) } else { Err(ended()) }
    }

    /// Sends a notification; a cancellation is addressed to the id on the pipe, and dropped when
    /// `owner` has no such request.
    pub(crate) async fn notify(&self, message: &Message<'_>, owner: &str) {
        if message.method.as_deref() != Some("notifications/cancelled") {
            return self.write(message.text).await;
        }
        let params = message.params();
        let Some(id) = json::get(&params, "requestId") else { return };
        let number = {
            let waiting = self.shared.waiting();
            waiting.iter().find(|(_, w)| w.id == id && w.owner == owner).map(|(n, _)| *n)
        };
        if let Some(number) = number {
            let mut edits = Edits::of(message.text);
            edits.replace(id, number.to_string());
            self.write(&edits.apply()).await;
        }
    }

    /// Waits while the process is slow to read.
    async fn write(&self, text: &str) {
        if let Some(lines) = self.shared.lines() {
            let _ = lines.send(one_line(text)).await;
        }
    }

    /// Closes the pipe and ends the process; it may take `patience` twice.
    pub(crate) async fn stop(&self, patience: Duration) {
        if let Some(stop) = lock(&self.stop).take() {
            let _ = stop.send(patience);
        }
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
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

impl Pending {
    /// Nobody waits any longer: the upstream is told when this is dropped.
    pub(crate) fn give_up(&mut self) {
        self.cancels = true;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let open = self.shared.waiting().remove(&self.number).is_some();
        if open && self.cancels {
            self.shared.write_now(format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\
                 \"params\":{{\"requestId\":{}}}}}",
                self.number
            ));
        }
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        lock(&self.waiting)
    }

    fn lines(&self) -> Option<Sender<String>> {
        lock(&self.lines).clone()
    }

    /// Writes unless the process is slow to read; for what may be lost.
    fn write_now(&self, line: String) {
        if let Some(lines) = self.lines() {
            let _ = lines.try_send(line);
        }
    }

    /// Ends every request under way: their channels close without a response. The writer ends,
    /// and with it the process's stdin.
    fn close(&self) {
        let _ = self.closed.set(Instant::now());
        lock(&self.lines).take();
        self.waiting().clear();
    }

    fn take_in(&self, line: &[u8]) {
        // Banners and log lines on stdout are not for us.
        let Ok(message) = Message::parse(line) else {
            tracing::debug!("Skipped a line of {} bytes on the upstream's stdout.", line.len());
            return self.unreadable(line);
        };
        match (&message.method, message.id) {
            (Some(method), Some(id)) => self.refuse(method, id),
            (Some(method), None) => self.notice(method, &message),
            (None, Some(id)) => self.response(id, &message),
            (None, None) => {}
        }
    }

    /// A line that is no message may still tell whose answer it was to be.
    fn unreadable(&self, line: &[u8]) {
        const MARK: &[u8] = b"\"id\":";
        let head = &line[..line.len().min(1024)];
        let number = head.windows(MARK.len()).position(|window| window == MARK).map(|at| {
            let digits = head[at + MARK.len()..].trim_ascii_start();
            digits.iter().take_while(|b| b.is_ascii_digit()).fold(0u64, |number, digit| {
                number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
            })
        });
        if let Some(waiting) = number.and_then(|number| self.waiting().remove(&number)) {
            let what = "the upstream's answer cannot be read";
            let error = rpc::error(Some(&waiting.id), rpc::SERVER_ERROR, what);
            let _ = waiting.messages.try_send(error);
        }
    }

    fn refuse(&self, method: &str, id: &str) {
        let reply = match method {
            "ping" => rpc::result(id, "{}"),
            _ => rpc::error(
                Some(id),
                rpc::METHOD_NOT_FOUND,
                "the proxy shares this process between clients and cannot ask one of them",
            ),
        };
        self.write_now(reply);
    }

    fn response(&self, id: &str, message: &Message<'_>) {
        let Some(waiting) = id.parse().ok().and_then(|n: u64| self.waiting().remove(&n)) else {
            tracing::debug!("Skipped a response to no request.");
            return;
        };
        // Notices leave one place free, which is this one's.
        let _ = waiting.messages.try_send(message.with_id(&waiting.id));
    }

    /// The upstream may end a request of ours, as it does with subscriptions: no more comes for it.
    fn withdrawn(&self, id: Option<&str>) -> bool {
        let decoded = id.map(|id| json::string(id).unwrap_or(Cow::Borrowed(id)));
        let number = decoded.and_then(|id| id.parse().ok());
        number.is_some_and(|number: u64| self.waiting().remove(&number).is_some())
    }

    /// Progress and subscription events go to their request, everything else to everybody.
    fn notice(&self, method: &str, message: &Message<'_>) {
        let params = message.params();
        let meta = message.meta();
        if method == "notifications/cancelled" && self.withdrawn(json::get(&params, "requestId")) {
            return;
        }
        let progress = (method == "notifications/progress")
            .then(|| json::get(&params, "progressToken"))
            .flatten();
        let Some(mark) = progress.or_else(|| json::get(&meta, META_SUBSCRIPTION)) else {
            return (self.notices)(message.text);
        };
        let decoded = json::string(mark).unwrap_or(Cow::Borrowed(mark));
        let Ok(number) = decoded.parse::<u64>() else { return };
        let waiting = self.waiting();
        let Some(waiting) = waiting.get(&number) else { return };
        let own = if progress.is_some() { waiting.token.as_deref() } else { Some(&*waiting.id) };
        if let Some(own) = own.filter(|_| waiting.messages.capacity() > 1) {
            let mut edits = Edits::of(message.text);
            edits.replace(mark, own);
            let _ = waiting.messages.try_send(edits.apply());
        }
    }
}

async fn write_lines(mut stdin: ChildStdin, mut queue: Receiver<String>, shared: Arc<Shared>) {
    while let Some(mut line) = queue.recv().await {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return shared.close();
        }
    }
}

async fn read_lines(stdout: ChildStdout, shared: Arc<Shared>) {
    let mut reader = BufReader::with_capacity(64 * 1024, stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        line.shrink_to(1024 * 1024);
        match (&mut reader).take(LINE_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => break,
            Ok(_) if line.last() == Some(&b'\n') || (line.len() as u64) < LINE_MAX => {
                shared.take_in(line.trim_ascii());
            }
            Ok(_) => {
                tracing::warn!("The upstream sent a line of over {LINE_MAX} bytes; it is skipped.");
                shared.unreadable(&line);
                while line.last() != Some(&b'\n') {
                    line.clear();
                    match (&mut reader).take(LINE_MAX).read_until(b'\n', &mut line).await {
                        Ok(0) | Err(_) => return shared.close(),
                        Ok(_) => {}
                    }
                }
            }
        }
    }
    shared.close();
}
