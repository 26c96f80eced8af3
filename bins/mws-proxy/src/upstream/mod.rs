//! The server behind the proxy: one seam for HTTP and for a child process.
//!
//! Invariant: whoever forwards asks here which era to speak and gets bytes back.
//! Deliberately absent: several upstreams. A router in front of this seam would own names.

mod answer;
mod asks;
mod child;
mod conn;
mod gate;
mod http;
mod mux;
mod own;
mod pool;
mod post;
mod respawn;
mod session;
mod stdio;
#[cfg(feature = "tls")]
mod tls;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mws_config::{Config, Secret, UpstreamKind};
use mws_state::StateDir;

pub(crate) use answer::{answer_in, read_whole, refused_session};
pub(crate) use asks::Whom;
pub(crate) use child::{BECOME, turn_into};
pub(crate) use conn::{Conn, ended};
pub(crate) use http::Http;
pub(crate) use mux::{Notices, Pending, Terms};
pub(crate) use own::Own;
pub(crate) use session::initialize;
pub(crate) use stdio::Open;
use stdio::Source;
pub(crate) use stdio::Stdio;

use crate::control::{Handshake, Known, NAME, SESSION_VERSION};
use crate::edit::{Object, quote};
use crate::fault::Fault;
use crate::memory::Memory;
use crate::rpc::{Era, META_CAPABILITIES, META_CLIENT, META_VERSION, MODERN};

/// The version of the protocol whose HTTP transport had two URLs.
const SSE_VERSION: &str = "2024-11-05";

/// How the upstream is reached.
pub(crate) enum Link {
    /// Streamable HTTP.
    Http(Box<Http>),
    /// A child process.
    Stdio(Arc<Stdio>),
}

/// The upstream and what is remembered of it.
pub(crate) struct Upstream {
    link: Link,
    /// In place of it, where the server turned out to speak nothing else.
    older: OnceLock<Link>,
    /// Held while that is found out.
    turning: tokio::sync::Mutex<()>,
    notices: Notices,
    /// Hears what is said to nobody, without telling everybody.
    watch: Notices,
    pub(crate) memory: Arc<Memory>,
}

impl Upstream {
    /// Sets up the link; nothing is connected yet.
    ///
    /// # Errors
    /// A header or variable that cannot be resolved, or a URL that cannot be used.
    pub(crate) fn new(
        config: &Config,
        state: &StateDir,
        notices: Notices,
        watch: Notices,
    ) -> Result<Self, String> {
        let protocol = config.upstream.protocol.clone();
        let identity = identity(&config.upstream.kind);
        let memory = Arc::new(Memory::open(state.clone(), &identity));
        let known = known(protocol.as_deref(), &memory);
        let forced = protocol.is_some();
        let timeout = Duration::from_secs(config.upstream.timeout_seconds.into());
        let link = match &config.upstream.kind {
            UpstreamKind::Http { url, headers } => {
                let resolved = resolve(headers, "upstream.headers")?;
                let lends = config.upstream.forward_authorization;
                let to_keep = Arc::clone(&memory);
                let http = Http::new(url, resolved, known, forced, to_keep, timeout, lends)?;
                match protocol.as_deref() {
                    Some(SSE_VERSION) => older(&http, &memory, &notices),
                    _ => Link::Http(Box::new(http)),
                }
            }
            UpstreamKind::Command { command, args, env: vars, cwd } => {
                let resolved = resolve(vars, "upstream.env")?;
                let command = child::Command {
                    program: command.clone(),
                    args: args.clone(),
                    env: resolved,
                    cwd: cwd.clone(),
                };
                Link::Stdio(Stdio::new(
                    Source::Command(command),
                    known,
                    forced,
                    timeout,
                    Arc::clone(&memory),
                    Arc::clone(&notices),
                ))
            }
        };
        let (older, turning) = Default::default();
        Ok(Self { link, older, turning, notices, watch, memory })
    }

    /// How the upstream is reached, as far as is known.
    pub(crate) fn link(&self) -> &Link {
        self.older.get().unwrap_or(&self.link)
    }

    /// The place of a process for the session that this `initialize` opens.
    pub(crate) fn own(&self, initialize: String) -> Arc<Own> {
        Own::new(initialize, &self.watch)
    }

    /// How the upstream is reached, found out where that is not known.
    ///
    /// # Errors
    /// When the upstream cannot be reached.
    pub(crate) async fn settled(&self) -> Result<&Link, Fault> {
        if let Link::Http(http) = self.link()
            && let Err(fault) = http.control().await
            && !(http.takes_no_post() && self.turn(http).await)
        {
            return Err(fault);
        }
        Ok(self.link())
    }

    /// Tries the older transport, after the URL took no POST; true when the server speaks it.
    async fn turn(&self, http: &Http) -> bool {
        let _once = self.turning.lock().await;
        if self.older.get().is_some() {
            return true;
        }
        let link = older(http, &self.memory, &self.notices);
        let Link::Stdio(stdio) = &link else { return false };
        match stdio.conn(Era::Session).await {
            Ok(_) => self.older.set(link).is_ok(),
            Err(fault) => {
                tracing::debug!("The upstream does not speak the older transport: {fault}.");
                false
            }
        }
    }

