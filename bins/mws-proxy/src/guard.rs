//! Who may come in: Host, Origin, token, path, method and the form of a body.
//!
//! Invariant: one guard for every request, whatever its path, method and protocol version; a list
//! of hosts or origins that is empty lets nobody in.
//! Deliberately absent: CORS headers. No page has business here unless the configuration names it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use hyper::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    ORIGIN, UPGRADE,
};
use hyper::{Method, Request, StatusCode};
use mws_config::{Listen, Token};

use crate::caller::{PROTOCOL_VERSION, SESSION_ID};
use crate::headers;
use crate::lock::lock;

/// Path of the endpoint.
pub(crate) const PATH: &str = "/mcp";
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];
/// Bytes of all headers together.
const HEADER_BYTES: usize = 16 * 1024;
/// Wrong tokens in a minute, beyond which each further one is answered late.
const WRONG_TOKENS: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);

/// Status and words of a refusal.
pub(crate) type Refusal = (StatusCode, &'static str);

/// What is let in.
pub(crate) struct Guard {
    /// Our port; none on a socket file, which no name resolves to.
    port: Option<u16>,
    /// Hosts from the configuration.
    hosts: Option<Vec<String>>,
    origins: Option<Vec<String>>,
    token: Option<Token>,
    wrong: Mutex<Vec<Instant>>,
}

impl Guard {
    pub(crate) fn new(listen: &Listen, port: Option<u16>, token: Option<Token>) -> Self {
        let (hosts, origins) = (listen.allowed_hosts.clone(), listen.allowed_origins.clone());
        Self { port, hosts, origins, token, wrong: Mutex::default() }
    }

    /// Checks all that can be told before the body.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let headers = request.headers();
        once(headers)?;
        self.host(request)?;
        self.origin(headers)?;
        self.token(headers)?;
        if request.uri().path() != PATH {
            return Err((StatusCode::NOT_FOUND, ""));
        }
        if is(headers, &HeaderName::from_static(headers::INSTANCE), headers::instance().as_bytes())
        {
            return Err((StatusCode::LOOP_DETECTED, "the proxy is its own upstream"));
        }
        let size: usize = headers.iter().map(|(name, v)| name.as_str().len() + v.len()).sum();
        if size > HEADER_BYTES {
            let why = "the headers are larger than 16 KiB";
            return Err((StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, why));
        }
        match *request.method() {
            Method::POST => form(headers),
            Method::GET if is(headers, &UPGRADE, b"websocket") => {
                Err((StatusCode::BAD_REQUEST, "there is no WebSocket here"))
            }
            Method::GET | Method::DELETE => Ok(()),
            _ => Err((StatusCode::METHOD_NOT_ALLOWED, "")),
        }
    }

    fn host<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let host = headers::text(request.headers(), HOST);
        let host = host.filter(|host| !host.is_empty());
        let host = host.ok_or((StatusCode::BAD_REQUEST, "the Host header is missing"))?;
        let authority = request.uri().authority().map(hyper::http::uri::Authority::as_str);
        if !self.serves(host) || authority.is_some_and(|authority| !self.serves(authority)) {
            return Err((StatusCode::FORBIDDEN, "this Host is not served here"));
        }
        Ok(())
    }

    /// True for a name that is served, with our port or the one it is configured with.
    fn serves(&self, host: &str) -> bool {
        if self.hosts.as_ref().is_some_and(Vec::is_empty) {
            return false;
        }
        let Some(own) = self.port else { return true };
        let Some((name, port)) = split(host) else { return false };
        let given = port.unwrap_or(80);
        if given == own && LOOPBACK.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return true;
        }
        self.hosts.iter().flatten().filter_map(|allowed| split(allowed)).any(|(allowed, wanted)| {
            // Without a port a client means that of its scheme, which may be https elsewhere.
            let fits = match wanted {
                None => given == own,
                Some(wanted) => {
                    port == Some(wanted) || (port.is_none() && matches!(wanted, 80 | 443))
                }
            };
            fits && allowed.eq_ignore_ascii_case(name)
        })
    }

    fn origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        const REFUSED: Refusal =
            (StatusCode::FORBIDDEN, "requests from web pages are not served here");
        let named = match headers.get(ORIGIN).map(HeaderValue::to_str) {
            None => false,
            Some(Err(_)) => return Err(REFUSED),
            Some(Ok(origin)) => match &self.origins {
                Some(allowed) if allowed.iter().any(|allowed| allowed == origin) => true,
                Some(_) => return Err(REFUSED),
                None if self.is_own(origin) => false,
                None => return Err(REFUSED),
            },
        };
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        if !named && matches!(site, Some(b"cross-site" | b"same-site")) {
            return Err(REFUSED);
        }
        Ok(())
    }

    /// A page of this very address: scheme, name and port.
    fn is_own(&self, origin: &str) -> bool {
        let host = origin.strip_prefix("http://");
        self.port.is_some() && host.is_some_and(|host| self.serves(host))
    }

    fn token(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(token) = &self.token else { return Ok(()) };
        let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let bearer =
            given.split_at_checked(7).filter(|(kind, _)| kind.eq_ignore_ascii_case(b"bearer "));
        if bearer.is_some_and(|(_, given)| token.is(given.trim_ascii())) {
            return Ok(());
        }
        let mut wrong = lock(&self.wrong);
        wrong.retain(|at| at.elapsed() < MINUTE);
        // One more than counts is enough to know.
        if wrong.len() <= WRONG_TOKENS {
            wrong.push(Instant::now());
        }
        Err((StatusCode::UNAUTHORIZED, "send the token as Authorization: Bearer TOKEN"))
    }

    /// Takes away the token, which is meant for the proxy alone.
    pub(crate) fn keep_token(&self, headers: &mut HeaderMap) {
        if self.token.is_some() {
            headers.remove(AUTHORIZATION);
        }
    }

    /// True while somebody seems to guess.
    pub(crate) fn is_tried(&self) -> bool {
        lock(&self.wrong).len() > WRONG_TOKENS
    }
}

