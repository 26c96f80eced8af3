//! Accepting connections until told to stop.
//!
//! Invariant: the caller passes the listener and the stop signal, so tests choose both; requests
//! under way are finished, for at most 10 s, and what is too much is refused, never left waiting.
//! Deliberately absent: HTTP/2.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use crate::current::Current;
use crate::guard::Guard;
use crate::http::{Door, REQUESTS, no_room};
use crate::line::{Line, Lines, Wire};
use crate::listen::{Listener, Socket};
use crate::proxy::Proxy;

const DRAIN: Duration = Duration::from_secs(10);
const HEADER_BYTES: usize = 64 * 1024;
const HEADERS: usize = 64;
/// Streams that may be open at one time, beside the requests.
const STREAMS: usize = 512;
/// File descriptors kept for the log, for files and for an upstream process.
const RESERVE: u64 = 24;
/// File descriptors asked for, where that is allowed.
const DESCRIPTORS: u64 = 8192;
/// The pause after a failed accept, for example when there are no file descriptors left.
const PAUSE: Duration = Duration::from_millis(50);
/// Connections that are told so at one time that there is no room, where descriptors allow it.
const FAREWELLS: usize = 4096;
/// How long a caller may take to read that there is no room.
const FAREWELL: Duration = Duration::from_secs(10);
/// How often the connections are looked at, while there are any; what an idle proxy wakes up for.
const SWEEP: Duration = Duration::from_secs(2);

/// Serves until `stop` ends; then `again` is asked for what cuts the draining short. Gives the
/// moment at which it was told to stop.
pub(crate) async fn serve<N: Future<Output = ()>>(
    listener: Listener,
    proxy: Arc<Current<Proxy>>,
    guard: Arc<Current<Guard>>,
    stop: impl Future<Output = ()>,
    again: impl FnOnce() -> N,
) -> Instant {
    let (most, most_farewells) = room();
    let streams = STREAMS.min(most / 3);
    let door = Arc::new(Door::new(Arc::clone(&proxy), guard, streams));
    let (stopping, stopped) = watch::channel(false);
    let mut lines = Lines::new(most, most_farewells);
    let mut sweep = tokio::time::interval(SWEEP);
    sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    tokio::pin!(stop);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(socket) => match lines.admit() {
                    Some(line) => admit(socket, line, &mut lines, &door, &stopped),
                    None => match socket {
                        Socket::Tcp(socket) => lines.tell(turn_away(socket)),
                        Socket::Unix(socket) => lines.tell(turn_away(socket)),
                    },
                },
                Err(e) => {
                    tracing::warn!("Cannot accept a connection: {e}.");
                    lines.give_up_one(false);
                    tokio::time::sleep(PAUSE).await;
                }
            },
            true = lines.ended() => {}
            _ = sweep.tick(), if lines.any() => lines.sweep(),
            () = &mut stop => break,
        }
    }
    let told = Instant::now();
    drop(listener);
    let _ = stopping.send(true);
    proxy.get().hang_up();
    let drained = async {
        while door.busy() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // The last bytes of the last answer are still on their way to the socket.
        let ended = async { while lines.ended().await {} };
        let _ = tokio::time::timeout(Duration::from_millis(200), ended).await;
    };
    tokio::select! {
        _ = tokio::time::timeout(DRAIN, drained) => {}
        () = again() => {}
    }
    told
}

/// How many connections there is room for, each of which may need another one to the upstream, and
/// how many more can be told that there is none.
fn room() -> (usize, usize) {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
    let now = limit.current.unwrap_or(DESCRIPTORS);
    let raised = rustix::process::Rlimit { current: Some(most), maximum: limit.maximum };
    let now = if now < most && setrlimit(Resource::Nofile, raised).is_ok() { most } else { now };
    let free = usize::try_from(now.saturating_sub(RESERVE)).unwrap_or(usize::MAX);
    let most = (free / 2).clamp(4, REQUESTS + STREAMS);
    (most, free.saturating_sub(2 * most).clamp(most / 3, FAREWELLS))
}

fn admit(
    socket: Socket,
    line: Arc<Line>,
    lines: &mut Lines,
    door: &Arc<Door>,
    stopped: &watch::Receiver<bool>,
) {
    let (door, stopped, own) = (Arc::clone(door), stopped.clone(), Arc::clone(&line));
    match socket {
        Socket::Tcp(socket) => {
            let _ = socket.set_nodelay(true);
            lines.run(line, connection(Wire { socket, line: own }, door, stopped));
        }
        Socket::Unix(socket) => {
            lines.run(line, connection(Wire { socket, line: own }, door, stopped));
        }
    }
}

async fn connection<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    wire: Wire<S>,
    door: Arc<Door>,
    mut stopped: watch::Receiver<bool>,
) {
    let (line, told) = (Arc::clone(&wire.line), Arc::clone(&wire.line));
    let service = service_fn(move |request| {
        let (door, line) = (Arc::clone(&door), Arc::clone(&line));
        async move { Ok::<_, Infallible>(door.handle(request, &line).await) }
    });
    let mut builder = http1::Builder::new();
    // Its time limit would close a connection that only rests; ours tell the two apart.
    builder.header_read_timeout(None).max_headers(HEADERS).max_buf_size(HEADER_BYTES);
    let mut connection = builder.serve_connection(TokioIo::new(wire), service);
    let must_go = tokio::select! {
        biased;
        () = told.given_up() => true,
        ended = &mut connection => return log_end(ended),
        _ = stopped.wait_for(|stopped| *stopped) => false,
    };
    if must_go {
        let socket = connection.into_parts().io.into_inner().socket;
        return Box::pin(turn_away(socket)).await;
    }
    Pin::new(&mut connection).graceful_shutdown();
    log_end(connection.await);
}

/// Says that there is no room, and waits a moment for it to be read.
async fn turn_away<S: AsyncRead + AsyncWrite + Unpin>(mut socket: S) {
    let tell = async {
        socket.write_all(no_room().as_bytes()).await?;
        socket.shutdown().await?;
        // Closed with a request unread, the socket would be reset and the answer lost.
        let mut buffer = [0; 4096];
        while socket.read(&mut buffer).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    let _ = tokio::time::timeout(FAREWELL, tell).await;
}

fn log_end(ended: hyper::Result<()>) {
    if let Err(e) = ended {
        tracing::debug!("A connection ended early: {e}.");
    }
}
