//! The reader of Gemini CLI transcripts.
//!
//! Invariant: a call is the server's that the client shows with it, for `mcp_a_b_c` could be tool
//! `c` of server `a_b` as well as `b_c` of `a`.
//! Deliberately absent: the `.json` files of versions before 0.40, which are no lines.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use memchr::memchr;
use memchr::memmem::Finder;
use mws_config::Places;
use mws_event::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::hits::Hits;
use crate::lenient::{List, Object, Text, name_in, parse_ts};
use crate::names::{Named, Names, upstream};
use crate::salvage;
use crate::scan::{Consumed, Tail, Window, scan};
use crate::sighting::{Batch, Outcome, Sighting, Why};
use crate::sources::Task;

/// What stands after a server's name where the client shows it.
const SERVER: &str = " MCP Server)";

/// A message, or a change that puts messages into the place of all before.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Record<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow, rename = "toolCalls")]
    calls: List<Called<'a>>,
    #[serde(borrow, rename = "$set")]
    set: Object<Set<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Set<'a> {
    #[serde(borrow)]
    messages: List<Record<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Called<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Text<'a>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    display_name: Text<'a>,
}

/// The first line.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Head<'a> {
    #[serde(borrow)]
    session_id: Text<'a>,
}

/// The default place.
pub(crate) fn default_roots(places: &Places) -> Vec<PathBuf> {
    let home = std::env::var("GEMINI_CLI_HOME").ok().filter(|home| !home.trim().is_empty());
    let home = home.map_or_else(|| places.home.clone(), |home| places.expand(home.trim()));
    vec![home.join(".gemini/tmp")]
}

/// Where in `root`, which may be the client's home, its transcripts are.
pub(crate) fn narrow(root: &Path) -> Vec<PathBuf> {
    let tmp = root.join("tmp");
    vec![if tmp.is_dir() { tmp } else { root.to_owned() }]
}

/// Leaves out the long tool outputs that lie in the same tree.
pub(crate) fn wants(name: &OsStr, is_dir: bool) -> bool {
    if is_dir {
        return name != "tool-outputs";
    }
    Path::new(name).extension() == Some(OsStr::new("jsonl"))
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
    let shown = task.names.plain().iter().map(|name| format!("({name}{SERVER}"));
    let mut hits = Hits::new(shown.map(|text| Finder::new(&text).into_owned()).collect());
    let mut reader = Reader {
        names: task.names,
        session: None,
        parent: parent(task.path),
        mtime: task.mtime,
        batch: Batch::default(),
    };
    if let Some(line) = &task.first_line {
        reader.head(line);
    }
    let consumed = scan(source, window, tail, &mut |bytes| {
        if reader.session.is_none() {
            reader.head(&bytes[..memchr(b'\n', bytes).unwrap_or(bytes.len())]);
        }
        hits.each_line(bytes, |line| reader.line(line));
    })?;
    reader.batch.end = Some((reader.session(), reader.mtime));
    Ok((consumed, reader.batch))
}

/// Transcripts of sub-agents are in a folder named like the session that started them.
fn parent(path: &Path) -> Option<String> {
    let folder = path.parent()?;
    let is_nested = folder.parent()?.file_name() == Some(OsStr::new("chats"));
    is_nested.then(|| folder.file_name())?.map(|name| name.to_string_lossy().into_owned())
}

struct Reader<'a> {
    names: &'a Names,
    /// The file's own; known once its first line was read, whatever that was.
    session: Option<String>,
    /// The session that started this one.
    parent: Option<String>,
    mtime: Timestamp,
    batch: Batch,
}

impl Reader<'_> {
    fn head(&mut self, line: &[u8]) {
        let head = serde_json::from_slice::<Object<Head<'_>>>(line).ok().and_then(|head| head.0);
        let id = head.as_ref().and_then(|head| head.session_id.get());
        self.session = Some(id.unwrap_or_default().to_owned());
    }

    /// The session that calls count for.
    fn session(&self) -> String {
        self.parent.clone().or_else(|| self.session.clone()).unwrap_or_default()
    }

    fn line(&mut self, line: &mut [u8]) {
        let damage = salvage::records(line, |bytes, trust| {
            let is_message = |record: &Record<'_>| record.kind.get().is_some();
            let record = serde_json::from_slice(bytes);
            salvage::kept(record, trust, is_message, |record| self.record(record))
        });
        self.batch.count(damage);
    }

    fn record(&mut self, record: &Record<'_>) {
        let set = record.set.0.as_ref().map(|set| set.messages.0.as_slice()).unwrap_or_default();
        for message in std::iter::once(record).chain(set) {
            if message.kind.get() == Some("gemini") {
                message.calls.0.iter().for_each(|call| self.call(message, call));
            }
        }
    }

    fn call(&mut self, message: &Record<'_>, call: &Called<'_>) {
        let shown = call.display_name.get().and_then(|name| name.strip_suffix(SERVER));
        let (Some(id), Some((tool, server))) =
            (call.id.get(), shown.and_then(|s| s.rsplit_once(" (")))
        else {
            return;
        };
        if !self.names.plain().iter().any(|name| name == server) {
            return;
        }
        let resolve = |raw: &str| self.names.resolve(raw).to_owned();
        let inner = || name_in(call.args?.get());
        let Some(Named { tool, raw, via }) = upstream(tool, inner, resolve) else { return };
        let ts = parse_ts(message.timestamp.get().unwrap_or_default()).unwrap_or(self.mtime);
        let session = self.session();
        let own = self.session.clone().filter(|_| self.parent.is_some());
        self.batch.calls.push(Sighting {
            call_id: id.to_owned(),
            session: session.clone(),
            forked_from: None,
            tool,
            raw,
            via,
            ts,
            version: None,
            agent: own,
            server: server.to_owned(),
            end_event: false,
        });
        let Some((ok, why)) = call.status.get().and_then(Why::of_status) else { return };
        let ts = call.timestamp.get().and_then(parse_ts);
        self.batch.results.push((id.to_owned(), session, Outcome { ok, why, ts, ms: None }));
    }
}
