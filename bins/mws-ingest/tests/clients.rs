//! Transcripts that clients wrote, read back.
//!
//! Each was written by the client's released version, which a scripted model had call tools through
//! the proxy: listed ones, others by `call_tool`, one that fails, one that is not there. Paths were
//! replaced and long texts left out. Invariant: what is expected is what the proxy logged meanwhile, and which calls never
//! reached the upstream. Deliberately absent: made-up transcripts.

#![allow(clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use mws_event::{Call, Event, Via};
use mws_state::{StateDir, publish, read_events};

/// What each of the clients was made to do, in order: `search_tools` was called, too.
const DONE: [(&str, Via, bool); 5] = [
    ("mail_send", Via::CallTool, true),
    ("fail_now", Via::CallTool, false),
    ("mail_send", Via::Direct, true),
    ("drive.list", Via::CallTool, true),
    ("nope_nope", Via::CallTool, false),
];

/// By type of transcripts: the session.
const CLIENTS: [(&str, &str); 4] = [
    ("claude-code", "6cca00db-569d-4c62-929b-6501d6423189"),
    ("codex", "01a22a40-0186-7d11-b258-0f6755d9f113"),
    ("gemini-cli", "a5479e8d-86c4-4e5a-8316-ee5ca2cded03"),
    ("qwen-code", "4210a86d-f09b-4152-bfac-52f9badde1e7"),
];

#[test]
fn what_clients_wrote_is_what_they_did() {
    for (client, session) in CLIENTS {
        let tmp = tempfile::tempdir().expect("a directory");
        let calls = ingest(tmp.path(), client, &written(client));
        let found: Vec<_> = calls.iter().map(|call| (&*call.tool, call.via, call.ok)).collect();
        assert_eq!(found, DONE, "{client}");
        for call in &calls {
            assert_eq!(call.session.as_deref(), Some(session), "{client}");
            assert_eq!((&*call.client, call.conf.as_deref()), (client, Some("explicit")));
            assert!(call.ms < 1000, "{client}: {} ms", call.ms);
        }
    }
}

#[test]
fn a_transcript_cut_anywhere_and_then_completed_gives_the_same_calls() {
    for (client, _) in CLIENTS {
        let tmp = tempfile::tempdir().expect("a directory");
        let source = std::fs::read_dir(written(client)).expect("there").next();
        let source = source.expect("one").expect("an entry").path();
        let text = std::fs::read(&source).expect("read");
        let copy = tmp.path().join("copy").join(source.file_name().expect("a name"));
        for part in 1..8 {
            publish(&copy, &text[..text.len() * part / 8]).expect("written");
            ingest(tmp.path(), client, &tmp.path().join("copy"));
        }
        publish(&copy, &text).expect("written");
        let calls = ingest(tmp.path(), client, &tmp.path().join("copy"));
        let found: Vec<_> = calls.iter().map(|call| (&*call.tool, call.via, call.ok)).collect();
        assert_eq!(found, DONE, "{client}");
    }
}

fn written(client: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(client)
}

/// The calls in the log after a run over `root`.
fn ingest(dir: &Path, client: &str, root: &Path) -> Vec<Call> {
    let config =
        format!(r#"{{"transcripts":[{{"type":"{client}","root":"{}"}}]}}"#, root.display());
    publish(&dir.join("config.json"), config.as_bytes()).expect("written");
    let state = dir.join("state");
    let mut program = Command::new(env!("CARGO_BIN_EXE_mws-ingest"));
    program.args(["-q", "--config"]).arg(dir.join("config.json")).arg("--state-dir").arg(&state);
    assert!(program.status().expect("run").success());
    let (events, _) = read_events(&StateDir::at(&state));
    let call = |event| match event {
        Event::Call(call) => Some(*call),
        Event::Record(_) => None,
    };
    events.into_iter().filter_map(call).collect()
}
