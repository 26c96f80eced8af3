//! From the command line to a running proxy.
//!
//! Invariant: the listener is bound and announced before anything is asked of the upstream.
//! Deliberately absent: what happens after the start; see [`crate::reload`] for a changed file.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use mws_catalog::ListingOptions;
use mws_cli::{Exit, Failure, Output};
use mws_config::{Config, UpstreamKind};
use mws_event::Kind;
use mws_search::Options;
use mws_state::{Recorder, StateDir, Watched};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::catalog::Shelf;
use crate::cli::Cli;
use crate::crossing::{Crossing, Listeners};
use crate::current::Current;
use crate::finder::Finder;
use crate::listen::{self, Listener};
use crate::listing::Rules;
use crate::lock::lock;
use crate::notify;
use crate::proxy::Proxy;
use crate::ranks::Ranks;
use crate::reload::Reload;
use crate::rpc::{self, Era};
use crate::streams::Streams;
use crate::upstream::{Notices, Upstream};
use crate::working_set;

/// The proxy ends within this time of the first signal.
const END: Duration = Duration::from_millis(10_600);
/// How long the upstream's process may take to end after its stdin closed, and again after SIGTERM.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

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

/// Builds the proxy; nothing is connected yet. What a running proxy has open is taken over from
/// `before`: its sessions, its streams, and its upstream process when it is to be the same.
///
/// # Errors
/// An upstream setting that cannot be used: exit 2.
pub(crate) fn build(
    config: &Config,
    state: &StateDir,
    before: Option<&Proxy>,
) -> Result<Arc<Proxy>, Failure> {
    let recorder = match before {
        Some(before) => Arc::clone(&before.recorder),
        None => Recorder::spawn(state.clone())
            .map(Arc::new)
            .map_err(|e| Failure::failed(format!("cannot start the event log's thread: {e}")))?,
    };
    let streams = before.map(|b| Arc::clone(&b.streams)).unwrap_or_default();
    let told: Arc<Mutex<Weak<Shelf>>> = Arc::default();
    let (watch, listeners) = (watch(&told), Listeners::new());
    let notices = notices(&watch, &streams, &listeners);
    let upstream = Upstream::new(config, state, notices, Arc::clone(&watch))
        .map(Arc::new)
        .map_err(Failure::usage)?;
    let (upstream, told, crossing) = match before {
        Some(b) if b.upstream.is_same_process(&upstream) => {
            (Arc::clone(&b.upstream), Arc::clone(&b.told), Arc::clone(&b.crossing))
        }
        _ => {
            let patience = Duration::from_secs(config.input_wait_seconds.into());
            (upstream, told, Arc::new(Crossing::new(watch, listeners, patience)))
        }
    };
    let rules = config.tools.clone();
    let shelf = Shelf::new(Arc::clone(&upstream), Arc::clone(&recorder), state.clone(), rules);
    let shelf = Arc::new(shelf);
    *lock(&told) = Arc::downgrade(&shelf);
    let hints = config.backend_hints.clone();
    let synonyms = config.search.read_synonyms().map_err(Failure::usage)?;
    let options = Options { hints, synonyms };
    let listening = before.and_then(|before| before.notifier.clone());
    let notifier = config.notify_on_promotion.then(|| listening.unwrap_or_default());
    let proxy = Arc::new(Proxy {
        upstream,
        shelf,
        told,
        finder: Finder::new(state.clone(), options, config.search.vectors, Arc::clone(&recorder)),
        recorder,
        sessions: before.map(|b| Arc::clone(&b.sessions)).unwrap_or_default(),
        ranks: Ranks::default(),
        streams,
        crossing,
        rules: Rules {
            options: ListingOptions { slim: config.slim_schemas, always_load: config.client_hints },
            server_name: config.server_name.clone(),
            pins: config.pins.iter().cloned().collect(),
            hints: config.backend_hints.clone(),
            instructions: config.search.instructions,
            cold_start: config.cold_start,
            on_change: config.on_change,
        },
        tools: config.tools.clone(),
        notifier,
        working_set: Mutex::new(Watched::new(state.working_set(), working_set::MAX)),
        rendered: Mutex::new(None),
    });
    if proxy.notifier.is_some() {
        tokio::spawn(notify::watch(Arc::downgrade(&proxy)));
    }
    Ok(proxy)
}

