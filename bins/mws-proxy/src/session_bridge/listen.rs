//! Listening to a stateless upstream for one session: what changes there reaches the client as the
//! notifications of the session protocol.
//!
//! Invariant: one `subscriptions/listen` a session; when the subscribed URIs change, the next one is
//! open before the last one is closed, so nothing is missed.
//! Deliberately absent: notifications of a request; they come with its answer.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::HeaderMap;
use mws_catalog::json;
use tokio::sync::watch;

use crate::edit::{Object, quote};
use crate::fault::Fault;
use crate::lock::lock;
use crate::proxy::Proxy;
use crate::rpc::{META_SUBSCRIPTION, Message};
use crate::session_bridge::leg::Leg;
use crate::session_bridge::talk::Talk;
use crate::session_bridge::wire;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long a session is listened for that has no stream open.
const GRACE: Duration = Duration::from_secs(30);

/// What the upstream said to the last request to listen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard {
    /// The URIs it was asked for.
    pub(crate) asked: BTreeSet<String>,
    /// The URIs it agreed to, where it said so.
    pub(crate) granted: Option<BTreeSet<String>>,
    /// Its error, as JSON text.
    pub(crate) refusal: Option<String>,
}

/// Starts to listen for a session, unless that goes on already.
pub(crate) fn ensure(proxy: &Arc<Proxy>, talk: &Arc<Talk>) {
    let mut listener = lock(&talk.listener);
    if listener.as_ref().is_none_or(tokio::task::AbortHandle::is_finished) {
        let uris = talk.uris.subscribe();
        let listening =
            Listening { proxy: Arc::clone(proxy), talk: Arc::downgrade(talk), uris, silent: false };
        *listener = Some(tokio::spawn(listening.run()).abort_handle());
    }
}

struct Listening {
    proxy: Arc<Proxy>,
    /// The session ends its listener; the listener must not keep the session.
    talk: Weak<Talk>,
    uris: watch::Receiver<BTreeSet<String>>,
    /// There was no stream when last looked.
    silent: bool,
}

/// Why listening ended.
enum End {
    /// The upstream cut it off.
    Lost,
    /// The upstream does not have it, or nobody hears it.
    ForGood,
}

/// An open `subscriptions/listen`.
struct Ear {
    leg: Leg,
    id: String,
    asked: BTreeSet<String>,
}

impl Listening {
    async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let started = tokio::time::Instant::now();
            if matches!(self.listen().await, End::ForGood) {
                return;
            }
            if started.elapsed() > LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn listen(&mut self) -> End {
        let Ok(mut ear) = self.open().await else { return End::Lost };
        let mut next: Option<Ear> = None;
        let mut look = tokio::time::interval_at(tokio::time::Instant::now() + GRACE, GRACE);
        loop {
            let (heard, is_next) = tokio::select! {
                heard = ear.leg.next() => (heard, false),
                heard = hear(&mut next) => (heard, true),
                changed = self.uris.changed() => {
                    if changed.is_err() {
                        return End::ForGood;
                    }
                    next = self.open().await.ok().or(next);
                    continue;
                }
                _ = look.tick() => {
                    if self.is_unheard() {
                        return End::ForGood;
                    }
                    continue;
                }
            };
            if is_next && let Some(newer) = next.take() {
                ear = newer;
            } else if heard.is_err()
                && let Some(newer) = next.take()
            {
                ear = newer;
                continue;
            }
            let Ok(text) = heard else { return End::Lost };
            if let Some(end) = self.take_in(&text, &ear) {
                return end;
            }
        }
    }

    /// Asks the upstream for everything that the session protocol tells by itself.
    async fn open(&mut self) -> Result<Ear, Fault> {
        let asked = self.uris.borrow_and_update().clone();
        let id = quote(&format!("mws-listen-{:016x}", mws_state::random_u64()));
        let mut filter = Object::of(None);
        for list in ["toolsListChanged", "promptsListChanged", "resourcesListChanged"] {
            filter.set(list, "true");
        }
        if !asked.is_empty() {
            let uris: Vec<_> = asked.iter().map(|uri| quote(uri)).collect();
            filter.set("resourceSubscriptions", format!("[{}]", uris.join(",")));
        }
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"subscriptions/listen\",\
             \"params\":{{\"notifications\":{}}}}}",
            filter.to_json()
        );
        let gone = || Fault::new(crate::fault::FaultKind::Closed, "the session has ended");
        let client = self.talk.upgrade().ok_or_else(gone)?.client.clone();
        let message = Message::parse(text.as_bytes()).ok();
        let request = message.and_then(|message| wire::to_stateless(&message, &client, None));
        let request = request.ok_or_else(gone)?;
        let leg = Leg::send(&self.proxy, &request, &HeaderMap::new(), "own").await?;
        Ok(Ear { leg, id, asked })
    }

    /// Passes a notification on; the end, when the upstream ends it.
    fn take_in(&self, text: &str, ear: &Ear) -> Option<End> {
        let message = Message::parse(text.as_bytes()).ok()?;
        let Some(talk) = self.talk.upgrade() else { return Some(End::ForGood) };
        if crate::sse::answers(text, &ear.id) {
            let refusal = message.error?.to_owned();
            let refusal = Some(refusal);
            talk.heard.send_replace(Heard { asked: ear.asked.clone(), granted: None, refusal });
            return Some(End::ForGood);
        }
        match message.method.as_deref()? {
            "notifications/subscriptions/acknowledged" => {
                let granted = granted(&message);
                talk.heard.send_replace(Heard { asked: ear.asked.clone(), granted, refusal: None });
                return None;
            }
            "notifications/tools/list_changed" => self.proxy.shelf.mark_stale(),
            _ => {}
        }
        // On a pipe the upstream must mark what belongs to the subscription; over HTTP the stream does.
        let text =
            if text.contains(META_SUBSCRIPTION) { wire::unmarked(text) } else { text.into() };
        talk.outbox.send(&text);
        None
    }

    /// True when there has been no stream for a while.
    fn is_unheard(&mut self) -> bool {
        let is_open = self.talk.upgrade().is_some_and(|talk| talk.outbox.is_open());
        let was_silent = std::mem::replace(&mut self.silent, !is_open);
        was_silent && !is_open
    }
}

async fn hear(next: &mut Option<Ear>) -> Result<String, Fault> {
    match next {
        Some(ear) => ear.leg.next().await,
        None => std::future::pending().await,
    }
}

/// The URIs in an acknowledgement; `None` when it does not say what was agreed to.
fn granted(message: &Message<'_>) -> Option<BTreeSet<String>> {
    let params = message.params();
    let agreed = json::get(params, "notifications").and_then(json::members)?;
    let uris = json::get(&agreed, "resourceSubscriptions").and_then(json::elements);
    let uris = uris.unwrap_or_default().into_iter().filter_map(json::string);
    Some(uris.map(std::borrow::Cow::into_owned).collect())
}