/// A header that decides something must not stand twice: another reader could take the other one.
fn once(headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    let twice = |name: &HeaderName| headers.get_all(name).iter().nth(1).is_some();
    if twice(&ORIGIN) {
        return Err((StatusCode::FORBIDDEN, "there are two Origin headers"));
    }
    for name in [HOST, AUTHORIZATION, CONTENT_TYPE, CONTENT_ENCODING] {
        if twice(&name) {
            return Err((StatusCode::BAD_REQUEST, "a header stands twice that may stand once"));
        }
    }
    for name in [SESSION_ID, PROTOCOL_VERSION, headers::METHOD, headers::NAME] {
        if headers.get_all(name).iter().nth(1).is_some() {
            return Err((StatusCode::BAD_REQUEST, "an MCP header stands twice"));
        }
    }
    Ok(())
}

/// A body must be JSON in UTF-8, as it is: anything else a web page could send unasked.
fn form(headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = headers::text(headers, CONTENT_TYPE).unwrap_or_default();
    let mut parts = kind.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    let is_utf8 = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            let value = value.trim().trim_matches('"');
            value.eq_ignore_ascii_case("utf-8") || value.eq_ignore_ascii_case("utf8")
        }
        _ => true,
    };
    if !is_json || !parts.all(is_utf8) {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json"));
    }
    if headers.contains_key(CONTENT_ENCODING) && !is(headers, &CONTENT_ENCODING, b"identity") {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "send the body uncompressed"));
    }
    Ok(())
}

fn is(headers: &HeaderMap, name: &HeaderName, value: &[u8]) -> bool {
    headers.get(name).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(value))
}

/// Name and port of a `Host`; `None` when its port is none.
fn split(host: &str) -> Option<(&str, Option<u16>)> {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => {
            let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
            let port = port.parse().ok().filter(|_| digits)?;
            Some((name, Some(port)))
        }
        _ => Some((host, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(hosts: Option<&[&str]>) -> Guard {
        let hosts = hosts.map(|hosts| hosts.iter().map(|host| (*host).to_owned()).collect());
        Guard { port: Some(4484), hosts, origins: None, token: None, wrong: Mutex::default() }
    }

    #[test]
    fn only_loopback_names_with_our_port_are_served() {
        let ours = guard(None);
        for host in ["127.0.0.1:4484", "localhost:4484", "LOCALHOST:4484", "[::1]:4484"] {
            assert!(ours.serves(host), "{host}");
        }
        for host in [
            "127.0.0.1",
            "127.0.0.1:4485",
            "127.0.0.1:+4484",
            "127.0.0.1:",
            "evil.example:4484",
            "localhost.:4484",
            "[::1]",
            "user@127.0.0.1:4484",
            "127.0.0.1:4484:4484",
            "",
            ":4484",
            "127.0.0.1.evil.example:4484",
        ] {
            assert!(!ours.serves(host), "{host}");
        }
        assert!(Guard { port: Some(80), ..guard(None) }.serves("localhost"));
    }

    #[test]
    fn hosts_of_the_configuration_are_served_and_an_empty_list_serves_nobody() {
        let more = guard(Some(&["box.example", "mcp.example:443", "[fd00::1]"]));
        for host in [
            "box.example:4484",
            "mcp.example",
            "MCP.example:443",
            "[fd00::1]:4484",
            "localhost:4484",
        ] {
            assert!(more.serves(host), "{host}");
        }
        for host in ["box.example", "box.example:443", "mcp.example:4484", "[fd00::1]"] {
            assert!(!more.serves(host), "{host}");
        }
        assert!(!guard(Some(&[])).serves("localhost:4484"));
        assert!(!Guard { port: None, ..guard(Some(&[])) }.serves("localhost"));
        assert!(Guard { port: None, ..guard(None) }.serves("anything"));
    }
}
