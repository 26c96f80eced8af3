//! Telling clients that the listing changed, where the configuration wants it.
//!
//! Invariant: a word of ours stands between two events of the upstream, never inside one; without the
//! setting there is no timer and streams pass untouched.
//! Deliberately absent: what the upstream says of its own list. That passes in any case.

use std::pin::Pin;
use std::sync::{Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use mws_catalog::json;
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::body::{BoxError, Rewritten};
use crate::edit::{Edits, with};
use crate::lock::lock;
use crate::proxy::Proxy;
use crate::reply::{self, Reply};
use crate::rpc::{Era, META_SUBSCRIPTION, Message};
use crate::sse;

/// How often the published files are looked at.
const PERIOD: Duration = Duration::from_secs(1);
/// Words waiting for a client; it needs to hear one alone.
const WAITING: usize = 2;

/// Everybody who wants to hear of changes.
#[derive(Debug, Default)]
pub(crate) struct Notifier(Mutex<Vec<Listener>>);

#[derive(Debug)]
struct Listener {
    events: Sender<Bytes>,
    event: Bytes,
}

impl Notifier {
    /// The event stream, with room for words of ours. `subscription` is the id of the
    /// `subscriptions/listen` that it answers; `None` stands for a session's own stream.
    pub(crate) fn joined(&self, reply: Reply, subscription: Option<&str>) -> Reply {
        if !reply::is_stream(reply.headers()) {
            return reply;
        }
        let meta = subscription.map_or_else(String::new, |id| {
            format!(",\"params\":{{\"_meta\":{{\"{META_SUBSCRIPTION}\":{id}}}}}")
        });
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"{meta}}}"
        );
        let (events, ours) = mpsc::channel(WAITING);
        let mut listeners = lock(&self.0);
        listeners.retain(|listener| !listener.events.is_closed());
        listeners.push(Listener { events, event: sse::message(&text).into() });
        drop(listeners);
        let is_subscription = subscription.is_some();
        // The acknowledgement of a subscription is to name what we add.
        let named = move |event: Option<Vec<u8>>| {
            let event = event?;
            let edited = is_subscription.then(|| acknowledged(&event)).flatten();
            Some(edited.unwrap_or(event))
        };
        reply.map(|inner| Joined { theirs: Rewritten::of(inner, named), ours }.boxed_unsync())
    }

    fn announce(&self) {
        let mut listeners = lock(&self.0);
        listeners.retain(|listener| !listener.events.is_closed());
        for listener in listeners.iter() {
            let _ = listener.events.try_send(listener.event.clone());
        }
    }
}

/// True for a `subscriptions/listen` that asks for changes of the tool list.
pub(crate) fn asks_for_tools(message: &Message<'_>) -> bool {
    let params = message.params();
    let wanted = json::get(params, "notifications").and_then(json::members).unwrap_or_default();
    json::get(&wanted, "toolsListChanged") == Some("true")
}

/// Looks for changes of the listing as long as this proxy is in force. It does not keep it: one that
/// was replaced by another configuration goes, and its listeners hear the other.
pub(crate) async fn watch(proxy: Weak<Proxy>) {
    let mut told = None;
    while let Some(proxy) = proxy.upgrade() {
        let Some(notifier) = &proxy.notifier else { return };
        let listing = proxy.listing(proxy.shelf.last().as_ref());
        let changed = |told: &String| told != listing.result(Era::Session);
        if told.as_ref().is_some_and(changed) {
            notifier.announce();
        }
        told = Some(listing.result(Era::Session).to_owned());
        drop(proxy);
        tokio::time::sleep(PERIOD).await;
    }
}

/// An event stream of the upstream with events of ours in between.
struct Joined<F> {
    theirs: Rewritten<F>,
    ours: Receiver<Bytes>,
}

impl<F: FnMut(Option<Vec<u8>>) -> Option<Vec<u8>> + Unpin> Body for Joined<F> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match Pin::new(&mut self.theirs).poll_frame(cx) {
            // Inside an event of the upstream ours waits.
            Poll::Pending if !self.theirs.is_inside() => match self.ours.poll_recv(cx) {
                Poll::Ready(Some(event)) => Poll::Ready(Some(Ok(Frame::data(event)))),
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            },
            theirs => theirs,
        }
    }
}

/// The acknowledgement of a subscription with `toolsListChanged` in it; `None` for any other event
/// and where it is there.
fn acknowledged(event: &[u8]) -> Option<Vec<u8>> {
    let text = sse::data(event)?;
    let message = Message::parse(text.as_bytes()).ok()?;
    if message.method.as_deref() != Some("notifications/subscriptions/acknowledged") {
        return None;
    }
    let params = message.params.unwrap_or("{}");
    let members = json::members(params)?;
    let granted = json::get(&members, "notifications").unwrap_or("{}");
    let known = json::members(granted)?;
    if json::get(&known, "toolsListChanged") == Some("true") {
        return None;
    }
    let granted = with(granted, &[("toolsListChanged", "true".to_owned())]);
    let mut edits = Edits::of(&text);
    edits.replace(message.params?, with(params, &[("notifications", granted)]));
    Some(sse::with_data(event, &edits.apply()))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn next(reply: &mut Reply) -> Option<String> {
        let frame = reply.body_mut().frame().await?.expect("a frame");
        Some(String::from_utf8_lossy(frame.data_ref().expect("data")).into_owned())
    }

    #[tokio::test]
    async fn ours_stands_between_two_events_and_never_inside_one() {
        let notifier = Notifier::default();
        let (upstream, frames) = mpsc::channel::<String>(8);
        let body = crate::body::Channel::boxed(None, frames, |text: String| Bytes::from(text));
        let mut reply = notifier.joined(reply::stream(body), Some("7"));
        let send = |text: &str| upstream.try_send(text.to_owned()).expect("room");
        send(
            "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{\"notifications\":{\"x\": 1.0}}}\n\ndata: ha",
        );
        let first = next(&mut reply).await.expect("an event");
        assert!(
            first.contains(r#"{"notifications":{"x": 1.0,"toolsListChanged":true}}"#),
            "{first}"
        );
        notifier.announce();
        send("lf\r\n\r\n");
        assert_eq!(next(&mut reply).await.as_deref(), Some("data: half\r\n\r\n"));
        let ours = next(&mut reply).await.expect("our event");
        assert!(ours.contains("tools/list_changed"), "{ours}");
        assert!(ours.contains("\"io.modelcontextprotocol/subscriptionId\":7"), "{ours}");
        drop(upstream);
        assert_eq!(next(&mut reply).await, None);
        notifier.announce();
        drop(reply);
        notifier.announce();
        assert!(lock(&notifier.0).is_empty());
    }
}
