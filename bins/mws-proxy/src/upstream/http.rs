//! An upstream that speaks Streamable HTTP.
//!
//! Invariant: bodies are sent and received as bytes; the Host is that of the configured URL.
//! Deliberately absent: HTTP/2, redirects to other hosts, cookies.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONNECTION, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Uri};
use mws_catalog::json;

use crate::body;
use crate::caller::{PROTOCOL_VERSION, SESSION_ID};
use crate::control::{self, Exchange, Handshake, Known};
use crate::edit::Object;
use crate::fault::{Fault, FaultKind};
use crate::headers;
use crate::lock::lock;
use crate::memory::Memory;
use crate::reply::{Reply, is_stream};
use crate::rpc::{Era, META_VERSION, Message};
use crate::timer::LazyTimer;
use crate::upstream::answer::{answer_in, refused_session};
use crate::upstream::asks::Whom;
use crate::upstream::gate::Gate;
use crate::upstream::mux::Notices;
use crate::upstream::pool::{Failed, Pool};
use crate::upstream::stdio::Open;
use crate::upstream::{own_request, session};

/// For a request of our own.
const OWN_TIMEOUT: Duration = Duration::from_secs(60);
/// For each step of a handshake.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The link to an HTTP upstream.
pub(crate) struct Http {
    sender: Sender,
    known: Mutex<Known>,
    memory: Arc<Memory>,
    /// Held while negotiating, so that it happens once.
    negotiating: tokio::sync::Mutex<()>,
    control: Mutex<Option<Control>>,
    /// The last `initialize` was refused with a status that says so.
    no_post: Arc<AtomicBool>,
    /// Its last answer to a request of ours was an event stream.
    streams: AtomicBool,
    /// The client's `Authorization` that was passed on last, where that is configured: the proxy's
    /// own requests need one, too.
    lent: Option<Mutex<Option<HeaderValue>>>,
    /// The configuration says that the upstream has no sessions.
    stateless: bool,
}

/// The proxy's own conversation with the upstream.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    pub(crate) shaken: Arc<Handshake>,
    pub(crate) session_id: Option<String>,
}

/// What the answers of a handshake told so far.
#[derive(Debug, Clone, Default)]
struct Seen {
    session_id: Option<String>,
    version: Option<String>,
}

/// What sends requests; cheap to clone.
#[derive(Clone)]
pub(crate) struct Sender {
    pool: Arc<Pool>,
    timer: LazyTimer,
    uri: Uri,
    headers: HeaderMap,
    gate: Arc<Gate>,
    timeout: Duration,
}

