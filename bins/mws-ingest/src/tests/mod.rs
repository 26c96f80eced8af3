//! Whole runs over small synthetic transcripts.
//!
//! Invariant: nothing outside a temporary directory is read or written.
//! Deliberately absent: sample data; every line is built here.

mod damage;
mod rollouts;
mod runs;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Parser;
use mws_event::{Call, Event, Kind, Record};
use mws_state::{StateDir, read_events};
use tempfile::TempDir;

use crate::{Cli, run};

/// A call of `tool` at second `at` in `session`.
pub(super) fn call(session: &str, at: u32, id: &str, tool: &str) -> String {
    call_with(session, at, id, tool, "{\"canary\":\"SECRETARG\"}", "")
}

/// A call with its input and further fields of the record.
pub(super) fn call_with(
    session: &str,
    at: u32,
    id: &str,
    tool: &str,
    input: &str,
    more: &str,
) -> String {
    format!(
        r#"{{"parentUuid":null,"sessionId":"{session}","version":"2.1.0","type":"assistant","timestamp":"{}","message":{{"role":"assistant","content":[{{"type":"tool_use","id":"{}","name":"{tool}","input":{input}}}]}}{more}}}"#,
        time(at),
        long(id)
    )
}

/// A result at second `at`; `mark` is put into its block.
pub(super) fn result(session: &str, at: u32, id: &str, mark: &str) -> String {
    format!(
        r#"{{"parentUuid":null,"sessionId":"{session}","version":"2.1.0","type":"user","timestamp":"{}","message":{{"role":"user","content":[{{"type":"tool_result","content":"SECRETRESULT"{mark},"tool_use_id":"{}"}}]}}}}"#,
        time(at),
        long(id)
    )
}

/// Marks a result as a failure.
pub(super) const FAILED: &str = r#","is_error":true"#;

pub(super) fn time(at: u32) -> String {
    format!("2026-03-01T00:{:02}:{:02}.000Z", at / 60, at % 60)
}

/// Ids with a dash are taken as they are, others are padded to their usual length.
fn long(id: &str) -> String {
    if id.contains('-') { id.to_owned() } else { format!("toolu_{id:0>24}") }
}

/// A state directory, a configuration and a tree of transcripts.
pub(super) struct Lab {
    tmp: TempDir,
    reported: usize,
}

impl Lab {
    pub(super) fn new() -> Self {
        let lab = Self { tmp: tempfile::tempdir().expect("a directory"), reported: 0 };
        let (root, codex) = (lab.path("projects"), lab.path("codex"));
        let config = format!(
            r#"{{"stateDir":"{}","serverAliases":["my.box"],"transcripts":[{{"type":"claude-code","root":"{}"}},{{"type":"codex","root":"{}"}}]}}"#,
            lab.path("state").display(),
            root.display(),
            codex.display()
        );
        lab.put("config.json", &[&config]);
        fs::create_dir_all(root).expect("a directory");
        fs::create_dir_all(codex).expect("a directory");
        lab
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.tmp.path().join(name)
    }

    pub(super) fn state(&self) -> StateDir {
        StateDir::at(self.path("state"))
    }

    /// Writes a file in place.
    pub(super) fn put(&self, name: &str, lines: &[&str]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a directory");
        let mut file = fs::File::create(path).expect("a file");
        file.write_all((lines.join("\n") + "\n").as_bytes()).expect("written");
    }

    /// Appends text without a newline.
    pub(super) fn append(&self, name: &str, text: &str) {
        let mut file = fs::OpenOptions::new().append(true).open(self.path(name)).expect("a file");
        file.write_all(text.as_bytes()).expect("appended");
    }

    /// Runs the program.
    pub(super) fn run(&self, args: &[&str]) {
        let config = self.path("config.json").display().to_string();
        let all = ["mws-ingest", "-q", "--config", &config];
        let cli = Cli::try_parse_from(all.iter().chain(args)).expect("arguments");
        run(&cli).expect("a run");
    }

    /// Runs the program; the calls that it appended to the log.
    pub(super) fn new_calls(&mut self, args: &[&str]) -> Vec<Call> {
        self.run(args);
        let calls: Vec<Call> = self.events().into_iter().filter_map(as_call).collect();
        let new = calls[self.reported..].to_vec();
        self.reported = calls.len();
        new
    }

    /// As [`Self::new_calls`], each as `session tool ok`.
    pub(super) fn news(&mut self) -> Vec<String> {
        let text =
            |c: &Call| format!("{} {} {}", c.session.as_deref().unwrap_or("-"), c.tool, c.ok);
        self.new_calls(&[]).iter().map(text).collect()
    }

    pub(super) fn events(&self) -> Vec<Event> {
        read_events(&self.state()).0
    }

    /// Files and bytes read by the last run that was recorded.
    pub(super) fn last_run(&self) -> (u64, u64) {
        let run = |event: &Event| match event {
            Event::Record(Record { kind: Kind::IngestRun { files, read_bytes, .. }, .. }) => {
                Some((*files, *read_bytes))
            }
            _ => None,
        };
        self.events().iter().rev().find_map(run).expect("a run")
    }
}

fn as_call(event: Event) -> Option<Call> {
    match event {
        Event::Call(call) => Some(*call),
        Event::Record(_) => None,
    }
}
