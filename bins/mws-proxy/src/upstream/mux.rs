//! The requests under way in one conversation with the upstream, whatever carries it.
//!
//! Invariant: ids and progress tokens in the conversation are the proxy's own, so two clients can
//! never get each other's messages; all other bytes pass unchanged.
//! Deliberately absent: reading and writing; see [`super::conn`] and [`super::post`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use mws_catalog::json;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;

use crate::edit::Edits;
use crate::fault::{Fault, FaultKind};
use crate::lock::lock;
use crate::rpc::{self, META_SUBSCRIPTION, Message};
use crate::severity::Severity;
use crate::upstream::asks::{Asked, Whom};

/// Messages waiting for a client; notices for which there is no room are dropped.
const MESSAGES: usize = 256;
/// How long one request may hold up the others, in all, until its client has read what waits.
const HOLD: Duration = Duration::from_secs(2);
/// The first id in a conversation: easy to tell from the small numbers that clients use.
const FIRST_ID: u64 = 1_000_000;

/// Notifications that belong to no request.
pub(crate) type Notices = Arc<dyn Fn(&str) + Send + Sync>;

/// On whose behalf a request is sent, and what comes with its answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Terms {
    /// Whose request it is.
    pub(crate) owner: String,
    /// A client that goes away cancels.
    pub(crate) cancels: bool,
    /// The upstream may ask this client while the request is under way.
    pub(crate) asks: bool,
    /// From which level on log messages belong to it.
    pub(crate) level: Option<Severity>,
}

/// One conversation.
pub(crate) struct Mux {
    waiting: Mutex<HashMap<u64, Waiting>>,
    next: AtomicU64,
    closed: watch::Sender<Option<Instant>>,
    pub(super) whom: Whom,
    pub(super) asked: Asked,
    pub(super) notices: Notices,
    /// Lines for the upstream; `None` once nothing more is to be sent.
    lines: Mutex<Option<Sender<String>>>,
}

pub(super) struct Waiting {
    /// The id as the client wrote it.
    id: String,
    /// The progress token as the client wrote it.
    token: Option<String>,
    terms: Terms,
    pub(super) messages: Sender<String>,
    /// What is left of [`HOLD`].
    hold: Duration,
}

/// A request under way: what the upstream sends for it, the response last.
pub(crate) struct Pending {
    pub(crate) messages: Receiver<String>,
    pub(crate) number: u64,
    cancels: bool,
    mux: Arc<Mux>,
}

impl Mux {
    pub(super) fn new(whom: Whom, notices: Notices, lines: Sender<String>) -> Self {
        Self {
            waiting: Mutex::default(),
            next: AtomicU64::new(FIRST_ID),
            closed: watch::Sender::new(None),
            whom,
            asked: Asked::default(),
            notices,
            lines: Mutex::new(Some(lines)),
        }
    }

    /// Takes a request in: its text under an id of ours, and what will come for it.
    pub(super) fn enter(
        self: &Arc<Self>,
        text: &str,
        terms: Terms,
    ) -> Result<(String, Pending), Fault> {
        let unfit = |why: String| Fault::new(FaultKind::Protocol, why);
        let message = Message::parse(text.as_bytes()).map_err(unfit)?;
        let id = message.id.ok_or_else(|| unfit("a request without an id".into()))?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut edits = Edits::of(text);
        edits.replace(id, number.to_string());
        let token = json::get(&message.meta(), "progressToken");
        if let Some(token) = token {
            edits.replace(token, number.to_string());
        }
        let (messages, receiver) = mpsc::channel(MESSAGES);
        let (id, token, cancels) = (id.to_owned(), token.map(str::to_owned), terms.cancels);
        self.waiting().insert(number, Waiting { id, token, terms, messages, hold: HOLD });
        // From here on a client that goes away leaves nothing behind.
        let pending = Pending { messages: receiver, number, cancels, mux: Arc::clone(self) };
        Ok((edits.apply(), pending))
    }

    /// The number of the request that `owner` knows by this id.
    pub(super) fn number_of(&self, id: &str, owner: &str) -> Option<u64> {
        let waiting = self.waiting();
        waiting.iter().find(|(_, w)| w.id == id && w.terms.owner == owner).map(|(n, _)| *n)
    }

    pub(super) fn is_waiting(&self, number: u64) -> bool {
        self.waiting().contains_key(&number)
    }

    /// Waits until the client of this request has read what came before, or is gone.
    pub(super) async fn room(&self, number: u64) {
        let sender = self.waiting().get(&number).map(|w| w.messages.clone());
        if let Some(sender) = sender {
            // Two: the last free place is the response's.
            let _ = sender.reserve_many(2).await;
        }
    }

    /// Lets a client that is behind catch up, unless it has held up the others for long already.
    pub(super) async fn hold(&self, number: u64) {
        let left = self.waiting().get(&number).map_or(Duration::ZERO, |w| w.hold);
        if left.is_zero() {
            return;
        }
        let since = Instant::now();
        let _ = tokio::time::timeout(left, self.room(number)).await;
        if let Some(waiting) = self.waiting().get_mut(&number) {
            waiting.hold = left.saturating_sub(since.elapsed());
        }
    }

    /// Done when nobody waits for this request any more.
    pub(super) async fn given_up(&self, number: u64) {
        let sender = self.waiting().get(&number).map(|w| w.messages.clone());
        if let Some(sender) = sender {
            sender.closed().await;
        }
    }

    /// Ends a request that will get no answer.
    pub(super) fn fail(&self, number: u64) {
        self.waiting().remove(&number);
    }