impl Http {
    pub(crate) fn new(
        url: &str,
        own: Vec<(String, String)>,
        known: Known,
        forced: bool,
        memory: Arc<Memory>,
        timeout: Duration,
        forward_authorization: bool,
    ) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|e| format!("upstream.url: {e}"))?;
        let mut headers = HeaderMap::new();
        for (name, value) in own {
            let bad = |what| format!("upstream.headers.{name}: {what} is not allowed in a header");
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("the name"))?;
            let mut value = HeaderValue::from_str(&value).map_err(|_| bad("the value"))?;
            value.set_sensitive(true);
            headers.append(header, value);
        }
        let pool = Arc::new(Pool::new(&uri)?);
        Ok(Self {
            sender: Sender {
                pool,
                timer: LazyTimer::default(),
                uri,
                headers,
                gate: Arc::new(Gate::new(forward_authorization)),
                timeout,
            },
            stateless: forced && known == Known::Modern,
            known: Mutex::new(known),
            memory,
            negotiating: tokio::sync::Mutex::new(()),
            control: Mutex::new(None),
            no_post: Arc::default(),
            streams: AtomicBool::new(false),
            lent: forward_authorization.then(Mutex::default),
        })
    }

    /// How long an answer may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.sender.timeout
    }

    /// The client's headers as this upstream gets them.
    pub(crate) fn forwarded(&self, client: &HeaderMap) -> HeaderMap {
        let mut headers = headers::forwarded(client);
        if let (Some(lent), Some(value)) = (&self.lent, client.get(AUTHORIZATION)) {
            let mut value = value.clone();
            value.set_sensitive(true);
            *lock(lent) = Some(value.clone());
            headers.insert(AUTHORIZATION, value);
        }
        headers
    }

    fn lent(&self) -> Option<HeaderValue> {
        self.lent.as_ref().and_then(|lent| lock(lent).clone())
    }

    /// Sends a request as given and returns the response with its body still to come.
    pub(crate) async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Reply, Fault> {
        self.sender.send(method, headers, body, None).await
    }

    /// True when the configuration says that the upstream has no sessions.
    pub(crate) fn is_stateless(&self) -> bool {
        self.stateless
    }

    /// What the upstream said of itself; negotiates at the first call.
    pub(crate) async fn handshake(&self) -> Result<Arc<Handshake>, Fault> {
        Ok(self.control().await?.shaken)
    }

    /// The proxy's own conversation; opened at the first call.
    pub(crate) async fn control(&self) -> Result<Control, Fault> {
        if let Some(control) = self.open_control() {
            return Ok(control);
        }
        let _once = self.negotiating.lock().await;
        if let Some(control) = self.open_control() {
            return Ok(control);
        }
        let known = lock(&self.known).clone();
        let control = match self.negotiate(known.clone()).await {
            // What was known may be of an older version of the server.
            Err(f) if known != Known::Nothing && f.kind == FaultKind::Protocol => {
                self.negotiate(Known::Nothing).await?
            }
            other => other?,
        };
        self.memory.keep(&control.shaken, true);
        *lock(&self.known) = match control.shaken.era {
            Era::Modern => Known::Modern,
            Era::Session => Known::Session(control.shaken.version.clone()),
        };
        *lock(&self.control) = Some(control.clone());
        Ok(control)
    }

    fn open_control(&self) -> Option<Control> {
        lock(&self.control).clone()
    }

    async fn negotiate(&self, known: Known) -> Result<Control, Fault> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let exchange = self.exchange(Arc::clone(&seen));
        let shaken = control::negotiate(exchange, known).await?;
        let session_id = lock(&seen).session_id.take();
        Ok(Control { shaken: Arc::new(shaken), session_id })
    }

    /// Posts one message of a handshake; keeps the session id and version that come back.
    fn exchange(&self, seen: Arc<Mutex<Seen>>) -> Exchange {
        let (sender, lent) = (self.sender.clone(), self.lent());
        let no_post = Arc::clone(&self.no_post);
        Arc::new(move |text: String| {
            let (sender, seen, lent) = (sender.clone(), Arc::clone(&seen), lent.clone());
            let no_post = Arc::clone(&no_post);
            Box::pin(async move {
                let Seen { session_id, version } = lock(&seen).clone();
                let (session, version) = (session_id.as_deref(), version.as_deref());
                let headers = own_headers(&text, session, version, lent);
                let body = text.clone().into();
                let sent = sender.send(Method::POST, headers, body, Some(PROBE_TIMEOUT));
                let response = sent.await?;
                if is_initialize(&text) {
                    no_post.store(session::refuses_post(&response), Ordering::Relaxed);
                }
                let session = headers::text(response.headers(), SESSION_ID);
                if let Some(session) = session {
                    lock(&seen).session_id = Some(session.to_owned());
                }
                let Some(id) = request_id(&text) else { return Ok(None) };
                let answer = tokio::time::timeout(PROBE_TIMEOUT, answer_in(response, &id)).await;
                let answer = answer.unwrap_or_else(|_| Err(Fault::silent(PROBE_TIMEOUT)))?;
                let result = Message::parse(answer.as_bytes()).ok().and_then(|m| m.result);
                lock(&seen).version = result.and_then(control::session_version);
                Ok(Some(answer))
            })
        })
    }

    /// Sends a request of our own; opens a new session once when the old one is gone.
    pub(crate) async fn ask(&self, method: &str, params: &Object<'_>) -> Result<String, Fault> {
        let params = params.to_json();
        for _ in 0..2 {
            let control = self.control().await?;
            let text = own_request(control.shaken.era, method, Object::of(Some(&params)));
            let session = control.session_id.as_deref();
            let version = Some(control.shaken.version.as_str());
            let mut headers = own_headers(&text, session, version, self.lent());
            // An answer of this size leaves its connection with a buffer of 512 KB.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
            let sent = self.sender.send(Method::POST, headers, text.into(), Some(OWN_TIMEOUT));
            let response = sent.await?;
            self.streams.store(is_stream(response.headers()), Ordering::Relaxed);
            match refused_session(response, session).await? {
                Ok(response) => return answer_in(response, "0").await,
                Err(_) => self.forget_session(session),
            }
        }
        Err(Fault::new(FaultKind::Http, "the upstream refuses its own sessions"))
    }

    /// Opens one more session, for clients of their own kind.
    ///
    /// # Errors
    /// When the upstream cannot be reached or opens no session.
    pub(crate) async fn open_session(
        &self,
        initialize: &str,
        whom: Whom,
        notices: Notices,
    ) -> Result<Open, Fault> {
        session::open(&self.sender, self.lent(), initialize, whom, notices).await
    }

    /// What sends to this upstream.
    pub(super) fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// True when `initialize` was refused as if nothing were there to take a POST.
    pub(super) fn takes_no_post(&self) -> bool {
        self.no_post.load(Ordering::Relaxed)
    }

    /// Whether this server answers in event streams.
    pub(crate) fn streams(&self) -> bool {
        self.streams.load(Ordering::Relaxed)
    }

    /// Opens a new session at the next request, unless somebody did already.
    pub(crate) fn forget_session(&self, session: Option<&str>) {
        let mut control = lock(&self.control);
        if control.as_ref().is_some_and(|c| c.session_id.as_deref() == session) {
            *control = None;
        }
    }
}

