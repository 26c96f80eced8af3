//! The reader of Codex transcripts: finds the lines that matter and takes calls and results from
//! them.
//!
//! Invariant: a line is parsed only when it heads a thread, names our server or holds an output
//! that may be of one of our calls.
//! Deliberately absent: deciding which of several copies of a call counts; [`crate::calls`] does.

mod end;
mod line;
mod names;

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use memchr::memmem::Finder;
use memchr::memrchr;
use mws_config::Places;
use mws_event::Timestamp;

use self::end::Ended;
use self::line::{Item, Payload, Record};
pub(crate) use self::names::CodexNames;
use crate::foreign::Foreign;
use crate::hits::{Hits, line_around, line_end, until_quote};
use crate::lenient::parse_ts;
use crate::names::{Named, SEARCH_TOOLS, upstream};
use crate::salvage::{self, Damage};
use crate::scan::{Consumed, Tail, Window, scan};
use crate::sighting::{Batch, Link, Outcome, Sighting, Why};
use crate::sources::{SHORT_ID, Task};

/// Marks calls and outputs of every tool.
const FUNCTION_CALL: &[u8] = b"\"function_call";
/// A copied history is written within this time of the fork.
const COPYING_MS: i64 = 1000;

/// The default place.
pub(crate) fn default_roots(places: &Places) -> Vec<PathBuf> {
    let home = std::env::var("CODEX_HOME").ok().filter(|home| !home.trim().is_empty());
    vec![home.map_or_else(|| places.home.join(".codex"), |home| places.expand(home.trim()))]
}

/// Where in `root`, which may be the client's home, its transcripts are.
pub(crate) fn narrow(root: &Path) -> Vec<PathBuf> {
    let folders = ["sessions", "archived_sessions"].map(|name| root.join(name));
    let there: Vec<PathBuf> = folders.into_iter().filter(|folder| folder.is_dir()).collect();
    if there.is_empty() { vec![root.to_owned()] } else { there }
}

/// Leaves out whatever else is in the client's home.
pub(crate) fn wants(name: &OsStr, is_dir: bool) -> bool {
    let name = name.as_encoded_bytes();
    let plain = name.strip_suffix(b".zst").unwrap_or(name);
    is_dir || plain.starts_with(b"rollout-") && plain.ends_with(b".jsonl")
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
    let mut reader = Reader::new(task);
    let consumed = scan(source, window, tail, &mut |bytes| reader.visit(bytes))?;
    Ok((consumed, reader.finish()))
}

struct Reader<'a> {
    names: &'a CodexNames,
    /// The file's own thread.
    thread: String,
    version: Option<String>,
    mtime: Timestamp,
    /// Still at the lines that head a thread: its own, then those of its ancestors.
    in_head: bool,
    first_line: bool,
    /// The thread of which this one has a copy, and when it was made.
    copied: Option<(String, Timestamp)>,
    /// Hashes of the ids of calls to other tools: their outputs need not be parsed.
    foreign: Foreign,
    hits: Hits<'a>,
    call_id: Finder<'static>,
    end: Option<Timestamp>,
    batch: Batch,
}

impl<'a> Reader<'a> {
    fn new(task: &Task<'a>) -> Self {
        let names = task.names.codex();
        let finders = std::iter::once(Finder::new(FUNCTION_CALL)).chain(names.finders());
        let mut reader = Self {
            names,
            thread: thread_of(task.path),
            version: None,
            mtime: task.mtime,
            in_head: true,
            first_line: true,
            copied: None,
            foreign: Foreign::default(),
            hits: Hits::new(finders.collect()),
            call_id: Finder::new("\"call_id\":\""),
            end: None,
            batch: Batch::default(),
        };
        if let Some(first_line) = &task.first_line {
            reader.head(&mut first_line.clone());
            reader.in_head = false;
        }
        reader
    }

    fn finish(mut self) -> Batch {
        self.batch.end = Some((self.thread, self.end.unwrap_or(self.mtime)));
        self.batch
    }

