//! What is done with each message: one `match` on the method.
//!
//! Invariant: only `tools/list`, the two meta-tools and the handshake are looked into; every other
//! method passes as it is. A request is answered whatever the upstream does.
//! Deliberately absent: HTTP rules ([`crate::http`]) and the ways to the upstream ([`crate::forward`]).

use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use hyper::{HeaderMap, StatusCode};
use mws_catalog::json;
use mws_config::ToolRules;
use mws_event::{Event, Kind, Record, Timestamp, Via};
use mws_state::{Recorder, Watched, WatchedState, now};

use crate::advice::Advice;
use crate::asked::Asked;
use crate::call::OpenCall;
use crate::caller::Caller;
use crate::catalog::{Shelf, Tools};
use crate::coerce::coerced;
use crate::crossing::Crossing;
use crate::edit::{Edits, Object, quote};
use crate::finder::Finder;
use crate::forward::Outgoing;
use crate::headers;
use crate::listing::{Listing, Rules};
use crate::lock::lock;
use crate::meta;
use crate::notify::{self, Notifier};
use crate::ranks::Ranks;
use crate::reply::{self, Reply};
use crate::rpc::{self, Era, Message};
use crate::sessions::Sessions;
use crate::stateless;
use crate::streams::Streams;
use crate::upstream::{Link, Upstream};
use crate::working_set::{self, WorkingSet};

/// Everything a request needs.
pub(crate) struct Proxy {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) shelf: Arc<Shelf>,
    /// Whom the upstream's process tells that its tools changed.
    pub(crate) told: Arc<Mutex<Weak<Shelf>>>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) ranks: Ranks,
    pub(crate) streams: Arc<Streams>,
    pub(crate) crossing: Arc<Crossing>,
    pub(crate) finder: Finder,
    pub(crate) rules: Rules,
    /// Which tools exist for clients.
    pub(crate) tools: ToolRules,
    /// There when clients are to hear of a changed listing.
    pub(crate) notifier: Option<Arc<Notifier>>,
    pub(crate) working_set: Mutex<Watched<WorkingSet>>,
    pub(crate) rendered: Mutex<Option<Rendered>>,
}

/// A listing and what it was rendered from.
pub(crate) struct Rendered {
    tools: Option<Arc<Tools>>,
    working_set: Option<Arc<WorkingSet>>,
    listing: Arc<Listing>,
}

impl Proxy {
    /// Answers one body; `conn` names the connection where no session id does.
    pub(crate) async fn post(
        self: &Arc<Self>,
        headers: HeaderMap,
        body: Bytes,
        conn: Option<&str>,
    ) -> Reply {
        if body.trim_ascii_start().first() == Some(&b'[') {
            return self.batch(headers, &body, conn).await;
        }
        self.single(headers, body, conn).await
    }

    /// Answers one message.
    pub(crate) async fn single(
        self: &Arc<Self>,
        headers: HeaderMap,
        body: Bytes,
        conn: Option<&str>,
    ) -> Reply {
        let ts = now();
        let message = match Message::parse_strictly(&body) {
            Ok(message) => message,
            Err(why) => return reply::json(400, rpc::error(None, rpc::INVALID_REQUEST, &why)),
        };
        if let Err(why) = message.check() {
            return reply::json(400, rpc::error(message.id, rpc::INVALID_REQUEST, why));
        }
        let mut caller = Caller::of(&headers, &message, |id| self.sessions.client(id));
        if let Some(conn) = conn {
            caller.conn = Some(conn.to_owned());
        }
        if caller.session_id.as_deref().is_some_and(|id| self.sessions.has_ended(id)) {
            return crate::http::refuse(StatusCode::NOT_FOUND, "this session has ended");
        }
        if let Err(why) = stateless::mirrors(&headers, &message, &caller) {
            return reply::json(400, rpc::error(message.id, rpc::HEADER_MISMATCH, &why));
        }
        match (message.method.as_deref(), message.id) {
            (Some("tools/list"), Some(id)) => self.list(&headers, &message, id, &caller).await,
            (Some("tools/call"), Some(id)) => self.call(headers, &message, id, caller, ts).await,
            (Some("initialize"), Some(_)) if caller.era == Era::Session => {
                Box::pin(self.initialize(headers, &message, caller)).await
            }
            (Some("server/discover"), Some(id)) => {
                Box::pin(self.discover(headers, &message, id, caller)).await
            }
            (Some("subscriptions/listen"), Some(id)) if notify::asks_for_tools(&message) => {
                let reply = self.forward(Outgoing::of(&message, headers, caller), None).await;
                match &self.notifier {
                    Some(notifier) => notifier.joined(reply, Some(id)),
                    None => reply,
                }
            }
            (Some(_), Some(_)) => self.forward(Outgoing::of(&message, headers, caller), None).await,
            (Some(_), None) | (None, _) => self.tell(headers, &message, &caller).await,
        }
    }

