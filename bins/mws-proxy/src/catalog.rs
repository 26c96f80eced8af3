//! The upstream's tool list: fetched, kept, refreshed behind the requests.
//!
//! Invariant: a list that was good once is served until a better one is there; one refresh runs at
//! a time; a failed one rests for 1 s, doubled with each further failure up to 300 s.
//! Deliberately absent: which tools are listed; see [`crate::listing`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use mws_catalog::{Catalog, META_TOOLS, json};
use mws_config::ToolRules;
use mws_event::{Event, Kind, Record};
use mws_state::{ReadError, Recorder, StateDir, now, publish_parts_if_changed, read_file};
use serde_json::value::RawValue;

use crate::edit::{Object, quote};
use crate::fault::{Fault, FaultKind};
use crate::lock::lock;
use crate::rpc::{Era, Message};
use crate::upstream::Upstream;

/// How long a list is fresh.
const FRESH: Duration = Duration::from_secs(60);
/// How long a client waits when there is no list at all.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a refresh behind the requests may take.
const BACKGROUND: Duration = Duration::from_secs(30);
/// How long a failed refresh rests, doubled with each further one up to the longest.
const REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(300);
/// How often a name that is not in the list makes it be fetched.
const MOMENT: Duration = Duration::from_secs(5);
const FILE_MAX: u64 = 64 * 1024 * 1024;
/// More than a server with one tool a page and [`TOOLS`] tools would need is a loop.
const PAGES: usize = 20_000;
const TOOLS: usize = 20_000;

/// A tool list, and the rest of the result it came in.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) catalog: Catalog,
    /// Hash of the list.
    pub(crate) hash: u64,
    /// Size of all tools in bytes.
    pub(crate) bytes: u64,
    /// The result without `tools` and `nextCursor`, as sent; empty when it came from disk.
    pub(crate) rest: String,
}

impl Tools {
    pub(crate) fn new(catalog: Catalog, rest: String) -> Self {
        let hash = catalog.hash();
        let bytes = catalog.tools().iter().map(|tool| tool.raw().len() as u64).sum();
        Self { catalog, hash, bytes, rest }
    }

    /// Without the tools that do not exist for clients: not listed, not found, not called, and not
    /// written down.
    fn allowed(self, rules: &ToolRules) -> Self {
        if !rules.restrict() {
            return self;
        }
        let raw = self.catalog.tools().iter().filter(|tool| rules.allows(tool.name()));
        let raw =
            raw.filter_map(|tool| RawValue::from_string(tool.raw().to_owned()).ok()).collect();
        Self::new(Catalog::from_tools(raw).0, self.rest)
    }
}

/// Where the tool list is kept.
pub(crate) struct Shelf {
    upstream: Arc<Upstream>,
    recorder: Arc<Recorder>,
    state: StateDir,
    rules: ToolRules,
    kept: Mutex<Kept>,
    /// Held while fetching.
    fetching: tokio::sync::Mutex<()>,
    /// The proxy is stopping: a refresh that is cut off is no failure.
    closed: AtomicBool,
}

#[derive(Default)]
struct Kept {
    tools: Option<Arc<Tools>>,
    fetched: Option<Instant>,
    failed: Option<Instant>,
    /// Refreshes that failed in a row, and how long the last one rests.
    failures: u32,
    rest: Duration,
}

impl Shelf {
    /// Starts with what `catalog.json` holds.
    pub(crate) fn new(
        upstream: Arc<Upstream>,
        recorder: Arc<Recorder>,
        state: StateDir,
        rules: ToolRules,
    ) -> Self {
        let tools = match read_file(&state.catalog(), FILE_MAX) {
            Ok((bytes, _)) => match Catalog::parse(&bytes) {
                Ok((catalog, _)) => Some(Tools::new(catalog, String::new()))
                    .filter(|tools| upstream.memory.owns_catalog(tools.hash))
                    .map(|tools| Arc::new(tools.allowed(&rules))),
                Err(e) => {
                    tracing::warn!("{} is not used: {e}.", state.catalog().display());
                    let kind = Kind::ArtifactRejected { artifact: "catalog".into() };
                    recorder.record(Event::Record(Record::new(now(), kind)));
                    None
                }
            },
            Err(ReadError::Missing) => None,
            Err(e) => {
                tracing::warn!("{} is not used: {e}.", state.catalog().display());
                None
            }
        };
        let kept = Mutex::new(Kept { tools, ..Kept::default() });
        let (fetching, closed) = Default::default();
        Self { upstream, recorder, state, rules, kept, fetching, closed }
    }

