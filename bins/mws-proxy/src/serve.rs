//! Accepting connections until told to stop.
//!
//! Invariant: the caller passes the listener and the stop signal, so tests choose both; requests
//! under way are finished, for at most 10 s.
//! Deliberately absent: HTTP/2.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::http::Door;
use crate::proxy::Proxy;
use crate::timer::LazyTimer;

const DRAIN: Duration = Duration::from_secs(10);
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_BYTES: usize = 64 * 1024;
/// Connections at one time.
const CONNECTIONS: usize = 512;
/// The pause after a failed accept, for example when there are no file descriptors left.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` ends; then `again` is asked for what cuts the draining short.
pub(crate) async fn serve<N: Future<Output = ()>>(
    listener: TcpListener,
    proxy: Arc<Proxy>,
    stop: impl Future<Output = ()>,
    again: impl FnOnce() -> N,
) -> std::io::Result<()> {
    let port = listener.local_addr()?.port();
    let busy = Arc::new(AtomicUsize::new(0));
    let door = Arc::new(Door { proxy: Arc::clone(&proxy), port, busy: Arc::clone(&busy) });
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, Arc::clone(&door), stopped.clone()));
                }
                Err(e) => {
                    tracing::warn!("Cannot accept a connection: {e}.");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = &mut stop => break,
        }
    }
    drop(listener);
    let _ = stopping.send(true);
    proxy.hang_up();
    let drained = async {
        while busy.load(Ordering::Acquire) > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // The last bytes of the last answer are still on their way to the socket.
        let ended = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(Duration::from_millis(200), ended).await;
    };
    tokio::select! {
        _ = tokio::time::timeout(DRAIN, drained) => {}
        () = again() => {}
    }
    Ok(())
}

async fn connection(stream: TcpStream, door: Arc<Door>, mut stopped: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let door = Arc::clone(&door);
        async move { Ok::<_, Infallible>(door.handle(request).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(LazyTimer::default())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        ended = &mut connection => return log_end(ended),
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
    connection.as_mut().graceful_shutdown();
    log_end(connection.await);
}

fn log_end(ended: hyper::Result<()>) {
    if let Err(e) = ended {
        tracing::debug!("A connection ended early: {e}.");
    }
}
