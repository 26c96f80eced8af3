//! Sessions that the proxy holds with the upstream for stateless clients.
//!
//! Invariant: a client that can be asked something has a session that no other client uses; all
//! others share one. A session that is lost is opened again at the next request.
//! Deliberately absent: sessions of session clients.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mws_catalog::json;

use super::listen::{Listeners, Subscriptions};
use crate::control::Handshake;
use crate::edit::{Object, quote};
use crate::fault::Fault;
use crate::lock::lock;
use crate::rpc::Era;
use crate::severity::Severity;
use crate::upstream::{Conn, Link, Notices, Open, Upstream, Whom, initialize, own_request};

/// Sessions at one time; beyond it the one that was used least recently ends.
const MOST: usize = 64;
/// The same where each is a process.
const MOST_PROCESSES: usize = 8;
/// How long an answer to a request of our own may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// All such sessions.
pub(super) struct Lanes {
    table: Mutex<HashMap<String, Arc<Lane>>>,
    watch: Notices,
    listeners: Arc<Listeners>,
}

/// One session, or its place.
pub(super) struct Lane {
    key: String,
    open: tokio::sync::Mutex<Option<Open>>,
    used: Mutex<Instant>,
    notices: Notices,
    pub(super) subscriptions: Subscriptions,
}

impl Lanes {
    pub(super) fn new(watch: Notices, listeners: Arc<Listeners>) -> Self {
        Self { table: Mutex::default(), watch, listeners }
    }

    /// The session for clients of this key.
    pub(super) fn of(&self, key: &str, upstream: &Upstream) -> Arc<Lane> {
        let most = match upstream.link() {
            Link::Http(_) => MOST,
            Link::Stdio(_) => MOST_PROCESSES,
        };
        let mut table = lock(&self.table);
        if let Some(lane) = table.get(key) {
            *lock(&lane.used) = Instant::now();
            return Arc::clone(lane);
        }
        if table.len() >= most {
            let idle =
                table.values().filter(|lane| Arc::strong_count(lane) == 1 && !lane.is_busy());
            let oldest = idle.min_by_key(|lane| *lock(&lane.used)).map(|lane| lane.key.clone());
            if let Some(lane) = oldest.and_then(|key| table.remove(&key)) {
                tokio::spawn(async move { lane.end().await });
            }
        }
        let lane = Arc::new(Lane {
            key: key.to_owned(),
            open: tokio::sync::Mutex::default(),
            used: Mutex::new(Instant::now()),
            notices: self.notices(key),
            subscriptions: Subscriptions::default(),
        });
        table.insert(key.to_owned(), Arc::clone(&lane));
        lane
    }

    fn notices(&self, key: &str) -> Notices {
        let (watch, listeners) = (Arc::clone(&self.watch), Arc::clone(&self.listeners));
        let key = key.to_owned();
        Arc::new(move |text| {
            watch(text);
            listeners.send(&key, text);
        })
    }
}

impl Lane {
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The session; opened for a client with these capabilities if need be.
    pub(super) async fn open(
        &self,
        upstream: &Upstream,
        capabilities: &str,
    ) -> Result<Open, Fault> {
        let mut open = self.open.lock().await;
        if let Some(open) = open.as_ref().filter(|(conn, _)| conn.is_open()) {
            return Ok(open.clone());
        }
        self.subscriptions.clear().await;
        let shared = capabilities == "{}";
        let whom = if shared { Whom::Nobody } else { Whom::Caller };
        let version = upstream.handshake(Era::Modern).await?.version.clone();
        let greeting = initialize(&version, capabilities);
        let notices = Arc::clone(&self.notices);
        let new = match upstream.link() {
            // The process that session clients share.
            Link::Stdio(stdio) if shared => stdio.conn(Era::Modern).await?,
            Link::Stdio(stdio) => stdio.open_session(&greeting, whom, notices).await?,
            Link::Http(http) => http.open_session(&greeting, whom, notices).await?,
        };
        if !shared {
            new.0.listen();
        }
        Ok(open.insert(new).clone())
    }

    /// Makes the upstream log from this level on, at least.
    pub(super) async fn lower(&self, conn: &Conn, shaken: &Handshake, level: Severity) {
        let mut now = conn.level.lock().await;
        if now.is_some_and(|now| now <= level) || !offers(shaken, "logging", None) {
            return;
        }
        let mut params = Object::of(None);
        params.set("level", quote(level.word()));
        if ask(conn, "logging/setLevel", params).await {
            *now = Some(level);
        }
    }

    fn is_busy(&self) -> bool {
        self.open.try_lock().map_or(true, |open| {
            open.as_ref().is_some_and(|(conn, _)| conn.is_busy() || Arc::strong_count(conn) > 1)
        })
    }

    async fn end(&self) {
        if let Some((conn, _)) = self.open.lock().await.take() {
            conn.stop(PATIENCE).await;
        }
    }
}

/// True when the upstream declared this capability, and this part of it.
pub(super) fn offers(shaken: &Handshake, capability: &str, part: Option<&str>) -> bool {
    let result = Object::of(Some(&shaken.result));
    let capabilities = Object::of(result.get("capabilities"));
    let Some(own) = capabilities.get(capability) else { return false };
    part.is_none_or(|part| Object::of(Some(own)).get(part).map(str::trim) == Some("true"))
}

/// Asks something on our own behalf; true when it was granted.
pub(super) async fn ask(conn: &Conn, method: &str, params: Object<'_>) -> bool {
    let text = own_request(Era::Session, method, params);
    let answer = tokio::time::timeout(PATIENCE, conn.ask(&text)).await;
    let Ok(Ok(text)) = answer else { return false };
    json::members(&text).is_some_and(|members| json::get(&members, "result").is_some())
}