    /// The best list there is: at once when there is any, within 5 s when there is none yet.
    pub(crate) async fn get(self: &Arc<Self>, prefer: Era) -> Option<Arc<Tools>> {
        let (tools, due) = {
            let kept = self.kept();
            let fresh = kept.fetched.is_some_and(|at| at.elapsed() < FRESH);
            let rests = kept.failed.is_some_and(|at| at.elapsed() < kept.rest);
            (kept.tools.clone(), !fresh && !rests)
        };
        if tools.is_some() {
            if due {
                self.refresh_behind(prefer);
            }
            return tools;
        }
        if due {
            let _ = self.refresh(prefer, PATIENCE).await;
        }
        self.kept().tools.clone()
    }

    /// What is kept, whatever its age.
    pub(crate) fn last(&self) -> Option<Arc<Tools>> {
        self.kept().tools.clone()
    }

    /// The upstream says that its list changed.
    pub(crate) fn mark_stale(&self) {
        let mut kept = self.kept();
        kept.fetched = None;
        kept.failed = None;
    }

    /// The upstream answered a request: it can list, too.
    pub(crate) fn upstream_answered(&self) {
        let mut kept = self.kept();
        let rests = kept.failed.is_some_and(|at| at.elapsed() > MOMENT);
        if rests || (kept.tools.is_none() && kept.failures < 2) {
            (kept.fetched, kept.failed) = (None, None);
        }
    }

    /// Fetches the list again unless that was done a moment ago.
    ///
    /// # Errors
    /// As [`Shelf::refresh`].
    pub(crate) async fn renew(&self, prefer: Era) -> Result<(), Fault> {
        if self.kept().fetched.is_some_and(|at| at.elapsed() < MOMENT) {
            return Ok(());
        }
        self.refresh(prefer, PATIENCE).await
    }

    /// Fetches the list now, unless somebody else just did.
    ///
    /// # Errors
    /// When the upstream does not give a list in time.
    pub(crate) async fn refresh(&self, prefer: Era, patience: Duration) -> Result<(), Fault> {
        let asked = Instant::now();
        let fetch = async {
            let _once = self.fetching.lock().await;
            if self.kept().fetched.is_some_and(|at| at > asked) {
                return Ok(());
            }
            let tools = fetch(&self.upstream, prefer).await?;
            self.keep(tools.allowed(&self.rules));
            Ok(())
        };
        let fetched = tokio::time::timeout(patience, fetch).await.unwrap_or_else(|_| {
            let after = patience.as_secs();
            Err(Fault::new(FaultKind::Timeout, format!("no tool list in {after} s")))
        });
        if let Err(fault) = &fetched {
            self.failed(fault, asked);
        }
        fetched
    }

    fn refresh_behind(self: &Arc<Self>, prefer: Era) {
        if self.fetching.try_lock().is_ok() {
            let shelf = Arc::clone(self);
            tokio::spawn(async move {
                let _ = shelf.refresh(prefer, BACKGROUND).await;
            });
        }
    }

    /// Stops complaining; called when the upstream is about to be stopped.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn failed(&self, fault: &Fault, asked: Instant) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        tracing::warn!("Cannot list the upstream's tools: {fault}.");
        {
            let mut kept = self.kept();
            kept.failed = Some(Instant::now());
            kept.rest = rest(kept.failures, mws_state::random_u64());
            kept.failures += 1;
        }
        let ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
        let kind = Kind::UpstreamFailed { op: "list".into(), kind: fault.kind.word().into(), ms };
        self.recorder.record(Event::Record(Record::new(now(), kind)));
    }

    fn keep(&self, tools: Tools) {
        let tools = Arc::new(tools);
        let before = {
            let mut kept = self.kept();
            kept.fetched = Some(Instant::now());
            (kept.failed, kept.failures) = (None, 0);
            kept.tools.replace(Arc::clone(&tools))
        };
        if before.as_ref().is_none_or(|before| before.hash != tools.hash) {
            warn_of_shadowed(&tools.catalog);
            let kind = changed(before.as_deref(), &tools);
            self.recorder.record(Event::Record(Record::new(now(), kind)));
        }
        // Also when nothing changed: somebody may have deleted or damaged the file.
        let (path, memory) = (self.state.catalog(), Arc::clone(&self.upstream.memory));
        tokio::task::spawn_blocking(move || {
            memory.keep_catalog(tools.hash);
            if let Err(e) = publish_parts_if_changed(&path, &tools.catalog.json_parts()) {
                tracing::warn!("Cannot keep the upstream's tool list: {e}.");
            }
        });
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }
}

