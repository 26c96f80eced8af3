//! From the command line to a running proxy.
//!
//! Invariant: the listener is bound and announced before anything is asked of the upstream.
//! Deliberately absent: binding beyond loopback.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mws_catalog::ListingOptions;
use mws_cli::{Exit, Failure, Output};
use mws_config::{Config, UpstreamKind};
use mws_event::Kind;
use mws_search::Options;
use mws_state::{Recorder, StateDir, Watched};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::catalog::Shelf;
use crate::cli::Cli;
use crate::crossing::{Crossing, Listeners};
use crate::finder::Finder;
use crate::http::PATH;
use crate::listing::Rules;
use crate::notify::Notifier;
use crate::proxy::Proxy;
use crate::ranks::Ranks;
use crate::rpc::Era;
use crate::sessions::Sessions;
use crate::streams::Streams;
use crate::upstream::{Notices, Upstream};
use crate::working_set;

/// The configuration with the command line applied.
pub(crate) fn configure(cli: &Cli) -> Result<(Config, StateDir), Failure> {
    let (mut config, state) = cli.common.load()?;
    if let Some(address) = &cli.listen {
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        let port = port
            .parse()
            .map_err(|_| Failure::usage(format!("--listen {address}: expected HOST:PORT")))?;
        config.listen.host = host.trim_matches(['[', ']']).to_owned();
        config.listen.port = port;
    }
    if let Some(url) = &cli.upstream {
        let text = serde_json::json!({ "upstream": { "url": url } }).to_string();
        let (given, _) = mws_config::parse(text.as_bytes(), &mws_config::Places::from_env())
            .map_err(|e| Failure::usage(format!("--upstream: {e}")))?;
        config.upstream.kind = given.upstream.kind;
    }
    if let Some([command, args @ ..]) = cli.upstream_command.as_deref() {
        config.upstream.kind = UpstreamKind::Command {
            command: command.clone(),
            args: args.to_vec(),
            env: Vec::new(),
            cwd: None,
        };
    }
    Ok((config, state))
}

/// Builds the proxy; nothing is connected yet.
///
/// # Errors
/// An upstream setting that cannot be used: exit 2.
pub(crate) fn build(config: &Config, state: &StateDir) -> Result<Arc<Proxy>, Failure> {
    let recorder = Recorder::spawn(state.clone())
        .map(Arc::new)
        .map_err(|e| Failure::failed(format!("cannot start the event log's thread: {e}")))?;
    let streams = Arc::new(Streams::default());
    let listeners = Listeners::new();
    // The shelf needs the upstream, and the upstream's notices concern the shelf.
    let shelf: Arc<std::sync::OnceLock<Arc<Shelf>>> = Arc::default();
    let to_shelf = Arc::clone(&shelf);
    let watch: Notices = Arc::new(move |text: &str| {
        if text.contains("notifications/tools/list_changed")
            && let Some(shelf) = to_shelf.get()
        {
            shelf.mark_stale();
        }
    });
    let (to_streams, to_listeners) = (Arc::clone(&streams), Arc::clone(&listeners));
    let watched = Arc::clone(&watch);
    let notices: Notices = Arc::new(move |text: &str| {
        watched(text);
        to_streams.send(text);
        to_listeners.send("", text);
    });
    let upstream = Upstream::new(config, state, notices, Arc::clone(&watch))
        .map(Arc::new)
        .map_err(Failure::usage)?;
    let kept = Shelf::new(Arc::clone(&upstream), Arc::clone(&recorder), state.clone());
    let shelf = Arc::clone(shelf.get_or_init(|| Arc::new(kept)));
    let hints = config.backend_hints.clone();
    let synonyms = config.search.read_synonyms().map_err(Failure::usage)?;
    let options = Options { hints, synonyms };
    Ok(Arc::new(Proxy {
        upstream,
        shelf,
        finder: Finder::new(state.clone(), options, config.search.vectors, Arc::clone(&recorder)),
        recorder,
        sessions: Sessions::default(),
        ranks: Ranks::default(),
        streams,
        crossing: Crossing::new(
            watch,
            listeners,
            Duration::from_secs(config.input_wait_seconds.into()),
        ),
        rules: Rules {
            options: ListingOptions { slim: config.slim_schemas, always_load: config.client_hints },
            server_name: config.server_name.clone(),
            pins: config.pins.iter().cloned().collect(),
            hints: config.backend_hints.clone(),
            instructions: config.search.instructions,
            cold_start: config.cold_start,
            on_change: config.on_change,
        },
        notifier: config.notify_on_promotion.then(Notifier::default),
        working_set: Mutex::new(Watched::new(state.working_set(), working_set::MAX)),
        rendered: Mutex::new(None),
    }))
}