/// Tells the shelf what the upstream says about tools.
fn watch(told: &Arc<Mutex<Weak<Shelf>>>) -> Notices {
    let told = Arc::clone(told);
    Arc::new(move |text: &str| {
        if rpc::says_tools_changed(text)
            && let Some(shelf) = lock(&told).upgrade()
        {
            shelf.mark_stale();
        }
    })
}

/// What the upstream says to nobody goes to every stream as well.
fn notices(watch: &Notices, streams: &Arc<Streams>, listeners: &Arc<Listeners>) -> Notices {
    let (watch, streams) = (Arc::clone(watch), Arc::clone(streams));
    let listeners = Arc::clone(listeners);
    Arc::new(move |text: &str| {
        watch(text);
        streams.send(text);
        listeners.send("", text);
    })
}

/// Listens and serves until SIGINT or SIGTERM.
pub(crate) async fn serve(cli: Cli, config: &Config, state: &StateDir) -> Result<Exit, Failure> {
    let listener = Listener::open(&config.listen).await?;
    let guard = Current::new(Arc::new(listen::guard(&config.listen, listener.port())?));
    refuse_itself(config, listener.port())?;
    let proxy = Current::new(start(config, state)?);
    let stop = told_to_stop()?;
    let front = Some((Arc::clone(&guard), listener.port()));
    Reload { cli, config: config.clone(), proxy: Arc::clone(&proxy), front }.on_hangup()?;
    let mut out = Output::stdout();
    out.line(serde_json::json!({ "listening": listener.endpoint() }))?;
    out.finish()?;
    let told = crate::serve::serve(listener, Arc::clone(&proxy), guard, stop, told_again).await;
    end(&proxy.get(), told).await;
    Ok(Exit::Done)
}

/// Serves the one client on stdin and stdout until it hangs up, or SIGINT or SIGTERM.
pub(crate) async fn serve_stdio(
    cli: Cli,
    config: &Config,
    state: &StateDir,
) -> Result<Exit, Failure> {
    let proxy = Current::new(start(config, state)?);
    let stop = told_to_stop()?;
    Reload { cli, config: config.clone(), proxy: Arc::clone(&proxy), front: None }.on_hangup()?;
    let told = crate::pipe::serve(Arc::clone(&proxy), stop, told_again)
        .await
        .map_err(|e| Failure::failed(format!("cannot read stdin: {e}")))?;
    end(&proxy.get(), told).await;
    Ok(Exit::Done)
}

/// An upstream that is this very proxy would have every request run in a circle.
fn refuse_itself(config: &Config, port: Option<u16>) -> Result<(), Failure> {
    let UpstreamKind::Http { url, .. } = &config.upstream.kind else { return Ok(()) };
    let Ok(uri) = url.parse::<hyper::Uri>() else { return Ok(()) };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let listens = config.listen.host.as_str();
    let is_here = host.eq_ignore_ascii_case("localhost")
        || host == listens
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified());
    if is_here && port.is_some() && port == Some(uri.port_u16().unwrap_or(80)) {
        let what = "upstream.url is the address at which this proxy itself listens";
        return Err(Failure::usage(what).hint("name the server, or choose another listen.port"));
    }
    Ok(())
}

/// Builds the proxy, records the start and fetches the tool list ahead of the first request.
fn start(config: &Config, state: &StateDir) -> Result<Arc<Proxy>, Failure> {
    // Caught, it no longer kills: a file at the limit of its size is like a full disk then.
    drop(on(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
    let proxy = build(config, state, None)?;
    if let Err(e) = state.create() {
        tracing::warn!("The state directory cannot be used: {e}; nothing is recorded.");
    }
    proxy.record(Kind::Started { version: env!("CARGO_PKG_VERSION").into(), pid: pid() });
    let ahead = Arc::clone(&proxy);
    tokio::spawn(async move { ahead.shelf.refresh(Era::Session, Duration::from_secs(30)).await });
    Ok(proxy)
}

/// Ends the upstream's process within what is left of the time since `told`.
async fn end(proxy: &Proxy, told: Instant) {
    proxy.shelf.close();
    proxy.record(Kind::Stopped { pid: pid() });
    let left = END.saturating_sub(told.elapsed()) / 2;
    proxy.upstream.stop(left.clamp(Duration::from_millis(200), PATIENCE)).await;
    // Tasks that are still there may keep the recorder beyond the end.
    proxy.recorder.sync();
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

/// Signals of this kind.
pub(crate) fn on(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|e| Failure::failed(format!("cannot wait for signals: {e}")))
}
