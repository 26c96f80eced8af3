//! An upstream that is a child process.
//!
//! Invariant: at most one process for each era, started when a client of that era comes, so a
//! server that speaks both is not run twice for nothing.
//! Deliberately absent: a process of its own for each client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::control::{self, Exchange, Handshake, Known};
use crate::fault::{Fault, FaultKind};
use crate::memory::Memory;
use crate::rpc::{Era, Message};
use crate::upstream::child::Command;
use crate::upstream::conn::{Conn, Notices};

/// For the probe: old servers do not answer what they do not know.
const PROBE_TIMEOUT: Duration = Duration::from_millis(2500);
/// For `initialize`: a server may load a while.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A process that ran this long starts with a clean record.
const HEALTHY: Duration = Duration::from_secs(60);
const SESSION_VERSION: &str = "2025-11-25";

/// The link to a child process.
pub(crate) struct Stdio {
    command: Command,
    known: Mutex<Known>,
    /// The configuration names the protocol.
    forced: bool,
    memory: Arc<Memory>,
    notices: Notices,
    modern: tokio::sync::Mutex<Slot>,
    session: tokio::sync::Mutex<Slot>,
}

/// A process and what it said of itself.
pub(crate) type Open = (Arc<Conn>, Arc<Handshake>);

/// The process of one era.
#[derive(Default)]
struct Slot {
    open: Option<Open>,
    started: Option<Instant>,
    failures: u32,
    last: Option<Fault>,
}

impl Slot {
    fn get(&self) -> Option<Open> {
        self.open.clone().filter(|(conn, _)| conn.is_open())
    }

    /// The pause after repeated failures; a fault while it lasts.
    fn may_start(&mut self) -> Result<(), Fault> {
        let Some(started) = self.started else { return Ok(()) };
        if started.elapsed() > HEALTHY {
            self.failures = 0;
        }
        let pause = FIRST_PAUSE * 2u32.saturating_pow(self.failures.saturating_sub(1).min(8));
        if self.failures > 0 && started.elapsed() < pause.min(LONGEST_PAUSE) {
            let ended = || Fault::new(FaultKind::Closed, "the upstream process ended");
            return Err(self.last.clone().unwrap_or_else(ended));
        }
        Ok(())
    }

    fn settle(&mut self, outcome: Result<Open, Fault>) -> Result<Open, Fault> {
        match &outcome {
            Ok(open) => self.open = Some(open.clone()),
            Err(fault) => {
                self.open = None;
                self.last = Some(fault.clone());
            }
        }
        outcome
    }
}

impl Stdio {
    pub(crate) fn new(
        command: Command,
        known: Known,
        forced: bool,
        memory: Arc<Memory>,
        notices: Notices,
    ) -> Self {
        let (modern, session) = Default::default();
        Self { command, known: Mutex::new(known), forced, memory, notices, modern, session }
    }

    /// The process to use for a client of this era, and what it said of itself.
    pub(crate) async fn conn(&self, era: Era) -> Result<Open, Fault> {
        match (era, self.known()) {
            (Era::Session, Known::Modern) if self.forced => self.modern_conn().await,
            (Era::Session, _) | (Era::Modern, Known::Session(_)) => self.session_conn().await,
            (Era::Modern, _) => self.modern_conn().await,
        }
    }

    /// A process that runs already, else the one for `prefer`.
    pub(crate) async fn any_conn(&self, prefer: Era) -> Result<Open, Fault> {
        for slot in [&self.session, &self.modern] {
            if let Some(open) = slot.lock().await.get() {
                return Ok(open);
            }
        }
        match (self.conn(prefer).await, prefer) {
            // The server may speak the other protocol alone.
            (Err(f), Era::Session) if f.kind == FaultKind::Protocol && !self.forced => {
                self.modern_conn().await
            }
            (outcome, _) => outcome,
        }
    }

    pub(crate) async fn stop(&self) {
        for slot in [&self.session, &self.modern] {
            if let Some((conn, _)) = slot.lock().await.open.take() {
                conn.stop().await;
            }
        }
    }