    fn visit(&mut self, bytes: &mut [u8]) {
        if self.in_head {
            self.head(bytes);
        }
        self.note_end(bytes);
        let mut hits = std::mem::take(&mut self.hits);
        hits.start(bytes);
        while let Some(hit) = hits.first() {
            let matters = match hit.what.checked_sub(1) {
                Some(needle) => self.names.is_name(needle, bytes, hit.at),
                None => !self.is_foreign(&bytes[hit.at..]),
            };
            let end = if matters { self.line(bytes, hit.at) } else { hit.at + 1 };
            hits.go_on_from(end, bytes);
        }
        self.hits = hits;
    }

    /// Reads the lines that head a thread.
    fn head(&mut self, bytes: &mut [u8]) {
        for line in bytes.split_mut(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let mut found = false;
            each_record(line, |record| {
                if let Item::Thread(payload) = record.item() {
                    found = true;
                    self.thread_head(payload, record.ts());
                }
            });
            self.first_line = false;
            if !found {
                self.in_head = false;
                return;
            }
        }
    }

    fn thread_head(&mut self, payload: &Payload<'_>, ts: Option<Timestamp>) {
        let Some(thread) = payload.id.get() else { return };
        let parent = payload.parent().filter(|(parent, _)| *parent != thread);
        if std::mem::take(&mut self.first_line) {
            thread.clone_into(&mut self.thread);
            self.version = payload.cli_version.get().map(str::to_owned);
            self.copied = parent.and_then(|(parent, _)| Some((parent.to_owned(), ts?)));
        }
        if let Some((parent, is_subagent)) = parent {
            self.batch.links.push(Link {
                thread: thread.into(),
                parent: parent.into(),
                is_subagent,
            });
        }
    }

    /// Parses the line around `at`; where it ends.
    fn line(&mut self, bytes: &mut [u8], at: usize) -> usize {
        let line = line_around(bytes, at);
        let end = line.end;
        let damage = each_record(&mut bytes[line], |record| self.record(record));
        self.batch.count(damage);
        end
    }

    /// Judges by the bytes from [`FUNCTION_CALL`] on whether the line can be left unparsed: the
    /// output of another tool's call, or such a call, which is remembered.
    fn is_foreign(&mut self, bytes: &[u8]) -> bool {
        let rest = &bytes[FUNCTION_CALL.len()..];
        if let Some(rest) = rest.strip_prefix(b"_output\"") {
            let id = rest.strip_prefix(b",\"call_id\":\"").and_then(until_quote);
            return id.is_some_and(|id| self.foreign.contains(id));
        }
        if rest.first() == Some(&b'"') {
            let line = &rest[..line_end(rest, 0)];
            let id = self.call_id.find(line).map(|at| &line[at + self.call_id.needle().len()..]);
            if let Some(id) = id.and_then(until_quote)
                && !self.names.mentioned_in(line)
            {
                self.foreign.insert(id);
            }
        }
        true
    }

    fn record(&mut self, record: &Record<'_>) {
        match record.item() {
            Item::Call(payload) => self.call(record, payload),
            Item::Output(payload) => self.output(record, payload),
            Item::End(end) => self.end(record, &end),
            Item::Thread(_) | Item::Other => {}
        }
    }

    fn call(&mut self, record: &Record<'_>, payload: &Payload<'_>) {
        let (Some(id), Some(name)) = (payload.call_id.get(), payload.name.get()) else { return };
        let ours = self.names.split(payload.namespace.get(), name);
        let Some((server, tool)) = ours.filter(|(_, tool)| *tool != SEARCH_TOOLS) else {
            self.foreign.insert(id.as_bytes());
            return;
        };
        if let Some(named) = upstream(tool, || payload.inner_name(), |raw| self.resolve(raw)) {
            self.sighting(id, server, named, record.ts(), false);
        }
    }

    fn end(&mut self, record: &Record<'_>, end: &Ended<'_>) {
        if !self.names.is_ours(end.server) {
            return;
        }
        let named = upstream(end.tool, || end.inner_name(), |raw| self.resolve(raw));
        let Some(named) = named else { return };
        let (ended, (ok, why)) = (record.ts(), end.outcome);
        let took = end.ms.and_then(|ms| i64::try_from(ms).ok()).unwrap_or(0);
        self.sighting(end.id, end.server, named, ended.map(|ts| ts.plus_ms(-took)), true);
        self.result(end.id, Outcome { ok, why, ts: ended, ms: end.ms });
    }

