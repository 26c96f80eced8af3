//! The reader of Qwen Code transcripts.
//!
//! Invariant: only what the model called is a call, and only the client's own record of how that
//! ended is its result.
//! Deliberately absent: deciding which of several copies of a call counts; [`crate::calls`] does.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use memchr::memmem::Finder;
use mws_config::Places;
use mws_event::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::foreign::Foreign;
use crate::hits::Hits;
use crate::lenient::{List, Object, Text, name_in, parse_ts};
use crate::names::{Named, Names, upstream};
use crate::salvage;
use crate::scan::{Consumed, Tail, Window, scan};
use crate::sighting::{Batch, Outcome, Sighting, Why};
use crate::sources::Task;

/// The client's own tool through which it calls those that it does not list.
const DEFERRED: &str = "tool_call";

/// A record.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Record<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    session_id: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
    #[serde(borrow)]
    message: Object<Message<'a>>,
    #[serde(borrow)]
    tool_call_result: Object<Settled<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow)]
    parts: List<Part<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow)]
    function_call: Object<Called<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Called<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Settled<'a> {
    #[serde(borrow)]
    call_id: Text<'a>,
    #[serde(borrow)]
    status: Text<'a>,
}

/// What [`DEFERRED`] is given.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Deferred<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// The default place.
pub(crate) fn default_roots(places: &Places) -> Vec<PathBuf> {
    let named = |name| std::env::var(name).ok().filter(|dir: &String| !dir.trim().is_empty());
    let home = named("QWEN_RUNTIME_DIR").or_else(|| named("QWEN_HOME"));
    let home = home.map_or_else(|| places.home.join(".qwen"), |dir| places.expand(dir.trim()));
    vec![home.join("projects")]
}

/// Where in `root`, which may be the client's home, its transcripts are.
pub(crate) fn narrow(root: &Path) -> Vec<PathBuf> {
    let projects = root.join("projects");
    vec![if projects.is_dir() { projects } else { root.to_owned() }]
}

/// Whatever else is kept with a project is no `.jsonl`.
pub(crate) fn wants(name: &OsStr, is_dir: bool) -> bool {
    is_dir || Path::new(name).extension() == Some(OsStr::new("jsonl"))
}

/// Reads a transcript from where `source` stands.
///
/// # Errors
/// When reading fails.
pub(crate) fn read(
    task: &Task<'_>,
    source: &mut dyn Read,
    window: &mut Window,
    tail: Tail,
) -> io::Result<(Consumed, Batch)> {
    let stem = task.path.file_stem().unwrap_or_default();
    let mut reader = Reader {
        names: task.names,
        session: stem.to_string_lossy().into_owned(),
        mtime: task.mtime,
        foreign: Foreign::default(),
        batch: Batch::default(),
    };
    let mut hits =
        Hits::new(vec![Finder::new("\"functionCall\""), Finder::new("\"toolCallResult\"")]);
    let consumed = scan(source, window, tail, &mut |bytes| {
        hits.each_line(bytes, |line| reader.line(line));
    })?;
    reader.batch.end = Some((reader.session, reader.mtime));
    Ok((consumed, reader.batch))
}

struct Reader<'a> {
    names: &'a Names,
    session: String,
    mtime: Timestamp,
    /// Ids of calls to other tools.
    foreign: Foreign,
    batch: Batch,
}

impl Reader<'_> {
    fn line(&mut self, line: &mut [u8]) {
        let damage = salvage::records(line, |bytes, trust| {
            let is_complete =
                |record: &Record<'_>| record.kind.get().is_some() && record.ts().is_some();
            let record = serde_json::from_slice(bytes);
            salvage::kept(record, trust, is_complete, |record| self.record(record))
        });
        self.batch.count(damage);
    }

    fn record(&mut self, record: &Record<'_>) {
        match record.kind.get() {
            Some("assistant") => {
                let message = record.message.0.as_ref();
                let parts = message.map(|message| message.parts.0.as_slice()).unwrap_or_default();
                let calls = parts.iter().filter_map(|part| part.function_call.0.as_ref());
                calls.for_each(|call| self.call(record, call));
            }
            Some("tool_result") => self.result(record),
            _ => {}
        }
    }

    fn call(&mut self, record: &Record<'_>, call: &Called<'_>) {
        let (Some(id), Some(name)) = (call.id.get(), call.name.get()) else { return };
        let args = call.args.map(RawValue::get);
        let deferred = args.filter(|_| name == DEFERRED).and_then(deferred);
        let (name, args) = match &deferred {
            Some(inner) => (inner.name.get().unwrap_or_default(), inner.arguments),
            None => (name, call.args),
        };
        let Some((server, tool)) = self.names.split(name) else {
            self.foreign.insert(id.as_bytes());
            return;
        };
        let inner = || name_in(args?.get());
        let named = upstream(tool, inner, |raw| self.names.resolve_written(raw));
        let Some(Named { tool, raw, via }) = named else {
            self.foreign.insert(id.as_bytes());
            return;
        };
        self.batch.calls.push(Sighting {
            call_id: id.to_owned(),
            session: record.session_id.get().unwrap_or(&self.session).to_owned(),
            forked_from: None,
            tool,
            raw,
            via,
            ts: record.ts().unwrap_or(self.mtime),
            version: record.version.get().map(str::to_owned),
            agent: None,
            server: server.to_owned(),
            end_event: false,
        });
    }

    fn result(&mut self, record: &Record<'_>) {
        let Some(settled) = &record.tool_call_result.0 else { return };
        let Some(id) = settled.call_id.get() else { return };
        let Some((ok, why)) = settled.status.get().and_then(Why::of_status) else { return };
        if !self.foreign.contains(id.as_bytes()) {
            let session = record.session_id.get().unwrap_or(&self.session).to_owned();
            let outcome = Outcome { ok, why, ts: record.ts(), ms: None };
            self.batch.results.push((id.to_owned(), session, outcome));
        }
    }
}

impl Record<'_> {
    fn ts(&self) -> Option<Timestamp> {
        parse_ts(self.timestamp.get()?)
    }
}

fn deferred(args: &str) -> Option<Deferred<'_>> {
    serde_json::from_str::<Object<Deferred<'_>>>(args).ok()?.0
}