    /// How long an answer may take.
    pub(crate) fn timeout(&self) -> Duration {
        match self.link() {
            Link::Http(http) => http.timeout(),
            Link::Stdio(stdio) => stdio.timeout,
        }
    }

    /// The era to speak for a client of `client`'s era: its own where the upstream has it.
    ///
    /// # Errors
    /// When the upstream cannot be reached.
    pub(crate) async fn era_for(&self, client: Era) -> Result<Era, Fault> {
        if matches!(self.link(), Link::Http(_)) && client == Era::Session {
            return Ok(Era::Session);
        }
        match self.settled().await? {
            Link::Http(http) => Ok(http.handshake().await?.era),
            Link::Stdio(stdio) => Ok(stdio.conn(client).await?.1.era),
        }
    }

    /// Connects if needed; what the upstream said of itself.
    ///
    /// # Errors
    /// When the upstream cannot be reached.
    pub(crate) async fn handshake(&self, prefer: Era) -> Result<Arc<Handshake>, Fault> {
        match self.settled().await? {
            Link::Http(http) => http.handshake().await,
            Link::Stdio(stdio) => Ok(stdio.any_conn(prefer).await?.1),
        }
    }

    /// Sends a request of our own; the text of its response.
    ///
    /// # Errors
    /// When the upstream cannot be reached or does not answer.
    pub(crate) async fn ask(
        &self,
        prefer: Era,
        method: &str,
        params: Object<'_>,
    ) -> Result<String, Fault> {
        match self.settled().await? {
            Link::Http(http) => http.ask(method, &params).await,
            Link::Stdio(stdio) => {
                let (conn, shaken) = stdio.any_conn(prefer).await?;
                let text = own_request(shaken.era, method, params);
                conn.ask(&text).await
            }
        }
    }

    /// Whether the server answers in event streams, as a client of it is used to.
    pub(crate) fn streams(&self) -> bool {
        matches!(&self.link, Link::Http(http) if http.streams())
    }

    /// Ends a child process in good order; it may take `patience` twice.
    pub(crate) async fn stop(&self, patience: Duration) {
        if let Link::Stdio(stdio) = self.link() {
            stdio.stop(patience).await;
        }
    }

    /// True when both are the same child process, started in the same way.
    pub(crate) fn is_same_process(&self, other: &Self) -> bool {
        match (&self.link, &other.link) {
            (Link::Stdio(own), Link::Stdio(other)) => own.is_same(other),
            _ => false,
        }
    }
}

fn older(http: &Http, memory: &Arc<Memory>, notices: &Notices) -> Link {
    let (memory, notices) = (Arc::clone(memory), Arc::clone(notices));
    // Such a server may well speak a later version over its older transport.
    let known = Known::Session(SESSION_VERSION.to_owned());
    Link::Stdio(Stdio::new(
        Source::Sse(Box::new(http.sender())),
        known,
        false,
        http.timeout(),
        memory,
        notices,
    ))
}

/// A request of our own under the id 0.
pub(crate) fn own_request(era: Era, method: &str, mut params: Object<'_>) -> String {
    if era == Era::Modern {
        let mut meta = Object::of(None);
        meta.set(META_VERSION, quote(MODERN));
        meta.set(META_CLIENT, client_info());
        meta.set(META_CAPABILITIES, "{}");
        params.set("_meta", meta.to_json());
    }
    let params = params.to_json();
    format!("{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":{},\"params\":{params}}}", quote(method))
}

/// `clientInfo` of the proxy.
pub(crate) fn client_info() -> String {
    format!("{{\"name\":\"{NAME}\",\"version\":\"{}\"}}", env!("CARGO_PKG_VERSION"))
}

/// The values behind the references of a table of the configuration.
fn resolve(table: &[(String, Secret)], field: &str) -> Result<Vec<(String, String)>, String> {
    let env = |name: &str| std::env::var(name).ok();
    let entry = |(name, value): &(String, Secret)| {
        let value = value.resolve(env).map_err(|e| format!("{field}.{name}: {e}"))?;
        Ok((name.clone(), value))
    };
    table.iter().map(entry).collect()
}

fn identity(kind: &UpstreamKind) -> String {
    match kind {
        UpstreamKind::Http { url, .. } => url.clone(),
        UpstreamKind::Command { command, args, .. } => {
            format!("{command}\0{}", args.join("\0"))
        }
    }
}

/// What the configuration forces, else what the last negotiation found.
fn known(protocol: Option<&str>, memory: &Memory) -> Known {
    match protocol.map(str::to_owned).or(memory.entry().verdict) {
        None => Known::Nothing,
        Some(version) if version.as_str() >= MODERN => Known::Modern,
        Some(version) => Known::Session(version),
    }
}