    pub(super) fn is_open(&self) -> bool {
        self.closed.borrow().is_none()
    }

    pub(super) fn ended_at(&self) -> Option<Instant> {
        *self.closed.borrow()
    }

    /// Done when the conversation is over.
    pub(super) async fn closed(&self) {
        let _ = self.closed.subscribe().wait_for(Option::is_some).await;
    }

    pub(super) fn lines(&self) -> Option<Sender<String>> {
        lock(&self.lines).clone()
    }

    /// Writes unless the upstream is slow to read; for what may be lost.
    pub(super) fn write_now(&self, line: String) {
        if let Some(lines) = self.lines() {
            let _ = lines.try_send(line);
        }
    }

    /// Ends every request under way: their channels close without a response. Nothing more is
    /// sent; for a process this closes its stdin.
    pub(super) fn close(&self) {
        self.closed.send_if_modified(|at| {
            let first = at.is_none();
            at.get_or_insert_with(Instant::now);
            first
        });
        lock(&self.lines).take();
        self.waiting().clear();
    }

    /// Takes in what the upstream sent; `origin` is the request in whose answer it came. Gives the
    /// request whose client is behind, if that has to catch up before more is taken in.
    pub(super) fn take_in(self: &Arc<Self>, text: &[u8], origin: Option<u64>) -> Option<u64> {
        // Banners and log lines on stdout are not for us.
        let Ok(message) = Message::parse(text) else {
            tracing::debug!("Skipped {} bytes of the upstream that are no message.", text.len());
            self.unreadable(text);
            return None;
        };
        match (&message.method, message.id) {
            (Some(method), Some(id)) => self.ask(method, id, &message, origin),
            (Some(method), None) => return self.notice(method, &message, origin),
            (None, Some(id)) => self.response(id, &message),
            (None, None) => {}
        }
        None
    }

    /// What is no message may still tell whose answer it was to be.
    pub(super) fn unreadable(&self, line: &[u8]) {
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

    fn response(&self, id: &str, message: &Message<'_>) {
        let Some(waiting) = number(id).and_then(|number| self.waiting().remove(&number)) else {
            tracing::debug!("Skipped a response to no request.");
            return;
        };
        // Notices leave one place free, which is this one's.
        let _ = waiting.messages.try_send(message.with_id(&waiting.id));
    }

    /// Progress, log messages and subscription events go to their request, everything else to
    /// everybody.
    fn notice(&self, method: &str, message: &Message<'_>, origin: Option<u64>) -> Option<u64> {
        let params = message.params();
        let meta = message.meta();
        let progress = (method == "notifications/progress")
            .then(|| json::get(params, "progressToken"))
            .flatten();
        if method == "notifications/cancelled" {
            self.withdraw(message);
            return None;
        }
        let behind =
            if method == "notifications/message" { self.log(message, origin) } else { None };
        let Some(mark) = progress.or_else(|| json::get(&meta, META_SUBSCRIPTION)) else {
            (self.notices)(message.text);
            return behind;
        };
        let decoded = json::string(mark).unwrap_or(Cow::Borrowed(mark));
        let number = number(&decoded)?;
        let waiting = self.waiting();
        let waiting = waiting.get(&number)?;
        let own = if progress.is_some() { waiting.token.as_deref() } else { Some(&*waiting.id) };
        let mut edits = Edits::of(message.text);
        edits.replace(mark, own?);
        waiting.tell(edits.apply());
        waiting.is_behind().then_some(number)
    }

    /// A log message belongs to the request it came with, else to the only one under way.
    fn log(&self, message: &Message<'_>, origin: Option<u64>) -> Option<u64> {
        let said = Severity::of_message(message);
        let waiting = self.waiting();
        let number = match origin {
            Some(number) => number,
            None if waiting.len() == 1 => *waiting.keys().next()?,
            None => return None,
        };
        let one = waiting.get(&number)?;
        if one.terms.level.is_none_or(|level| said < level) {
            return None;
        }
        one.tell(message.text.to_owned());
        one.is_behind().then_some(number)
    }

    pub(super) fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        lock(&self.waiting)
    }
}

/// A number of ours as an upstream sends it back: some write every number as a fraction.
fn number(text: &str) -> Option<u64> {
    let fraction = |text: &str| text.parse().ok().filter(|n: &f64| n.fract() == 0.0);
    text.parse().ok().or_else(|| fraction(text).map(|number| number as u64))
}

impl Waiting {
    /// False when the client is too far behind.
    pub(super) fn tell(&self, text: String) -> bool {
        !self.is_behind() && self.messages.try_send(text).is_ok()
    }

    /// True when the next notice would find no room.
    fn is_behind(&self) -> bool {
        self.messages.capacity() <= 1
    }

    pub(super) fn may_be_asked(&self) -> bool {
        self.terms.asks
    }
}

impl Pending {
    /// Nobody waits any longer: the upstream is told when this is dropped.
    pub(crate) fn give_up(&mut self) {
        self.cancels = true;
    }

    /// The client goes on with this request under another id.
    pub(crate) fn readdress(&self, message: &Message<'_>, level: Option<Severity>) {
        if let Some(waiting) = self.mux.waiting().get_mut(&self.number) {
            message.id.unwrap_or("null").clone_into(&mut waiting.id);
            waiting.token = json::get(&message.meta(), "progressToken").map(str::to_owned);
            waiting.terms.level = level;
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let open = self.mux.waiting().remove(&self.number).is_some();
        self.mux.forget_asks(self.number);
        if open && self.cancels {
            self.mux.write_now(format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\
                 \"params\":{{\"requestId\":{}}}}}",
                self.number
            ));
        }
    }
}