    async fn list(
        &self,
        headers: &HeaderMap,
        message: &Message<'_>,
        id: &str,
        caller: &Caller,
    ) -> Reply {
        if let Some(refusal) = stateless::refusal(message, caller) {
            return refusal;
        }
        let tools = self.shelf.get(caller.era).await;
        let listing = self.listing(tools.as_ref());
        self.record(Kind::List {
            listed: listing.len(),
            catalog: tools.as_ref().map_or(0, |t| t.catalog.len() as u64),
            bytes: listing.bytes,
            catalog_bytes: tools.as_ref().map_or(0, |t| t.bytes),
            client: caller.client.clone(),
        });
        let own = caller.session_id.as_deref().and_then(|id| self.sessions.own(id));
        let result = match own {
            Some(own) if own.talk.get().is_some() => listing.strict_result(),
            _ => listing.result(caller.era),
        };
        let text = rpc::result(id, result);
        if self.upstream.streams() && reply::takes_streams(headers) {
            return reply::one_message(text);
        }
        reply::json(200, text)
    }

    async fn call(
        self: &Arc<Self>,
        mut headers: HeaderMap,
        message: &Message<'_>,
        id: &str,
        caller: Caller,
        ts: Timestamp,
    ) -> Reply {
        let params = message.params();
        if is_ambiguous(params) {
            let why = "name and arguments may stand once, and are written so";
            return reply::json(400, rpc::error(Some(id), rpc::INVALID_PARAMS, why));
        }
        let name = json::get(params, "name").and_then(json::string).unwrap_or_default();
        let arguments = json::get(params, "arguments");
        if matches!(name.as_ref(), "search_tools" | "call_tool")
            && let Some(refusal) = stateless::refusal(message, &caller)
        {
            return refusal;
        }
        match name.as_ref() {
            "search_tools" => self.search(id, &caller, arguments).await,
            "call_tool" => match meta::inner(arguments) {
                Ok(inner) if inner.name == "search_tools" && !self.has_tool(&inner.name) => {
                    self.search(id, &caller, inner.arguments.as_deref()).await
                }
                Ok(inner) => {
                    if let Some(why) = self.unknown(&inner.name, caller.era).await {
                        return tool_error(id, &why, caller.era);
                    }
                    if let Some(why) = self.blocked(&inner.name, caller.era).await {
                        return tool_error(id, &why, caller.era);
                    }
                    let call = self.open_call(ts, &inner.name, Via::CallTool, &caller);
                    let (out, advice) = self.unwrapped(headers, message, inner, caller);
                    let reply = self.forward(out, Some(call)).await;
                    match advice {
                        Some(advice) => advice.given_with(reply, id).await,
                        None => reply,
                    }
                }
                Err(why) => tool_error(id, &why, caller.era),
            },
            name if !self.tools.allows(name) => {
                let why = format!("Unknown tool: {name} (the configuration of the proxy, tools)");
                reply::json(200, rpc::error(Some(id), rpc::INVALID_PARAMS, &why))
            }
            "" => self.forward(Outgoing::of(message, headers, caller), None).await,
            name => {
                if let Some(why) = self.blocked(name, caller.era).await {
                    return tool_error(id, &why, caller.era);
                }
                let listed = self.last_listing().names.contains(name);
                let via = if listed { Via::Listed } else { Via::Direct };
                if via == Via::Direct && caller.era == Era::Modern {
                    self.add_params(&mut headers, name, arguments);
                }
                let call = self.open_call(ts, name, via, &caller);
                self.forward(Outgoing::of(message, headers, caller), Some(call)).await
            }
        }
    }