/// Listens and serves until SIGINT or SIGTERM.
pub(crate) async fn serve(config: &Config, state: &StateDir) -> Result<Exit, Failure> {
    let listener = bind(config).await?;
    let address = listener.local_addr()?;
    let proxy = start(config, state)?;
    let stop = told_to_stop()?;
    let mut out = Output::stdout();
    out.line(format_args!("{{\"listening\":\"http://{address}{PATH}\"}}"))?;
    out.finish()?;
    crate::serve::serve(listener, Arc::clone(&proxy), stop, told_again).await?;
    end(&proxy).await;
    Ok(Exit::Done)
}

/// Serves the one client on stdin and stdout until it hangs up, or SIGINT or SIGTERM.
pub(crate) async fn serve_stdio(config: &Config, state: &StateDir) -> Result<Exit, Failure> {
    let proxy = start(config, state)?;
    let stop = told_to_stop()?;
    crate::pipe::serve(Arc::clone(&proxy), stop, told_again)
        .await
        .map_err(|e| Failure::failed(format!("cannot read stdin: {e}")))?;
    end(&proxy).await;
    Ok(Exit::Done)
}

/// Builds the proxy, records the start and fetches the tool list ahead of the first request.
fn start(config: &Config, state: &StateDir) -> Result<Arc<Proxy>, Failure> {
    // Caught, it no longer kills: a file at the limit of its size is like a full disk then.
    drop(on(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
    let proxy = build(config, state)?;
    if let Err(e) = state.create() {
        tracing::warn!("The state directory cannot be used: {e}; nothing is recorded.");
    }
    proxy.record(Kind::Started { version: env!("CARGO_PKG_VERSION").into(), pid: pid() });
    if proxy.notifier.is_some() {
        tokio::spawn(crate::notify::watch(Arc::clone(&proxy)));
    }
    let ahead = Arc::clone(&proxy);
    tokio::spawn(async move { ahead.shelf.refresh(Era::Session, Duration::from_secs(30)).await });
    Ok(proxy)
}

async fn end(proxy: &Proxy) {
    proxy.shelf.close();
    proxy.record(Kind::Stopped { pid: pid() });
    proxy.upstream.stop().await;
}

fn pid() -> u64 {
    u64::from(std::process::id())
}

/// As [`told_to_stop`], for after the first signal.
async fn told_again() {
    match told_to_stop() {
        Ok(told) => told.await,
        Err(_) => std::future::pending().await,
    }
}

/// Ends at the next SIGINT or SIGTERM.
fn told_to_stop() -> Result<impl Future<Output = ()>, Failure> {
    let (mut term, mut int) = (on(SignalKind::terminate())?, on(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    })
}

async fn bind(config: &Config) -> Result<TcpListener, Failure> {
    let (host, port) = (config.listen.host.as_str(), config.listen.port);
    let ip = match host {
        "localhost" => Some(IpAddr::from([127, 0, 0, 1])),
        host => host.parse::<IpAddr>().ok(),
    };
    let Some(ip) = ip.filter(IpAddr::is_loopback) else {
        let what = format!("cannot listen on {host}: only loopback addresses are served");
        return Err(Failure::usage(what).hint("use 127.0.0.1, ::1 or localhost"));
    };
    let address = SocketAddr::new(ip, port);
    TcpListener::bind(address).await.map_err(|e| match e.kind() {
        std::io::ErrorKind::AddrInUse => {
            Failure::failed(format!("cannot listen on {address}: port {port} is in use"))
                .hint("stop the other program, or choose a port with --listen or listen.port")
        }
        _ => Failure::failed(format!("cannot listen on {address}: {e}")),
    })
}

fn on(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|e| Failure::failed(format!("cannot wait for signals: {e}")))
}
