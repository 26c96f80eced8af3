//! The reader of Claude Code transcripts: finds the lines that matter and takes calls and results
//! from them.
//!
//! Invariant: a line is parsed only when it names our server or holds a result that may be of one
//! of our calls; a result may stand before its call or in another file.
//! Deliberately absent: deciding which of several copies of a call counts; [`crate::calls`] does.

mod line;

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use memchr::memmem::Finder;
use memchr::memrchr;
use mws_config::Places;
use mws_event::Timestamp;

use self::line::{Block, Record};
use crate::foreign::Foreign;
use crate::hits::{Hits, line_around, until_quote};
use crate::lenient::parse_ts;
use crate::names::{Named, Names, SEARCH_TOOLS, upstream};
use crate::salvage;
use crate::scan::{Consumed, Tail, Window, scan};
use crate::sighting::{Batch, Outcome, Sighting};
use crate::sources::Task;

/// Marks calls (`"tool_use"`) and results (`"tool_use_id"`) of every tool.
const TOOL_USE: &[u8] = b"tool_use";
/// Lines without a time that may follow the last one with it.
const LAST_LINES: usize = 8;

/// The default places.
pub(crate) fn default_roots(places: &Places) -> Vec<PathBuf> {
    projects(places, std::env::var("CLAUDE_CONFIG_DIR").ok().as_deref())
}

/// `CLAUDE_CONFIG_DIR` replaces the usual places; it may be a list.
fn projects(places: &Places, config_dir: Option<&str>) -> Vec<PathBuf> {
    let homes: Vec<PathBuf> = match config_dir {
        Some(list) if !list.trim().is_empty() => {
            list.split(',').map(|dir| places.expand(dir.trim())).collect()
        }
        _ => {
            let config = places.xdg_config.clone().unwrap_or_else(|| places.home.join(".config"));
            vec![config.join("claude"), places.home.join(".claude")]
        }
    };
    let below = |dir: PathBuf| if dir.ends_with("projects") { dir } else { dir.join("projects") };
    homes.into_iter().map(below).collect()
}

/// Leaves out the long tool outputs and workflow journals that lie in the same tree, and Codex's
/// transcripts.
pub(crate) fn wants(name: &OsStr, is_dir: bool) -> bool {
    if is_dir {
        return name != "tool-results";
    }
    let is_rollout = name.as_encoded_bytes().starts_with(b"rollout-");
    Path::new(name).extension() == Some(OsStr::new("jsonl"))
        && name != "journal.jsonl"
        && !is_rollout
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
    names: &'a Names,
    session: String,
    mtime: Timestamp,
    /// Hashes of the ids of calls to other tools: their results need not be parsed.
    foreign: Foreign,
    hits: Hits<'a>,
    time: Finder<'static>,
    session_id: Finder<'static>,
    end: Option<(String, Timestamp)>,
    batch: Batch,
}

impl<'a> Reader<'a> {
    fn new(task: &Task<'a>) -> Self {
        Self {
            names: task.names,
            session: session_of(task.path),
            mtime: task.mtime,
            foreign: Foreign::default(),
            hits: Hits::new(finders(task.names)),
            time: Finder::new("\"timestamp\":\""),
            session_id: Finder::new("\"sessionId\":\""),
            end: None,
            batch: Batch::default(),
        }
    }

    fn finish(mut self) -> Batch {
        self.batch.end = Some(self.end.unwrap_or((self.session, self.mtime)));
        self.batch
    }

    fn visit(&mut self, bytes: &mut [u8]) {
        self.note_end(bytes);
        let mut hits = std::mem::take(&mut self.hits);
        hits.start(bytes);
        while let Some(hit) = hits.first() {
            let names_us = hit.what != 0 || !self.is_foreign(&bytes[hit.at + TOOL_USE.len()..]);
            let end = if names_us { self.line(bytes, hit.at) } else { hit.at + 1 };
            hits.go_on_from(end, bytes);
        }
        self.hits = hits;
    }

    /// Parses the line around `at`; where it ends.
    fn line(&mut self, bytes: &mut [u8], at: usize) -> usize {
        let line = line_around(bytes, at);
        let end = line.end;
        let damage = salvage::records(&mut bytes[line], |bytes, trust| {
            let record = serde_json::from_slice(bytes);
            salvage::kept(record, trust, Record::is_complete, |record| self.record(record))
        });
        self.batch.count(damage);
        end
    }

    /// Judges by the bytes after `tool_use` whether the line can be left unparsed: no result, a
    /// result of another tool's call, or such a call, which is remembered.
    fn is_foreign(&mut self, rest: &[u8]) -> bool {
        if let Some(rest) = rest.strip_prefix(b"_id\"") {
            let rest = rest.trim_ascii_start().strip_prefix(b":").unwrap_or_default();
            let id = rest.trim_ascii_start().strip_prefix(b"\"").and_then(until_quote);
            return id.is_some_and(|id| self.foreign.contains(id));
        }
        let id = rest.strip_prefix(b"\",\"id\":\"").and_then(until_quote);
        if let Some(id) = id {
            let name = rest[9 + id.len()..].strip_prefix(b",\"name\":\"").and_then(until_quote);
            if name.is_some_and(|name| !self.names.mentioned_in(name)) {
                self.foreign.insert(id);
            }
        }
        true
    }