    /// Adds the headers that a client cannot know of, as the tool is not in its list. One that has
    /// the tool is to send them itself, and is refused by the upstream where it does not.
    fn add_params(&self, headers: &mut HeaderMap, tool: &str, arguments: Option<&str>) {
        let tools = self.shelf.last();
        let tool = tools.as_ref().and_then(|tools| tools.catalog.get(tool));
        headers::add_params(headers, tool.and_then(mws_catalog::Tool::input_schema), arguments);
    }

    /// The request that `call_tool` stands for.
    fn unwrapped(
        &self,
        mut headers: HeaderMap,
        message: &Message<'_>,
        inner: meta::Inner,
        caller: Caller,
    ) -> (Outgoing, Option<Advice>) {
        let tools = self.shelf.last();
        let tool = tools.as_ref().and_then(|tools| tools.catalog.get(&inner.name));
        let schema = tool.and_then(mws_catalog::Tool::input_schema);
        let arguments = match (inner.arguments.as_deref(), schema) {
            (Some(arguments), Some(schema)) => coerced(arguments, schema),
            (arguments, _) => arguments.unwrap_or("{}").to_owned(),
        };
        if caller.era == Era::Modern {
            headers::mirror_call(&mut headers, &inner.name, schema, Some(&arguments));
        }
        let params_text = message.params.unwrap_or("{}");
        let mut params = Object::of(Some(params_text));
        params.set("name", quote(&inner.name));
        params.set("arguments", arguments.as_str());
        let mut edits = Edits::of(message.text);
        edits.replace(params_text, params.to_json());
        let out = Outgoing { text: edits.apply(), ..Outgoing::of(message, headers, caller) };
        (out, tools.map(|tools| Advice { tools, tool: inner.name, arguments }))
    }

    async fn search(&self, id: &str, caller: &Caller, arguments: Option<&str>) -> Reply {
        let asked = match Asked::read(arguments) {
            Ok(asked) => asked,
            Err(why) => return tool_error(id, &why, caller.era),
        };
        let started = std::time::Instant::now();
        let Some(tools) = self.shelf.get(caller.era).await else {
            let why = "the upstream has not given its list of tools yet; try again in a moment";
            return tool_error(id, why, caller.era);
        };
        let listing = self.listing(Some(&tools));
        let listed = |name: &str| listing.names.contains(name);
        let found = self.finder.search(&tools, &asked.request(), &listed).await;
        self.ranks.keep(caller, &found.results);
        let text = found.to_json();
        self.record(Kind::Search {
            bytes: text.len() as u64,
            results: found.results.len() as u64,
            client: caller.client.clone(),
            kind: Some(found.kind.as_str().to_owned()),
            ms: u64::try_from(started.elapsed().as_millis()).ok(),
            session: caller.session.clone(),
            conn: caller.conn.clone(),
        });
        reply::json(200, rpc::result(id, &rpc::tool_result(&text, false, caller.era)))
    }

    /// What to say of a name that the upstream does not have. Without a list nothing is known, and
    /// an older list is fetched again first: the tool may be new.
    async fn unknown(self: &Arc<Self>, name: &str, era: Era) -> Option<String> {
        if !self.tools.allows(name) {
            return Some(format!(
                "There is no tool {name:?} here; the configuration leaves it out."
            ));
        }
        self.shelf.get(era).await?;
        if self.has_tool(name) || self.shelf.renew(era).await.is_err() || self.has_tool(name) {
            return None;
        }
        let tools = self.shelf.last()?;
        let known = tools.catalog.tools().iter().map(mws_catalog::Tool::name);
        let near = mws_config::nearest_names(name, known, 3);
        let hint = if near.is_empty() {
            String::new()
        } else {
            format!(" The nearest names: {}.", near.join(", "))
        };
        Some(format!("There is no tool {name:?}.{hint} search_tools finds tools by what they do."))
    }