    fn known(&self) -> Known {
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    fn learn(&self, known: Known) {
        *self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = known;
    }

    async fn session_conn(&self) -> Result<Open, Fault> {
        let mut slot = self.session.lock().await;
        if let Some(open) = slot.get() {
            return Ok(open);
        }
        slot.may_start()?;
        begin(&mut slot);
        let version = match self.known() {
            Known::Session(version) => version,
            Known::Nothing | Known::Modern => SESSION_VERSION.to_owned(),
        };
        let outcome = self.start(Known::Session(version)).await;
        if let Ok((_, shaken)) = &outcome {
            self.memory.keep(shaken, false);
        }
        slot.settle(outcome)
    }

    /// Probes for the stateless protocol; a server without it serves its session process.
    async fn modern_conn(&self) -> Result<Open, Fault> {
        let mut slot = self.modern.lock().await;
        if let Some(open) = slot.get() {
            return Ok(open);
        }
        slot.may_start()?;
        begin(&mut slot);
        let outcome = match self.start(self.known()).await {
            // Servers that end at a request they do not know are started again without a probe.
            Err(f) if f.kind == FaultKind::Closed && !self.forced => {
                drop(slot);
                let open = self.session_conn().await?;
                self.settle_on_session(&open.1);
                return Ok(open);
            }
            other => other,
        };
        if let Ok((conn, shaken)) = &outcome
            && shaken.era == Era::Session
        {
            self.settle_on_session(shaken);
            let mut session = self.session.lock().await;
            if let Some(open) = session.get() {
                conn.stop().await;
                return Ok(open);
            }
            return session.settle(outcome);
        }
        if let Ok((_, shaken)) = &outcome {
            self.memory.keep(shaken, true);
            self.learn(Known::Modern);
        }
        slot.settle(outcome)
    }

    fn settle_on_session(&self, shaken: &Handshake) {
        self.memory.keep(shaken, true);
        self.learn(Known::Session(shaken.version.clone()));
    }

    async fn start(&self, known: Known) -> Result<Open, Fault> {
        let (child, tail) = self.command.start()?;
        let conn = Conn::new(child, tail, Arc::clone(&self.notices))?;
        let silent = Arc::new(AtomicBool::new(false));
        let probing = exchange(Arc::clone(&conn), PROBE_TIMEOUT, Arc::clone(&silent));
        let mut shaken = control::negotiate(probing, known).await;
        // The probe may have been early rather than unknown: a server can be slow to start.
        if shaken.is_err() && silent.load(Ordering::Relaxed) && conn.is_open() {
            let patient = exchange(Arc::clone(&conn), START_TIMEOUT, silent);
            shaken = control::negotiate(patient, Known::Modern).await.or(shaken);
        }
        match shaken {
            Ok(shaken) => Ok((conn, Arc::new(shaken))),
            Err(fault) => {
                // The words of a process that just ended may still be on their way.
                if !conn.is_open() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                let fault = if conn.is_open() { fault } else { conn.closed() };
                conn.stop().await;
                Err(fault)
            }
        }
    }
}

fn begin(slot: &mut Slot) {
    let was_healthy = slot.started.is_some_and(|started| started.elapsed() > HEALTHY);
    slot.failures = if was_healthy { 1 } else { slot.failures + 1 };
    slot.started = Some(Instant::now());
}

/// Sends one message of a handshake over the pipe. A probe that gets no answer counts as refused:
/// for the time being, and `silent` says that it did.
fn exchange(conn: Arc<Conn>, probe: Duration, silent: Arc<AtomicBool>) -> Exchange {
    Arc::new(move |text: String| {
        let (conn, silent) = (Arc::clone(&conn), Arc::clone(&silent));
        Box::pin(async move {
            let unfit = |why: String| Fault::new(FaultKind::Protocol, why);
            let message = Message::parse(text.as_bytes()).map_err(unfit)?;
            let Some(id) = message.id else {
                conn.notify(&message, "own");
                return Ok(None);
            };
            let is_probe = message.method.as_deref() == Some("server/discover");
            let limit = if is_probe { probe } else { START_TIMEOUT };
            let mut pending = conn.request(&text, "own", None)?;
            let answer = async {
                loop {
                    let text = pending.messages.recv().await.ok_or_else(|| conn.closed())?;
                    if crate::sse::answers(&text, id) {
                        return Ok(text);
                    }
                }
            };
            match tokio::time::timeout(limit, answer).await {
                Ok(answer) => answer.map(Some),
                Err(_) if is_probe => {
                    silent.store(true, Ordering::Relaxed);
                    Ok(Some(crate::rpc::error(Some(id), crate::rpc::METHOD_NOT_FOUND, "no answer")))
                }
                Err(_) => Err(Fault::new(
                    FaultKind::Timeout,
                    format!("the upstream process did not answer in {} s", limit.as_secs()),
                )),
            }
        })
    })
}