    fn output(&mut self, record: &Record<'_>, payload: &Payload<'_>) {
        let Some(id) = payload.call_id.get() else { return };
        if self.foreign.contains(id.as_bytes()) {
            return;
        }
        if let Some(ok) = payload.guess() {
            self.result(id, Outcome { ok, why: Why::Text, ts: record.ts(), ms: None });
        }
    }

    fn resolve(&self, raw: &str) -> String {
        let plain = self.names.split(None, raw).map_or(raw, |(_, tool)| tool);
        self.names.resolve(plain).to_owned()
    }

    fn sighting(
        &mut self,
        id: &str,
        server: &str,
        named: Named,
        ts: Option<Timestamp>,
        end_event: bool,
    ) {
        let ts = ts.unwrap_or(self.mtime);
        self.batch.calls.push(Sighting {
            call_id: id.to_owned(),
            session: self.thread.clone(),
            forked_from: self.copied_from(id, ts).map(str::to_owned),
            tool: named.tool,
            raw: named.raw,
            via: named.via,
            ts,
            version: self.version.clone(),
            agent: None,
            server: server.to_owned(),
            end_event,
        });
    }

    fn result(&mut self, id: &str, outcome: Outcome) {
        let copied = outcome.ts.and_then(|ts| self.copied_from(id, ts));
        let owner = copied.unwrap_or(&self.thread).to_owned();
        self.batch.results.push((id.to_owned(), owner, outcome));
    }

    /// The thread that a record is a copy from, for ids that do not say so by themselves: the
    /// history was written again at the time of the fork.
    fn copied_from(&self, id: &str, ts: Timestamp) -> Option<&str> {
        let (parent, at) = self.copied.as_ref().filter(|_| id.len() < SHORT_ID)?;
        (ts <= at.plus_ms(COPYING_MS)).then_some(parent)
    }

    /// Remembers the last time seen.
    fn note_end(&mut self, bytes: &[u8]) {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let start = memrchr(b'\n', bytes).map_or(0, |newline| newline + 1);
        let time = bytes[start..].strip_prefix(b"{\"timestamp\":\"").and_then(until_quote);
        let time = time.and_then(|time| parse_ts(std::str::from_utf8(time).ok()?));
        self.end = time.or(self.end);
    }
}

fn each_record(line: &mut [u8], mut take: impl FnMut(&Record<'_>)) -> Damage {
    salvage::records(line, |bytes, trust| {
        salvage::kept(serde_json::from_slice(bytes), trust, Record::is_complete, &mut take)
    })
}

/// The thread that a file's name implies, for files whose head is damaged: the name ends in it.
fn thread_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".zst").unwrap_or(&name);
    let name = name.strip_suffix(".jsonl").unwrap_or(name);
    let id = name.len().checked_sub(36).and_then(|at| name.get(at..));
    id.unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rollouts_are_transcripts() {
        for (name, want) in [
            ("rollout-2026-03-01T00-00-01-x.jsonl", true),
            ("rollout-2026-03-01T00-00-01-x.jsonl.zst", true),
            ("rollout-2026-03-01T00-00-01-x.jsonl.zst.compress.1.0.tmp", false),
            ("history.jsonl", false),
            ("rollout-x.json", false),
        ] {
            assert_eq!(wants(OsStr::new(name), false), want, "{name}");
        }
    }

    #[test]
    fn a_name_implies_a_thread() {
        let id = "019a0000-0000-7000-8000-000000000001";
        for end in ["jsonl", "jsonl.zst"] {
            let name = format!("/c/rollout-2026-03-01T00-00-01-{id}.{end}");
            assert_eq!(thread_of(Path::new(&name)), id);
        }
        assert_eq!(thread_of(Path::new("/c/rollout-x.jsonl")), "rollout-x");
    }
}
