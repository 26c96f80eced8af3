//! Killed at any moment, the next run completes the log.
//!
//! Invariant: the truth is counted while the transcripts are written, not read back from them.
//! Deliberately absent: power loss; the disk keeps what it was given.

#![allow(clippy::expect_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use mws_event::Event;

const KILLS: usize = 200;
/// Kills before a state directory is brought to its end and compared.
const KILLS_EACH: usize = 5;
const SESSIONS: usize = 8;
const CALLS: usize = 40;

/// By call id: session, tool and outcome.
type Truth = BTreeMap<String, (String, String, bool)>;

#[test]
fn a_run_that_was_killed_loses_and_tears_nothing() {
    let tmp = tempfile::tempdir().expect("a directory");
    let truth = transcripts(tmp.path());
    let (mut seed, mut killed) = (7, 0);
    let whole = Instant::now();
    finish(tmp.path(), "first");
    let whole = whole.elapsed();
    assert_eq!(log(tmp.path(), "first"), truth);
    for round in 0..KILLS / KILLS_EACH {
        let state = format!("state-{round}");
        for _ in 0..KILLS_EACH {
            let mut child = start(tmp.path(), &state);
            // A run that goes on where another was killed is shorter than a whole one.
            std::thread::sleep(whole.mul_f64(random(&mut seed) / 2.0));
            killed += usize::from(child.try_wait().expect("asked").is_none());
            child.kill().expect("killed");
            child.wait().expect("gone");
        }
        finish(tmp.path(), &state);
        assert_eq!(log(tmp.path(), &state), truth, "round {round}");
    }
    assert!(killed > KILLS / 10, "only {killed} of {KILLS} runs were killed in the middle");
}

fn start(dir: &Path, state: &str) -> Child {
    let mut program = Command::new(env!("CARGO_BIN_EXE_mws-ingest"));
    program.args(["-q", "--config"]).arg(dir.join("config.json"));
    program.arg("--state-dir").arg(dir.join(state));
    program.stdin(Stdio::null()).spawn().expect("started")
}

fn finish(dir: &Path, state: &str) {
    assert!(start(dir, state).wait().expect("gone").success());
}

/// The log, folded; every line of it must be whole.
fn log(dir: &Path, state: &str) -> Truth {
    let mut folded = Truth::new();
    for entry in fs::read_dir(dir.join(state).join("events")).expect("a log") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none() {
            continue;
        }
        let text = fs::read_to_string(path).expect("read");
        assert!(text.ends_with('\n'), "a torn end");
        for line in text.lines() {
            let Event::Call(call) = Event::parse(line.as_bytes()).expect("a whole line") else {
                continue;
            };
            let (id, session) = (call.call_id.expect("an id"), call.session.expect("a session"));
            let known = folded.entry(id).or_insert((session, call.tool, false));
            known.2 |= call.ok;
        }
    }
    folded
}

fn transcripts(dir: &Path) -> Truth {
    let mut truth = Truth::new();
    let mut seed = 1;
    let (claude, codex) = (dir.join("claude/-srv"), dir.join("codex/sessions"));
    fs::create_dir_all(&claude).expect("a directory");
    fs::create_dir_all(&codex).expect("a directory");
    for n in 0..SESSIONS {
        let session = format!("{n:08}-0000-4000-a000-000000000000");
        let (mut one, mut other) = (String::new(), thread(&session));
        for call in 0..CALLS {
            let tool = format!("tool_{}", call % 7);
            let ok = random(&mut seed) < 0.8;
            let padding = "x".repeat((random(&mut seed) * 4000.0) as usize);
            let id = format!("toolu_{n:04}{call:018}");
            claude_call(&mut one, &session, &id, &tool, ok, &padding);
            truth.insert(id, (session.clone(), tool.clone(), ok));
            let id = format!("call_{n:04}{call:018}");
            codex_call(&mut other, &id, &tool, ok, &padding);
            truth.insert(id, (session.clone(), tool, ok));
        }
        write(&claude.join(format!("{session}.jsonl")), &one);
        write(&codex.join(format!("rollout-2026-03-01T00-00-00-{session}.jsonl")), &other);
    }
    let config = format!(
        r#"{{"transcripts":[{{"type":"claude-code","root":"{0}/claude"}},{{"type":"codex","root":"{0}/codex"}}]}}"#,
        dir.display()
    );
    write(&dir.join("config.json"), &config);
    truth
}

fn claude_call(to: &mut String, session: &str, id: &str, tool: &str, ok: bool, padding: &str) {
    let record = |kind: &str, block: String| {
        format!(
            r#"{{"sessionId":"{session}","type":"{kind}","timestamp":"2026-03-01T00:00:00.000Z","message":{{"content":[{block}]}}}}"#
        )
    };
    let call = format!(
        r#"{{"type":"tool_use","id":"{id}","name":"mcp__toolbox__{tool}","input":{{"a":"{padding}"}}}}"#
    );
    let result = format!(
        r#"{{"type":"tool_result","content":"{padding}","is_error":{},"tool_use_id":"{id}"}}"#,
        !ok
    );
    writeln!(to, "{}\n{}", record("assistant", call), record("user", result)).expect("written");
}

fn codex_call(to: &mut String, id: &str, tool: &str, ok: bool, padding: &str) {
    let end = format!(
        r#"{{"type":"mcp_tool_call_end","call_id":"{id}","invocation":{{"server":"toolbox","tool":"{tool}","arguments":{{}}}},"result":{{"Ok":{{"content":"{padding}","isError":{}}}}}}}"#,
        !ok
    );
    writeln!(
        to,
        r#"{{"timestamp":"2026-03-01T00:00:00.000Z","type":"event_msg","payload":{end}}}"#
    )
    .expect("written");
}

fn thread(id: &str) -> String {
    format!(
        r#"{{"timestamp":"2026-03-01T00:00:00.000Z","type":"session_meta","payload":{{"id":"{id}"}}}}"#
    ) + "\n"
}

fn write(path: &Path, text: &str) {
    mws_state::publish(path, text.as_bytes()).expect("written");
}

/// From 0 to 1.
fn random(seed: &mut u64) -> f64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed % 10_000) as f64 / 10_000.0
}