    fn has_tool(&self, name: &str) -> bool {
        self.shelf.last().is_some_and(|tools| tools.catalog.get(name).is_some())
    }

    /// The listing that clients saw last: a call looks at no file.
    fn last_listing(&self) -> Arc<Listing> {
        let seen = lock(&self.rendered).as_ref().map(|rendered| Arc::clone(&rendered.listing));
        seen.unwrap_or_else(|| self.listing(self.shelf.last().as_ref()))
    }

    /// The listing for this catalog and the working set in force; rendered when one of them changed.
    pub(crate) fn listing(&self, tools: Option<&Arc<Tools>>) -> Arc<Listing> {
        let working_set = self.working_set();
        let mut rendered = lock(&self.rendered);
        let same = |a: Option<&Arc<Tools>>| match (a, tools) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        if let Some(r) = rendered.as_ref()
            && same(r.tools.as_ref())
            && r.working_set == working_set
        {
            return Arc::clone(&r.listing);
        }
        let tools_now = tools.map(Arc::as_ref);
        let listing = Arc::new(Listing::render(tools_now, working_set.as_deref(), &self.rules));
        self.tell_changes(rendered.as_ref().map(|r| r.listing.as_ref()), &listing);
        let (tools, kept) = (tools.cloned(), Arc::clone(&listing));
        *rendered = Some(Rendered { tools, working_set, listing: kept });
        listing
    }

    /// What is said of the search in the server's instructions; empty when that is switched off.
    pub(crate) fn instructions(&self) -> String {
        if !self.rules.instructions {
            return String::new();
        }
        self.listing(self.shelf.last().as_ref()).instructions.clone()
    }

    fn working_set(&self) -> Option<Arc<WorkingSet>> {
        let mut watched = lock(&self.working_set);
        if let WatchedState::Rejected(why) = watched.refresh(working_set::parse) {
            tracing::warn!(
                "working-set.json is not used: {why}; the last good one stays in force."
            );
            self.record(Kind::ArtifactRejected { artifact: "working-set".into() });
        }
        watched.get().cloned()
    }

    /// Ends the streams that would never end by themselves.
    pub(crate) fn hang_up(&self) {
        self.streams.close();
        self.let_go();
    }

    /// Ends those of them that need this very upstream.
    pub(crate) fn let_go(&self) {
        self.crossing.listeners.close();
        if let Link::Stdio(stdio) = self.upstream.link() {
            stdio.owns.hang_up();
        }
    }

    fn open_call(&self, ts: Timestamp, tool: &str, via: Via, caller: &Caller) -> OpenCall {
        OpenCall::start(&self.recorder, ts, tool, via, caller, self.ranks.of(caller, tool))
    }

    pub(crate) fn record(&self, kind: Kind) {
        self.recorder.record(Event::Record(Record::new(now(), kind)));
    }
}

/// True when another reader could take another tool or other arguments than the proxy does: a key
/// that stands twice, or in other letters, which some libraries read all the same.
fn is_ambiguous(params: &[json::Member<'_>]) -> bool {
    ["name", "arguments"].into_iter().any(|key| {
        let mut alike = params.iter().filter(|m| m.key.eq_ignore_ascii_case(key));
        alike.next().is_some_and(|first| first.key != key || alike.next().is_some())
    })
}

fn tool_error(id: &str, why: &str, era: Era) -> Reply {
    reply::json(200, rpc::result(id, &rpc::tool_result(why, true, era)))
}

/// The status for a notification or an answer that was taken in.
pub(crate) fn accepted() -> Reply {
    reply::empty(StatusCode::ACCEPTED)
}