/// The rest after so many failures; spread, so that many proxies do not come at once.
fn rest(failures: u32, random: u64) -> Duration {
    let doubled = (REST * 2u32.saturating_pow(failures.min(16))).min(LONGEST_REST);
    doubled + doubled.mul_f64((random % 1000) as f64 / 4000.0)
}

/// A tool with the name of a meta-tool is not called by that name.
fn warn_of_shadowed(catalog: &Catalog) {
    for name in META_TOOLS.iter().filter(|name| catalog.get(name).is_some()) {
        tracing::warn!(
            "The upstream has a tool named {name}, too; it is reached through call_tool alone."
        );
    }
}

fn changed(before: Option<&Tools>, after: &Tools) -> Kind {
    let missing = |from: &Tools, to: &Tools| {
        from.catalog.tools().iter().filter(|t| to.catalog.get(t.name()).is_none()).count() as u64
    };
    Kind::CatalogChanged {
        hash: format!("{:016x}", after.hash),
        tools: after.catalog.len() as u64,
        bytes: after.bytes,
        added: before.map_or(after.catalog.len() as u64, |before| missing(after, before)),
        removed: before.map_or(0, |before| missing(before, after)),
    }
}

/// All pages of `tools/list`, put together.
async fn fetch(upstream: &Upstream, prefer: Era) -> Result<Tools, Fault> {
    let unfit = |why: &str| Fault::new(FaultKind::Protocol, why);
    let (mut raw, mut rest, mut cursors) = (Vec::new(), String::new(), Vec::<String>::new());
    let mut size = 0;
    for page in 0.. {
        let mut params = Object::of(None);
        if let Some(cursor) = cursors.last() {
            params.set("cursor", quote(cursor));
        }
        let text = upstream.ask(prefer, "tools/list", params).await?;
        size += text.len() as u64;
        let message = Message::parse(text.as_bytes()).map_err(|why| unfit(&why))?;
        let Some(result) = message.result else {
            return no_list(&message).map(|catalog| Tools::new(catalog, rest));
        };
        let mut result = Object::of(Some(result));
        let list = result.get("tools").ok_or_else(|| unfit("a tools/list result without tools"))?;
        let list: Vec<Box<RawValue>> =
            serde_json::from_str(list).map_err(|_| unfit("a tools/list result without a list"))?;
        raw.extend(list);
        let next =
            result.get("nextCursor").and_then(json::string).map(std::borrow::Cow::into_owned);
        if page == 0 {
            result.remove("tools");
            result.remove("nextCursor");
            rest = result.to_json();
        }
        match next {
            _ if raw.len() > TOOLS || size > FILE_MAX => {
                return Err(unfit("the tool list is too long; the last good one stays"));
            }
            Some(next) if raw.len() < TOOLS && !cursors.contains(&next) && page < PAGES => {
                cursors.push(next);
            }
            Some(_) => return Err(unfit("the tool list does not end")),
            None => break,
        }
    }
    let (catalog, rejected) = Catalog::from_tools(raw);
    for bad in rejected {
        tracing::warn!("Left out tool number {} of the upstream: {}.", bad.index, bad.reason);
    }
    Ok(Tools::new(catalog, rest))
}

/// A server without the method has no tools; any other error is a failure.
fn no_list(message: &Message<'_>) -> Result<Catalog, Fault> {
    let error = Object::of(message.error);
    if error.get("code") == Some("-32601") {
        return Ok(Catalog::default());
    }
    let code = error.get("code").unwrap_or("no code").to_owned();
    Err(Fault::new(FaultKind::Protocol, format!("the upstream refused tools/list: error {code}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_upstream_is_asked_three_hundred_times_a_day_at_most() {
        for random in [0, 499, 999] {
            let (mut asked, mut time) = (0, Duration::ZERO);
            while time < Duration::from_secs(24 * 60 * 60) {
                time += rest(asked, random);
                asked += 1;
            }
            assert!((200..=300).contains(&asked), "{asked}");
        }
        assert_eq!(rest(0, 0), REST);
    }
}
