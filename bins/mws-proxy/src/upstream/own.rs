//! A process of its own for one session: the upstream may ask the client behind it.
//!
//! Invariant: nobody else's requests go there; it is started again with the client's own
//! `initialize` when it has ended.
//! Deliberately absent: sessions that can be asked nothing; they share a process.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, Sender};

use crate::fault::Fault;
use crate::lock::lock;
use crate::reply::{self, Reply};
use crate::setup::PATIENCE;
use crate::upstream::asks::Whom;
use crate::upstream::mux::Notices;
use crate::upstream::stdio::{Open, Stdio};

/// Processes at one time; beyond it the one that was used least recently ends.
const PROCESSES: usize = 16;
/// Sessions remembered.
const SESSIONS: usize = 1024;
/// How long a process may have nothing to do.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// Messages waiting for a client.
const BEHIND: usize = 256;

/// The sessions that have a process of their own.
#[derive(Default)]
pub(crate) struct Owns(Mutex<HashMap<String, Arc<Own>>>);

/// One session's process, or its place.
pub(crate) struct Own {
    initialize: String,
    open: tokio::sync::Mutex<Option<Open>>,
    used: Mutex<Instant>,
    stream: Arc<Stream>,
    notices: Notices,
}

/// The session's stream for what belongs to no request; before it is open the messages wait.
#[derive(Default)]
struct Stream {
    waiting: Mutex<VecDeque<String>>,
    sender: Mutex<Option<Sender<String>>>,
}

impl Own {
    /// The place of a process that the client's `initialize` opens; `watch` hears it, too.
    pub(crate) fn new(initialize: String, watch: &Notices) -> Arc<Self> {
        let stream = Arc::new(Stream::default());
        let (to_stream, watch) = (Arc::clone(&stream), Arc::clone(watch));
        let notices: Notices = Arc::new(move |text| {
            watch(text);
            to_stream.send(text);
        });
        let used = Mutex::new(Instant::now());
        Arc::new(Self { initialize, open: Default::default(), used, stream, notices })
    }

    /// The process; started if need be.
    pub(crate) async fn open(self: &Arc<Self>, stdio: &Arc<Stdio>) -> Result<Open, Fault> {
        *lock(&self.used) = Instant::now();
        let mut slot = self.open.lock().await;
        if let Some(open) = slot.as_ref().filter(|(conn, _)| conn.is_open()) {
            return Ok(open.clone());
        }
        if let Some((conn, _)) = slot.take() {
            stdio.note_end(&conn, None);
        }
        stdio.owns.make_room(PROCESSES);
        let notices = Arc::clone(&self.notices);
        let opened = stdio.open_session(&self.initialize, Whom::Session, notices).await?;
        let open = slot.insert(opened).clone();
        let this = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(IDLE).await;
                let Some(this) = this.upgrade() else { return };
                if this.is_idle(IDLE) {
                    return this.stop().await;
                }
            }
        });
        Ok(open)
    }

    /// The session's stream.
    pub(crate) fn stream(&self) -> Reply {
        let (sender, receiver) = mpsc::channel(BEHIND);
        for text in lock(&self.stream.waiting).drain(..) {
            let _ = sender.try_send(text);
        }
        *lock(&self.stream.sender) = Some(sender);
        reply::messages(None, receiver)
    }

    fn is_idle(&self, since: Duration) -> bool {
        let listens = lock(&self.stream.sender).as_ref().is_some_and(|s| !s.is_closed());
        let busy = self
            .open
            .try_lock()
            .map_or(true, |slot| slot.as_ref().is_some_and(|(conn, _)| conn.is_busy()));
        !listens && !busy && lock(&self.used).elapsed() >= since
    }

    fn runs(&self) -> bool {
        self.open.try_lock().is_ok_and(|slot| slot.is_some())
    }

    async fn stop(&self) {
        let open = self.open.lock().await.take();
        lock(&self.stream.sender).take();
        if let Some((conn, _)) = open {
            conn.stop(PATIENCE).await;
        }
    }
}

impl Stream {
    fn send(&self, text: &str) {
        let mut sender = lock(&self.sender);
        let sent = sender.as_ref().is_some_and(|s| s.try_send(text.to_owned()).is_ok());
        if sent {
            return;
        }
        *sender = None;
        let mut waiting = lock(&self.waiting);
        if waiting.len() < BEHIND {
            waiting.push_back(text.to_owned());
        }
    }
}

impl Owns {
    /// Gives the process to the session.
    pub(crate) fn insert(&self, session: &str, own: Arc<Own>) {
        let mut table = lock(&self.0);
        let oldest = table.iter().min_by_key(|(_, own)| *lock(&own.used)).map(|(id, _)| id.clone());
        if let Some(oldest) = oldest.filter(|_| table.len() >= SESSIONS) {
            table.remove(&oldest);
        }
        table.insert(session.to_owned(), own);
    }

    pub(crate) fn get(&self, session: &str) -> Option<Arc<Own>> {
        lock(&self.0).get(session).cloned()
    }

    /// Ends the session's process.
    pub(crate) fn end(&self, session: &str) {
        if let Some(own) = lock(&self.0).remove(session) {
            tokio::spawn(async move { own.stop().await });
        }
    }

    /// Ends streams, so that nobody waits for them.
    pub(crate) fn hang_up(&self) {
        for own in lock(&self.0).values() {
            lock(&own.stream.sender).take();
        }
    }

    /// Ends the processes that were used least recently and have nothing to do.
    fn make_room(&self, most: usize) {
        let mut running: Vec<_> =
            lock(&self.0).values().filter(|own| own.runs()).cloned().collect();
        running.sort_by_key(|own| *lock(&own.used));
        let excess = (running.len() + 1).saturating_sub(most);
        for own in running.into_iter().filter(|own| own.is_idle(Duration::ZERO)).take(excess) {
            tokio::spawn(async move { own.stop().await });
        }
    }
}
