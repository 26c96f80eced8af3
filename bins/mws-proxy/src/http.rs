//! The front door: who may come in, and with what.
//!
//! Invariant: every request passes the same guard first, whatever its path and method; another
//! origin, host or content type is refused before a byte of the body is read.
//! Deliberately absent: CORS headers. No page has business here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderValue, ORIGIN};
use hyper::{Method, Request, StatusCode};

use crate::body;
use crate::proxy::Proxy;
use crate::reply::{self, Reply};

/// Path of the endpoint.
pub(crate) const PATH: &str = "/mcp";
const BODY_MAX: usize = 16 * 1024 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The door of one listener.
pub(crate) struct Door {
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) port: u16,
    /// Requests that are not answered to the end.
    pub(crate) busy: Arc<AtomicUsize>,
}

/// Counts one request as long as it lives.
struct Busy(Arc<AtomicUsize>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Door {
    /// Answers one request.
    pub(crate) async fn handle(&self, request: Request<Incoming>) -> Reply {
        if let Err((status, why)) = guard(&request, self.port) {
            return refuse(status, why);
        }
        let (parts, incoming) = request.into_parts();
        match parts.method {
            Method::POST => {
                self.busy.fetch_add(1, Ordering::AcqRel);
                let busy = Busy(Arc::clone(&self.busy));
                let reply = match read(incoming).await {
                    Ok(body) => self.proxy.post(parts.headers, body, None).await,
                    Err((status, why)) => refuse(status, why),
                };
                reply.map(|body| body::guarded(body, busy))
            }
            method => self.proxy.session_stream(&method, &parts.headers).await,
        }
    }
}

/// Host, origin, path, method and content type, in this order.
fn guard(request: &Request<Incoming>, port: u16) -> Result<(), (StatusCode, &'static str)> {
    let headers = request.headers();
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    let host = host.ok_or((StatusCode::BAD_REQUEST, "the Host header is missing"))?;
    if hosts.next().is_some() {
        return Err((StatusCode::BAD_REQUEST, "there are two Host headers"));
    }
    let authority = request.uri().authority().map(hyper::http::uri::Authority::as_str);
    if !is_ours(host, port) || authority.is_some_and(|authority| !is_ours(authority, port)) {
        return Err((StatusCode::FORBIDDEN, "this Host is not served here"));
    }
    let mut origins = headers.get_all(ORIGIN).iter();
    let own = |origin: &HeaderValue| {
        let host = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
        host.is_some_and(|host| is_ours(host, port))
    };
    if origins.next().is_some_and(|origin| !own(origin)) || origins.next().is_some() {
        return Err((StatusCode::FORBIDDEN, "requests from web pages are not served here"));
    }
    let fetch = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if matches!(fetch, Some(b"cross-site" | b"same-site")) {
        return Err((StatusCode::FORBIDDEN, "requests from web pages are not served here"));
    }
    if request.uri().path() != PATH {
        return Err((StatusCode::NOT_FOUND, ""));
    }
    if ![Method::POST, Method::GET, Method::DELETE].contains(request.method()) {
        return Err((StatusCode::METHOD_NOT_ALLOWED, ""));
    }
    if request.method() == Method::POST {
        let kind = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json"));
        }
        let encoding = headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
        if encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case(b"identity")) {
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "send the body uncompressed"));
        }
    }
    Ok(())
}

/// True for a loopback name with our port.
fn is_ours(host: &str, port: u16) -> bool {
    let (name, given) = match host.rsplit_once(':') {
        Some((name, given)) if !given.ends_with(']') => (name, given.parse().ok()),
        _ => (host, Some(80)),
    };
    let loopback = ["127.0.0.1", "localhost", "[::1]"];
    given == Some(port) && loopback.iter().any(|own| name.eq_ignore_ascii_case(own))
}

async fn read(body: Incoming) -> Result<Bytes, (StatusCode, &'static str)> {
    match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_MAX).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(e)) if e.is::<http_body_util::LengthLimitError>() => {
            Err((StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 16 MiB"))
        }
        Ok(Err(_)) => Err((StatusCode::BAD_REQUEST, "the body was cut off")),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body took longer than 30 s")),
    }
}

pub(crate) fn refuse(status: StatusCode, why: &str) -> Reply {
    if why.is_empty() {
        let mut reply = reply::empty(status);
        if status == StatusCode::METHOD_NOT_ALLOWED {
            reply.headers_mut().insert("allow", HeaderValue::from_static("POST, GET, DELETE"));
        }
        return reply;
    }
    reply::json(status.as_u16(), crate::rpc::error(None, crate::rpc::SERVER_ERROR, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_with_our_port_are_ours() {
        for host in ["127.0.0.1:4484", "localhost:4484", "LOCALHOST:4484", "[::1]:4484"] {
            assert!(is_ours(host, 4484), "{host}");
        }
        for host in [
            "127.0.0.1",
            "127.0.0.1:4485",
            "evil.example:4484",
            "localhost.:4484",
            "[::1]",
            "user@127.0.0.1:4484",
            "127.0.0.1:4484:4484",
            "",
            ":4484",
            "127.0.0.1.evil.example:4484",
        ] {
            assert!(!is_ours(host, 4484), "{host}");
        }
        assert!(is_ours("localhost", 80));
    }
}
