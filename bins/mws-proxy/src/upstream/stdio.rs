//! An upstream that is a child process, or is like one: with a stream for everything.
//!
//! Invariant: clients of an era share one process, started when the first of them comes, so a
//! server that speaks both is not run twice for nothing; how often the command may be started is
//! counted for all its processes together.
//! Deliberately absent: who gets a process of its own; see [`super::own`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use crate::control::{self, Exchange, Handshake, Known};
use crate::fault::{Fault, FaultKind};
use crate::lock::lock;
use crate::memory::Memory;
use crate::rpc::{Era, Message};
use crate::setup::PATIENCE;
use crate::upstream::asks::Whom;
use crate::upstream::child::Command;
use crate::upstream::conn::{Conn, ended};
use crate::upstream::http::Sender;
use crate::upstream::mux::Notices;
use crate::upstream::own::Owns;
use crate::upstream::respawn::Respawn;
use crate::upstream::session;

/// For the probe: old servers do not answer what they do not know.
const PROBE_TIMEOUT: Duration = Duration::from_millis(2500);
/// For `initialize`: a server may load a while.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How a conversation is begun.
pub(super) enum Source {
    /// By starting a process.
    Command(Command),
    /// By opening a stream over the older HTTP transport.
    Sse(Box<Sender>),
}

/// The link to a child process, or to a server that is like one: with a stream for everything.
pub(crate) struct Stdio {
    source: Source,
    known: Mutex<Known>,
    /// The configuration names the protocol.
    forced: bool,
    /// How long the process may stay silent on a request.
    pub(crate) timeout: Duration,
    /// The server has refused to open a session and speaks the other protocol.
    sessionless: AtomicBool,
    memory: Arc<Memory>,
    notices: Notices,
    modern: Slot,
    session: Slot,
    /// Those that belong to one session each.
    pub(crate) owns: Owns,
    /// How starting went so far, in whatever protocol.
    respawn: Mutex<Respawn>,
    /// Every process that was started, so that none outlives the proxy.
    started: Mutex<Vec<Weak<Conn>>>,
    stopping: AtomicBool,
}

/// A process and what it said of itself.
pub(crate) type Open = (Arc<Conn>, Arc<Handshake>);

/// The process of one era.
#[derive(Default)]
struct Slot {
    open: Mutex<Option<Open>>,
    /// Held while starting, so that it happens once.
    starts: tokio::sync::Mutex<()>,
    /// Handshakes that were refused; the other protocol may still be spoken.
    refusals: Mutex<Respawn>,
}

impl Slot {
    fn get(&self) -> Option<Open> {
        lock(&self.open).clone().filter(|(conn, _)| conn.is_open())
    }

    fn put(&self, open: Open) -> Open {
        *lock(&self.open) = Some(open.clone());
        open
    }
}

impl Stdio {
    pub(super) fn new(
        source: Source,
        known: Known,
        forced: bool,
        timeout: Duration,
        memory: Arc<Memory>,
        notices: Notices,
    ) -> Arc<Self> {
        let (modern, session, owns, respawn, started, stopping, sessionless) = Default::default();
        let known = Mutex::new(known);
        Arc::new(Self {
            source,
            known,
            forced,
            timeout,
            sessionless,
            memory,
            notices,
            modern,
            session,
            owns,
            respawn,
            started,
            stopping,
        })
    }

    /// The process to use for a client of this era, and what it said of itself.
    pub(crate) async fn conn(self: &Arc<Self>, era: Era) -> Result<Open, Fault> {
        let sessionless = self.sessionless.load(Ordering::Relaxed);
        let modern = match (era, self.known()) {
            (Era::Session, Known::Modern) => self.forced || sessionless,
            (Era::Session, _) => sessionless,
            (Era::Modern, Known::Session(_)) => false,
            (Era::Modern, _) => true,
        };
        match self.conn_of(modern).await {
            Err(_) if sessionless && era == Era::Session => {
                self.sessionless.store(false, Ordering::Relaxed);
                self.conn_of(false).await
            }
            // A server may speak the stateless protocol alone; one that ends at a request it does
            // not know was seen to speak it before.
            Err(fault) if !modern && !self.forced && self.may_be_stateless(&fault) => {
                let open = self.conn_of(true).await.map_err(|_| fault)?;
                self.sessionless.store(open.1.era == Era::Modern, Ordering::Relaxed);
                Ok(open)
            }
            outcome => outcome,
        }
    }