    fn record(&mut self, record: &Record<'_>) {
        for block in record.calls() {
            self.call(record, block);
        }
        for block in record.results() {
            self.result(record, block);
        }
    }

    fn call(&mut self, record: &Record<'_>, block: &Block<'_>) {
        let (Some(id), Some(name)) = (block.id.get(), block.name.get()) else { return };
        let Some((server, tool)) = self.names.split(name).filter(|(_, t)| *t != SEARCH_TOOLS)
        else {
            self.foreign.insert(id.as_bytes());
            return;
        };
        let named = upstream(tool, || block.inner_name(), |raw| self.names.resolve_written(raw));
        let Some(Named { tool, raw, via }) = named else { return };
        let own = |text: Option<&str>| text.map(str::to_owned);
        self.batch.calls.push(Sighting {
            call_id: id.to_owned(),
            session: record.session_id.get().unwrap_or(&self.session).to_owned(),
            forked_from: own(record.forked_from()),
            tool,
            raw,
            via,
            ts: record.ts().unwrap_or(self.mtime),
            version: own(record.version.get()),
            agent: own(record.agent_id.get()),
            server: server.to_owned(),
            end_event: false,
        });
    }

    fn result(&mut self, record: &Record<'_>, block: &Block<'_>) {
        let Some(id) = block.tool_use_id.get() else { return };
        if self.foreign.contains(id.as_bytes()) {
            return;
        }
        let (ok, why) = record.outcome(block);
        let session = record.session_id.get().unwrap_or(&self.session);
        let owner = record.forked_from().unwrap_or(session);
        let outcome = Outcome { ok, why, ts: record.ts(), ms: None };
        self.batch.results.push((id.to_owned(), owner.to_owned(), outcome));
    }

    /// Remembers the last time and session seen: who ended first owns an unmarked copy.
    fn note_end(&mut self, bytes: &[u8]) {
        // Searching lines forwards from behind beats a backward search by far.
        let mut end = bytes.len();
        for _ in 0..LAST_LINES {
            let start = memrchr(b'\n', &bytes[..end]).map_or(0, |newline| newline + 1);
            let field = |finder: &Finder<'_>| {
                let line = &bytes[start..end];
                let at = finder.find(line)? + finder.needle().len();
                std::str::from_utf8(until_quote(&line[at..])?).ok()
            };
            if let Some(ts) = field(&self.time).and_then(parse_ts) {
                let session = field(&self.session_id).unwrap_or(&self.session);
                self.end = Some((session.to_owned(), ts));
                return;
            }
            let Some(before) = start.checked_sub(1) else { return };
            end = before;
        }
    }
}

fn finders(names: &Names) -> Vec<Finder<'_>> {
    let needles = names.needles().iter().map(Finder::as_ref);
    std::iter::once(Finder::new(TOOL_USE)).chain(needles).collect()
}

/// The session that a file's place implies, for records that name none.
fn session_of(path: &Path) -> String {
    let parts: Vec<&OsStr> = path.iter().collect();
    let above_subagents = parts.iter().rposition(|part| *part == "subagents");
    let chat = (path.file_name() == Some(OsStr::new("chat.jsonl"))).then(|| parts.len() - 1);
    let folder = above_subagents.or(chat).and_then(|at| parts.get(at.checked_sub(1)?).copied());
    folder.or(path.file_stem()).unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_replaces_the_default_places() {
        let places = Places { home: "/home/u".into(), ..Places::default() };
        let of = |var| -> Vec<String> {
            projects(&places, var).iter().map(|root| root.display().to_string()).collect()
        };
        let usual = ["/home/u/.config/claude/projects", "/home/u/.claude/projects"];
        assert_eq!(of(None), usual);
        assert_eq!(of(Some(" ")), usual);
        assert_eq!(of(Some("/a, ~/b/projects")), ["/a/projects", "/home/u/b/projects"]);
    }

    #[test]
    fn a_place_implies_a_session() {
        for (path, want) in [
            ("/p/-srv/S.jsonl", "S"),
            ("/p/-srv/S/subagents/agent-1.jsonl", "S"),
            ("/p/-srv/S/subagents/workflows/w/agent-1.jsonl", "S"),
            ("/p/-srv/S/chat.jsonl", "S"),
            ("chat.jsonl", "chat"),
            ("subagents/x.jsonl", "x"),
        ] {
            assert_eq!(session_of(Path::new(path)), want, "{path}");
        }
    }
}