impl Sender {
    /// The same for another URL of the upstream.
    pub(super) fn at(&self, uri: Uri) -> Option<Self> {
        let pool = Arc::new(Pool::new(&uri).ok()?);
        Some(Self { pool, uri, ..self.clone() })
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Sends a request; `own` is the time limit of one of the proxy's own.
    pub(super) async fn send(
        &self,
        method: Method,
        mut headers: HeaderMap,
        body: Bytes,
        own: Option<Duration>,
    ) -> Result<Reply, Fault> {
        self.gate.enter(own.is_some())?;
        let timeout = own.unwrap_or(self.timeout);
        for name in self.headers.keys() {
            headers.remove(name);
        }
        for (name, value) in &self.headers {
            headers.append(name.clone(), value.clone());
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        match self.timer.within(timeout, pin!(self.pool.request(request))).await {
            Some(Ok(response)) => {
                self.gate.saw(response.status(), response.headers(), own.is_some())?;
                Ok(response.map(body::passed))
            }
            Some(Err(Failed::Connect(e))) => Err(self.unreachable(&*e)),
            Some(Err(Failed::Closed)) => {
                Err(Fault::new(FaultKind::Closed, "the upstream closed the connection"))
            }
            None => Err(Fault::silent(timeout)),
        }
    }

    /// Names the host only: a URL may hold secrets in its user info or query.
    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> Fault {
        let mut cause = error;
        while let Some(next) = cause.source() {
            cause = next;
        }
        let host = self.uri.host().unwrap_or_default();
        let port = self.uri.port_u16().map_or_else(String::new, |port| format!(":{port}"));
        Fault::new(
            FaultKind::Refused,
            format!("cannot reach the upstream at {host}{port}: {cause}"),
        )
    }
}

/// Headers of a message of our own; `version` is the negotiated one.
pub(super) fn own_headers(
    text: &str,
    session: Option<&str>,
    version: Option<&str>,
    lent: Option<HeaderValue>,
) -> HeaderMap {
    let mut map = HeaderMap::new();
    map.extend(lent.map(|value| (AUTHORIZATION, value)));
    headers::set_kinds(&mut map);
    headers::set(&mut map, headers::INSTANCE, headers::instance());
    if let Some(session) = session {
        headers::set(&mut map, SESSION_ID, session);
    }
    let Ok(message) = Message::parse(text.as_bytes()) else { return map };
    let named = json::get(&message.meta(), META_VERSION).and_then(json::string);
    if let Some(named) = &named {
        headers::set(&mut map, PROTOCOL_VERSION, named);
        headers::set(&mut map, headers::METHOD, message.method.as_deref().unwrap_or_default());
    } else if let Some(version) = version {
        headers::set(&mut map, PROTOCOL_VERSION, version);
    }
    map
}

fn is_initialize(text: &str) -> bool {
    Message::parse(text.as_bytes()).is_ok_and(|m| m.method.as_deref() == Some("initialize"))
}

fn request_id(text: &str) -> Option<String> {
    Message::parse(text.as_bytes()).ok().and_then(|m| m.id.map(str::to_owned))
}