    /// True when sessions are not to be tried: the configuration says so, or the server did.
    pub(crate) fn is_stateless(&self) -> bool {
        let forced = self.forced && self.known() == Known::Modern;
        forced || self.sessionless.load(Ordering::Relaxed)
    }

    fn may_be_stateless(&self, fault: &Fault) -> bool {
        fault.kind == FaultKind::Protocol
            || (fault.kind == FaultKind::Closed && self.known() == Known::Modern)
    }

    async fn conn_of(self: &Arc<Self>, modern: bool) -> Result<Open, Fault> {
        let slot = if modern { &self.modern } else { &self.session };
        if let Some(open) = slot.get() {
            return Ok(open);
        }
        // A start goes on when the client that caused it gives up waiting.
        let this = Arc::clone(self);
        let start = tokio::spawn(async move {
            if modern { this.modern_conn().await } else { this.session_conn(false).await }
        });
        start.await.unwrap_or_else(|_| Err(ended()))
    }

    /// A process that runs already, else the one for `prefer`.
    pub(crate) async fn any_conn(self: &Arc<Self>, prefer: Era) -> Result<Open, Fault> {
        if let Some(open) = self.session.get().or_else(|| self.modern.get()) {
            return Ok(open);
        }
        self.conn(prefer).await
    }

    /// Ends every process, also one that is still starting.
    pub(crate) async fn stop(&self, patience: Duration) {
        self.stopping.store(true, Ordering::Release);
        let started = std::mem::take(&mut *lock(&self.started));
        let mut ends = tokio::task::JoinSet::new();
        for conn in started.iter().filter_map(Weak::upgrade) {
            ends.spawn(async move { conn.stop(patience).await });
        }
        while ends.join_next().await.is_some() {}
    }

    /// The process of a session, or the one that sessions share.
    pub(crate) async fn conn_for(
        self: &Arc<Self>,
        session: Option<&str>,
        era: Era,
    ) -> Result<Open, Fault> {
        match session.and_then(|session| self.owns.get(session)) {
            Some(own) => own.open(self).await,
            None => self.conn(era).await,
        }
    }

    /// One more conversation, for clients of their own kind: opened by this `initialize`.
    ///
    /// # Errors
    /// When it cannot be opened, and while the command rests because its processes keep ending.
    pub(crate) async fn open_session(
        &self,
        initialize: &str,
        whom: Whom,
        notices: Notices,
    ) -> Result<Open, Fault> {
        lock(&self.respawn).check()?;
        let conn = self.connect(whom, notices).await?;
        match session::greet(&conn, initialize).await {
            Ok(shaken) => Ok((conn, Arc::new(shaken))),
            Err(fault) => {
                let fault = if conn.is_open() {
                    fault
                } else {
                    let fault = conn.failed_to_start();
                    self.note_end(&conn, Some(&fault));
                    fault
                };
                conn.stop(PATIENCE).await;
                Err(fault)
            }
        }
    }

    /// Counts an end against the command, whoever had it started. `why` is told to whoever has to
    /// wait for the next start, so it is for ends before anybody was served: later a process's last
    /// words may be about its client.
    pub(super) fn note_end(&self, conn: &Conn, why: Option<&Fault>) {
        lock(&self.respawn).ended(conn.lived(), why);
    }

    async fn connect(&self, whom: Whom, notices: Notices) -> Result<Arc<Conn>, Fault> {
        if self.stopping.load(Ordering::Acquire) {
            return Err(ended());
        }
        let conn = match &self.source {
            Source::Command(command) => {
                let (child, tail) = command.start().inspect_err(|fault| {
                    lock(&self.respawn).ended(Duration::ZERO, Some(fault));
                })?;
                Conn::of_process(child, tail, whom, notices)?
            }
            Source::Sse(sender) => session::connect_sse(sender, whom, &notices).await?,
        };
        let mut started = lock(&self.started);
        started.retain(|conn| conn.strong_count() > 0);
        started.push(Arc::downgrade(&conn));
        Ok(conn)
    }

