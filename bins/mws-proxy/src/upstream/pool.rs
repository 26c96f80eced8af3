//! Connections to an HTTP upstream, kept for the next request.
//!
//! Invariant: a request goes out once; it is sent again only where nothing of it was sent, or where
//! the upstream says so with a redirect, which never leads to another host. A request that is given up
//! closes its connection, which the upstream can take for a cancellation.
//! Deliberately absent: timers. A connection that was idle for long is dropped when its turn comes.

use std::error::Error;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderValue, LOCATION};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::headers;
use crate::lock::lock;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than that and something between may have forgotten the connection.
const IDLE: Duration = Duration::from_secs(30);
/// How long no connection is kept after one was dropped with a request on it.
const WARY: Duration = Duration::from_secs(60);

type Cause = Box<dyn Error + Send + Sync>;

/// Why there is no response.
pub(crate) enum Failed {
    /// There is no connection.
    Connect(Cause),
    /// The connection ended before a response came.
    Closed,
}

/// The connections to one upstream.
pub(crate) struct Pool {
    host: String,
    port: u16,
    host_header: HeaderValue,
    target: Uri,
    /// Where a request first succeeded: the target, or the path to which it redirects.
    place: OnceLock<Uri>,
    #[cfg(feature = "tls")]
    tls: Option<super::tls::Tls>,
    kept: Mutex<Vec<Kept>>,
    /// When the upstream last dropped a kept connection with a request on it.
    dropped: Mutex<Option<Instant>>,
}

struct Kept {
    sender: SendRequest<Full<Bytes>>,
    used: Instant,
}

impl Pool {
    /// Connects to nobody yet.
    ///
    /// # Errors
    /// A URL that cannot be used, or no root certificates.
    pub(crate) fn new(uri: &Uri) -> Result<Self, String> {
        let is_https = uri.scheme_str() == Some("https");
        let host = uri.host().ok_or("upstream.url: has no host")?;
        let host_header = match uri.port() {
            Some(port) => HeaderValue::from_str(&format!("{host}:{port}")),
            None => HeaderValue::from_str(host),
        };
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        if is_https && cfg!(not(feature = "tls")) {
            return Err("upstream.url: this build has no TLS; use an http URL".into());
        }
        let host = host.trim_matches(['[', ']']);
        Ok(Self {
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(if is_https { 443 } else { 80 }),
            host_header: host_header.map_err(|e| format!("upstream.url: {e}"))?,
            target: target.parse().map_err(|e| format!("upstream.url: {e}"))?,
            #[cfg(feature = "tls")]
            tls: is_https.then(|| super::tls::Tls::new(host)).transpose()?,
            place: OnceLock::new(),
            kept: Mutex::default(),
            dropped: Mutex::default(),
        })
    }

    /// Sends a request; its target and `Host` are those of the URL, or of where that redirects to.
    pub(crate) async fn request(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Failed> {
        request.headers_mut().insert(HOST, self.host_header.clone());
        if let Some(place) = self.place.get() {
            *request.uri_mut() = place.clone();
            return self.send(request).await;
        }
        *request.uri_mut() = self.target.clone();
        // Boxed: few requests come before the first success.
        Box::pin(self.find(request)).await
    }

    /// Sends a request to the URL, and again where that redirects to.
    async fn find(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failed> {
        let (mut again, mut place) = (request.clone(), self.target.clone());
        let mut response = self.send(request).await?;
        if let Some(elsewhere) = self.redirected(&response) {
            place = elsewhere;
            *again.uri_mut() = place.clone();
            response = self.send(again).await?;
        }
        if response.status().is_success() {
            let _ = self.place.set(place);
        }
        Ok(response)
    }

    /// The path on the same host to which a response sends the request, as servers do that want a
    /// slash at the end.
    fn redirected(&self, response: &Response<Incoming>) -> Option<Uri> {
        if !matches!(response.status().as_u16(), 307 | 308) {
            return None;
        }
        let to: Uri = headers::text(response.headers(), LOCATION)?.parse().ok()?;
        let host = to.host().map(|host| host.trim_matches(['[', ']']));
        let same = host.is_none_or(|host| host.eq_ignore_ascii_case(&self.host))
            && to.port_u16().is_none_or(|port| port == self.port);
        to.path_and_query().filter(|_| same)?.as_str().parse().ok()
    }

    async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Failed> {
        while let Some(mut sender) = self.take() {
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.keep(sender);
                    return Ok(response);
                }
                Err(mut e) => match e.take_message() {
                    Some(unsent) => request = unsent,
                    None => {
                        *lock(&self.dropped) = Some(Instant::now());
                        return Err(Failed::Closed);
                    }
                },
            }
        }
        // Rare and large: not a part of every request.
        let mut sender = Box::pin(self.connect()).await.map_err(Failed::Connect)?;
        let response = sender.send_request(request).await.map_err(|_| Failed::Closed)?;
        self.keep(sender);
        Ok(response)
    }

    /// A connection whose last response was read to its end.
    fn take(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut kept = lock(&self.kept);
        kept.retain(|kept| !kept.sender.is_closed());
        let at = kept.iter().rposition(|kept| kept.sender.is_ready())?;
        let taken = kept.swap_remove(at);
        (taken.used.elapsed() < IDLE).then_some(taken.sender)
    }

    /// For the next request, unless the upstream closes connections without a word: then each of
    /// its own for a while loses no further request.
    fn keep(&self, sender: SendRequest<Full<Bytes>>) {
        if lock(&self.dropped).is_some_and(|at| at.elapsed() < WARY) {
            return;
        }
        lock(&self.kept).push(Kept { sender, used: Instant::now() });
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Cause> {
        let opening = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            stream.set_nodelay(true)?;
            #[cfg(feature = "tls")]
            if let Some(tls) = &self.tls {
                return opened(tls.connect(stream).await?).await;
            }
            opened(stream).await
        };
        let late = || format!("no connection in {} s", CONNECT_TIMEOUT.as_secs()).into();
        tokio::time::timeout(CONNECT_TIMEOUT, opening).await.unwrap_or_else(|_| Err(late()))
    }
}

async fn opened(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<SendRequest<Full<Bytes>>, Cause> {
    let mut http = http1::Builder::new();
    // Old servers write long headers on several lines.
    http.allow_obsolete_multiline_headers_in_responses(true);
    let (sender, connection) = http.handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(e) = connection.await {
            tracing::debug!("A connection to the upstream ended early: {e}.");
        }
    });
    Ok(sender)
}
