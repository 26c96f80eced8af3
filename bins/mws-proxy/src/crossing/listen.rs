//! `subscriptions/listen`: one stream of what the upstream says to nobody in particular.
//!
//! Invariant: a client hears what it asked for and the upstream offers, nothing before the
//! acknowledgement, and a last word when the stream ends in good order.
//! Deliberately absent: replay; a client that lost its stream asks again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mws_catalog::json;
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::watch;

use super::Client;
use super::lanes::{Lane, ask, offers};
use crate::control::Handshake;
use crate::edit::{Edits, Object, quote};
use crate::fault::Fault;
use crate::forward::Outgoing;
use crate::lock::lock;
use crate::proxy::Proxy;
use crate::reply::{self, Reply};
use crate::rpc::{self, META_SUBSCRIPTION, Message};
use crate::upstream::Conn;

/// Messages waiting for a client; one that is further behind loses its stream.
const BEHIND: usize = 256;
/// The three lists: the notification, the member of the filter, the capability.
const LISTS: [(&str, &str, &str); 3] = [
    ("notifications/tools/list_changed", "toolsListChanged", "tools"),
    ("notifications/prompts/list_changed", "promptsListChanged", "prompts"),
    ("notifications/resources/list_changed", "resourcesListChanged", "resources"),
];
const UPDATED: &str = "notifications/resources/updated";

/// All open streams.
pub(crate) struct Listeners {
    table: Mutex<HashMap<u64, Listener>>,
    next: std::sync::atomic::AtomicU64,
    stopping: watch::Sender<bool>,
}

struct Listener {
    lane: String,
    /// The id of the request, as sent.
    id: String,
    accepted: Accepted,
    sender: Sender<String>,
}

/// What a stream carries.
#[derive(Debug, Clone, Default)]
struct Accepted {
    lists: Vec<&'static str>,
    uris: Vec<String>,
}

/// How many streams want each resource.
#[derive(Default)]
pub(super) struct Subscriptions(tokio::sync::Mutex<HashMap<String, usize>>);

impl Proxy {
    /// Opens a stream.
    pub(super) async fn listen(
        self: &Arc<Self>,
        out: &Outgoing,
        message: &Message<'_>,
    ) -> Result<Reply, Fault> {
        let params = message.params();
        let Some(filter) = json::get(params, "notifications").and_then(json::members) else {
            let why = "params.notifications must say what to listen for";
            return Ok(reply::json(400, rpc::error(Some(&out.id), rpc::INVALID_PARAMS, why)));
        };
        if let Some(odd) = unfit(&filter) {
            let why = format!("params.notifications.{odd} has the wrong type");
            return Ok(reply::json(400, rpc::error(Some(&out.id), rpc::INVALID_PARAMS, &why)));
        }
        let client = Client::of(message, out, &self.passed_on(out));
        let lane = self.crossing.lanes.of(&client.key(), &self.upstream);
        let (conn, shaken) = lane.open(&self.upstream, &client.can.to_json()).await?;
        conn.listen();
        let mut accepted = Accepted::of(&filter, &shaken);
        accepted.uris = lane.subscriptions.add(&conn, accepted.uris).await;
        let (sender, receiver) = mpsc::channel(BEHIND);
        let _ = sender.try_send(acknowledged(&out.id, &accepted));
        let listeners = Arc::clone(&self.crossing.listeners);
        let (lane_key, id) = (lane.key().to_owned(), out.id.clone());
        let listener = Listener { lane: lane_key, id, accepted, sender: sender.clone() };
        let number = listeners.add(listener);
        tokio::spawn(attend(listeners, number, sender, lane, conn));
        Ok(reply::messages(None, receiver))
    }
}