    /// True when the same command is run in the same way.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let (Source::Command(own), Source::Command(other_command)) = (&self.source, &other.source)
        else {
            return false;
        };
        own == other_command && self.forced == other.forced && self.timeout == other.timeout
    }

    fn known(&self) -> Known {
        lock(&self.known).clone()
    }

    /// A fault while the process rests; one that ended meanwhile is noted first.
    fn may_start(&self, slot: &Slot) -> Result<(), Fault> {
        let over = lock(&slot.open).take_if(|(conn, _)| !conn.is_open());
        if let Some((conn, _)) = over {
            self.note_end(&conn, None);
        }
        lock(&slot.refusals).check()?;
        lock(&self.respawn).check()
    }

    async fn session_conn(&self, anyway: bool) -> Result<Open, Fault> {
        let _once = self.session.starts.lock().await;
        if let Some(open) = self.session.get() {
            return Ok(open);
        }
        if !anyway {
            self.may_start(&self.session)?;
        }
        let version = match self.known() {
            Known::Session(version) => version,
            Known::Nothing | Known::Modern => control::SESSION_VERSION.to_owned(),
        };
        let open = self.start(&self.session, Known::Session(version)).await?;
        self.memory.keep(&open.1, false);
        Ok(self.session.put(open))
    }

    /// Probes for the stateless protocol; a server without it serves its session process.
    async fn modern_conn(&self) -> Result<Open, Fault> {
        let _once = self.modern.starts.lock().await;
        if let Some(open) = self.modern.get() {
            return Ok(open);
        }
        if matches!(self.known(), Known::Session(_)) {
            return self.session_conn(false).await;
        }
        self.may_start(&self.modern)?;
        let failures = lock(&self.respawn).failures();
        // One that keeps ending is tried in both protocols by turns.
        if !self.forced && failures % 2 == 1 {
            return self.settled_session().await;
        }
        match self.start(&self.modern, self.known()).await {
            // Servers that end at a request they do not know are started again without a probe.
            Err(f) if f.kind == FaultKind::Closed && !self.forced && failures == 0 => {
                self.settled_session().await
            }
            Ok((conn, shaken)) if shaken.era == Era::Session => {
                self.settle_on_session(&shaken);
                let _once = self.session.starts.lock().await;
                if let Some(open) = self.session.get() {
                    conn.stop(PATIENCE).await;
                    return Ok(open);
                }
                Ok(self.session.put((conn, shaken)))
            }
            Ok(open) => {
                self.memory.keep(&open.1, true);
                *lock(&self.known) = Known::Modern;
                Ok(self.modern.put(open))
            }
            Err(fault) => Err(fault),
        }
    }

    async fn settled_session(&self) -> Result<Open, Fault> {
        let open = self.session_conn(true).await?;
        self.settle_on_session(&open.1);
        Ok(open)
    }

    fn settle_on_session(&self, shaken: &Handshake) {
        self.memory.keep(shaken, true);
        *lock(&self.known) = Known::Session(shaken.version.clone());
    }

    async fn start(&self, slot: &Slot, known: Known) -> Result<Open, Fault> {
        let conn = self.connect(Whom::Nobody, Arc::clone(&self.notices)).await?;
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
                let (fault, record) = if conn.is_open() {
                    (fault, &slot.refusals)
                } else {
                    (conn.failed_to_start(), &self.respawn)
                };
                lock(record).ended(conn.lived(), Some(&fault));
                conn.stop(PATIENCE).await;
                Err(fault)
            }
        }
    }
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
                conn.notify(&message, "own").await;
                return Ok(None);
            };
            let is_probe = message.method.as_deref() == Some("server/discover");
            let limit = if is_probe { probe } else { START_TIMEOUT };
            match tokio::time::timeout(limit, conn.ask(&text)).await {
                Ok(answer) => answer.map(Some),
                Err(_) if is_probe => {
                    silent.store(true, Ordering::Relaxed);
                    Ok(Some(crate::rpc::error(Some(id), crate::rpc::METHOD_NOT_FOUND, "no answer")))
                }
                Err(_) => Err(Fault::silent(limit)),
            }
        })
    })
}
