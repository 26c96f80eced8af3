//! `--follow` keeps up with a transcript, whatever becomes of its file.
//!
//! Invariant: a call is waited for, never assumed to be there after some time.
//! Deliberately absent: how little it costs while nothing happens, which a busy machine blurs.

#![allow(clippy::expect_used)]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use mws_event::Event;
use mws_state::{StateDir, publish, read_events};

struct Follower(Child);

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn calls_are_appended_once_while_the_file_grows_moves_and_shrinks() {
    let tmp = tempfile::tempdir().expect("a directory");
    let (root, state) = (tmp.path().join("projects"), tmp.path().join("state"));
    let config = format!(
        r#"{{"stateDir":"{}","transcripts":[{{"type":"claude-code","root":"{}"}}]}}"#,
        state.display(),
        root.display()
    );
    publish(&tmp.path().join("config.json"), config.as_bytes()).expect("written");
    let mut program = Command::new(env!("CARGO_BIN_EXE_mws-ingest"));
    program.args(["-q", "--follow", "--config"]).arg(tmp.path().join("config.json"));
    let _follower = Follower(program.spawn().expect("started"));

    let file = root.join("-srv/S.jsonl");
    fs::create_dir_all(root.join("-srv")).expect("a directory that was not there");
    append(&file, &lines(1));
    assert_eq!(wait_for(&state, 1), 1);
    let more = lines(2);
    append(&file, &more[..30]);
    append(&file, &more[30..]);
    assert_eq!(wait_for(&state, 2), 2);
    let copy = fs::read(&file).expect("read");
    publish(&file, &copy).expect("replaced");
    append(&file, &lines(3));
    assert_eq!(wait_for(&state, 3), 3);
    OpenOptions::new().write(true).open(&file).expect("opened").set_len(0).expect("cut");
    append(&file, &lines(4));
    assert_eq!(wait_for(&state, 4), 4);
    let other = root.join("-srv/T/subagents/agent-1.jsonl");
    fs::create_dir_all(other.parent().expect("a parent")).expect("a directory");
    append(&other, &lines(5));
    assert_eq!(wait_for(&state, 5), 5);
}

fn lines(n: u32) -> String {
    let record = |kind: &str, block: &str| {
        format!(
            r#"{{"sessionId":"S","type":"{kind}","timestamp":"2026-03-01T00:00:00.000Z","message":{{"content":[{block}]}}}}"#
        )
    };
    let id = format!("toolu_{n:024}");
    let call =
        format!(r#"{{"type":"tool_use","id":"{id}","name":"mcp__toolbox__mail","input":{{}}}}"#);
    let result = format!(r#"{{"type":"tool_result","content":"x","tool_use_id":"{id}"}}"#);
    format!("{}\n{}\n", record("assistant", &call), record("user", &result))
}

fn append(file: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(file).expect("opened");
    file.write_all(text.as_bytes()).expect("appended");
}

/// The number of calls in the log, once it is `n`, or after a while.
fn wait_for(state: &Path, n: usize) -> usize {
    let started = Instant::now();
    loop {
        let (events, _) = read_events(&StateDir::at(state));
        let calls = events.iter().filter(|event| matches!(event, Event::Call(_))).count();
        if calls >= n || started.elapsed() > Duration::from_secs(20) {
            return calls;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