/// The member of a filter that has no meaning.
fn unfit(filter: &[json::Member<'_>]) -> Option<&'static str> {
    let flag = |member| json::get(filter, member).is_none_or(|v| matches!(v, "true" | "false"));
    let mut members = LISTS.into_iter().map(|(_, member, _)| member);
    let texts =
        |v| json::elements(v).is_some_and(|all| all.iter().all(|v| json::string(v).is_some()));
    let uris = "resourceSubscriptions";
    members
        .find(|member| !flag(member))
        .or((!json::get(filter, uris).is_none_or(texts)).then_some(uris))
}

/// Stays with a stream until one side ends it.
async fn attend(
    listeners: Arc<Listeners>,
    number: u64,
    sender: Sender<String>,
    lane: Arc<Lane>,
    conn: Arc<Conn>,
) {
    let mut stopping = listeners.stopping.subscribe();
    let by_us = tokio::select! {
        () = sender.closed() => false,
        () = conn.closed() => true,
        _ = stopping.wait_for(|stopping| *stopping) => true,
    };
    let Some(listener) = lock(&listeners.table).remove(&number) else { return };
    if by_us {
        let _ = sender.try_send(finished(&listener.id));
    }
    drop(sender);
    let uris = listener.accepted.uris.clone();
    drop(listener);
    lane.subscriptions.remove(&conn, uris).await;
}

impl Listeners {
    pub(crate) fn new() -> Arc<Self> {
        let (table, next) = Default::default();
        Arc::new(Self { table, next, stopping: watch::Sender::new(false) })
    }

    /// Tells what came on this lane to those who listen for it.
    pub(crate) fn send(&self, lane: &str, text: &str) {
        let Ok(message) = Message::parse(text.as_bytes()) else { return };
        let Some(method) = message.method.as_deref() else { return };
        let mut table = lock(&self.table);
        table.retain(|_, listener| {
            let wants = listener.lane == lane && listener.accepted.wants(method, &message);
            !wants || listener.sender.try_send(stamped(&message, &listener.id)).is_ok()
        });
    }

    /// Ends all streams in good order.
    pub(crate) fn close(&self) {
        let _ = self.stopping.send_replace(true);
    }

    fn add(&self, listener: Listener) -> u64 {
        let number = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        lock(&self.table).insert(number, listener);
        number
    }
}

impl Accepted {
    /// What of the filter the upstream offers.
    fn of(filter: &[json::Member<'_>], shaken: &Handshake) -> Self {
        let lists = LISTS.into_iter().filter(|(_, member, capability)| {
            json::get(filter, member) == Some("true")
                && offers(shaken, capability, Some("listChanged"))
        });
        let mut uris = Vec::new();
        if offers(shaken, "resources", Some("subscribe")) {
            let asked = json::get(filter, "resourceSubscriptions").and_then(json::elements);
            let asked = asked.unwrap_or_default().into_iter().filter_map(json::string);
            uris.extend(asked.map(std::borrow::Cow::into_owned));
            uris.sort();
            uris.dedup();
        }
        Self { lists: lists.map(|(method, ..)| method).collect(), uris }
    }

    fn wants(&self, method: &str, message: &Message<'_>) -> bool {
        if method != UPDATED {
            return self.lists.contains(&method);
        }
        let uri = json::get(message.params(), "uri").and_then(json::string);
        uri.is_some_and(|uri| self.uris.iter().any(|own| *own == *uri))
    }

    fn to_json(&self) -> String {
        let mut filter = Object::of(None);
        for (method, member, _) in LISTS {
            if self.lists.contains(&method) {
                filter.set(member, "true");
            }
        }
        if !self.uris.is_empty() {
            let uris: Vec<_> = self.uris.iter().map(|uri| quote(uri)).collect();
            filter.set("resourceSubscriptions", format!("[{}]", uris.join(",")));
        }
        filter.to_json()
    }
}

impl Subscriptions {
    /// Subscribes to what nobody was subscribed to; those that the upstream granted.
    async fn add(&self, conn: &Conn, uris: Vec<String>) -> Vec<String> {
        let mut table = self.0.lock().await;
        let mut granted = Vec::new();
        for uri in uris {
            let count = table.get(&uri).copied().unwrap_or(0);
            if count > 0 || ask(conn, "resources/subscribe", of_uri(&uri)).await {
                table.insert(uri.clone(), count + 1);
                granted.push(uri);
            }
        }
        granted
    }

    async fn remove(&self, conn: &Conn, uris: Vec<String>) {
        // A new session begins with a new count.
        if !conn.is_open() {
            return;
        }
        let mut table = self.0.lock().await;
        for uri in uris {
            let Some(count) = table.get_mut(&uri) else { continue };
            *count -= 1;
            if *count == 0 {
                table.remove(&uri);
                ask(conn, "resources/unsubscribe", of_uri(&uri)).await;
            }
        }
    }

    /// The session is a new one.
    pub(super) async fn clear(&self) {
        self.0.lock().await.clear();
    }
}

fn of_uri(uri: &str) -> Object<'static> {
    let mut params = Object::of(None);
    params.set("uri", quote(uri));
    params
}

fn acknowledged(id: &str, accepted: &Accepted) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\
         \"params\":{{\"_meta\":{{\"{META_SUBSCRIPTION}\":{id}}},\"notifications\":{}}}}}",
        accepted.to_json()
    )
}

fn finished(id: &str) -> String {
    let result =
        format!("{{\"resultType\":\"complete\",\"_meta\":{{\"{META_SUBSCRIPTION}\":{id}}}}}");
    rpc::result(id, &result)
}

/// The notification with the stream that it belongs to.
fn stamped(message: &Message<'_>, id: &str) -> String {
    let mut params = Object::of(message.params);
    let meta_text = params.get("_meta").map(str::to_owned);
    let mut meta = Object::of(meta_text.as_deref());
    meta.set(META_SUBSCRIPTION, id.to_owned());
    params.set("_meta", meta.to_json());
    if let Some(old) = message.params {
        let mut edits = Edits::of(message.text);
        edits.replace(old, params.to_json());
        return edits.apply();
    }
    let mut whole = Object::of(Some(message.text));
    whole.set("params", params.to_json());
    whole.to_json()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_is_stamped_and_keeps_its_other_bytes() {
        for (text, want) in [
            (
                r#"{"jsonrpc":"2.0","method":"m", "params":{"uri":"a://b","n":1e2,"_meta":{"k":1.0}}}"#,
                r#"{"jsonrpc":"2.0","method":"m", "params":{"uri":"a://b","n":1e2,"_meta":{"k":1.0,"io.modelcontextprotocol/subscriptionId":"x"}}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"m"}"#,
                r#"{"jsonrpc":"2.0","method":"m","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"x"}}}"#,
            ),
        ] {
            let message = Message::parse(text.as_bytes()).expect("a message");
            assert_eq!(stamped(&message, "\"x\""), want);
        }
    }
}
