//! What people and tools said, and where they work, stays in the transcripts.
//!
//! Invariant: each program run records something, so that silence is no success.
//! Deliberately absent: the names of tools, servers and sessions, which are what is recorded.

#![allow(clippy::expect_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use mws_state::{StateDir, publish, read_events};

const CANARY: &str = "canary7f3a";
/// A place that says what somebody works on.
const FOLDER: &str = "-home-u-canary7f3a";

#[test]
fn nothing_but_names_and_numbers_leaves_a_transcript() {
    let tmp = tempfile::tempdir().expect("a directory");
    let (state, claude) = (tmp.path().join("state"), tmp.path().join("claude"));
    let config = format!(
        r#"{{"stateDir":"{0}/state","transcripts":[{{"type":"claude-code","root":"{0}/claude"}},{{"type":"codex","root":"{0}/codex"}},{{"type":"gemini-cli","root":"{0}/gemini"}},{{"type":"qwen-code","root":"{0}/qwen"}}]}}"#,
        tmp.path().display()
    );
    put(&tmp.path().join("config.json"), &config);
    put(&claude.join(FOLDER).join("S.jsonl"), &claude_lines());
    put(&tmp.path().join("codex/sessions/rollout-1-T.jsonl"), &codex_lines());
    put(&tmp.path().join(format!("gemini/tmp/{CANARY}/chats/session-1.jsonl")), &gemini_lines());
    put(&tmp.path().join(format!("qwen/projects/{FOLDER}/chats/Q.jsonl")), &qwen_lines());
    let unreadable = claude.join(FOLDER).join("U.jsonl");
    put(&unreadable, "{}\n");
    let closed = claude.join(format!("{FOLDER}-closed"));
    fs::create_dir_all(&closed).expect("a directory");
    for path in [&unreadable, &closed] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).expect("closed");
    }
    for args in [&["-vvv"][..], &["-vvv", "-n"], &["-vvv", "-o", "-"], &["--stats"], &["-vvv"]] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_mws-ingest"));
        program.arg("--config").arg(tmp.path().join("config.json")).args(args);
        let done = program.output().expect("run");
        assert!(done.status.success(), "{args:?}");
        clean(&done.stdout, "stdout");
        clean(&done.stderr, "stderr");
    }
    assert_eq!(read_events(&StateDir::at(&state)).0.len(), 6);
    for name in ["events", "ingest"] {
        for entry in fs::read_dir(state.join(name)).expect("a directory") {
            let path = entry.expect("an entry").path();
            clean(&fs::read(&path).expect("read"), name);
        }
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("open again");
}

fn clean(bytes: &[u8], what: &str) {
    let text = String::from_utf8_lossy(bytes);
    assert!(!text.contains(CANARY), "{what}: {text}");
}

fn put(path: &Path, text: &str) {
    publish(path, text.as_bytes()).expect("written");
}

fn claude_lines() -> String {
    let record = |kind: &str, content: &str| {
        format!(
            r#"{{"sessionId":"S","cwd":"/srv/{CANARY}","gitBranch":"{CANARY}","type":"{kind}","timestamp":"2026-03-01T00:00:00.000Z","message":{{"content":{content}}},"toolUseResult":"{CANARY}"}}"#
        )
    };
    let call = format!(
        r#"[{{"type":"text","text":"{CANARY}"}},{{"type":"tool_use","id":"toolu_000000000000000001","name":"mcp__toolbox__mail","input":{{"a":"{CANARY}"}}}}]"#
    );
    let open = call.replace("0001", "0002");
    let result = format!(
        r#"[{{"type":"tool_result","content":"<tool_use_error>{CANARY}","tool_use_id":"toolu_000000000000000001"}}]"#
    );
    let lines = [
        record("user", &format!("\"{CANARY} mcp__toolbox__mail\"")),
        record("assistant", &call),
        record("assistant", &open),
        record("user", &result),
        format!(r#"{{"type":"assistant","name":"mcp__toolbox__{CANARY}"#),
    ];
    lines.join("\n") + "\n"
}

fn codex_lines() -> String {
    let record = |kind: &str, payload: &str| {
        format!(r#"{{"timestamp":"2026-03-01T00:00:00.000Z","type":"{kind}","payload":{payload}}}"#)
    };
    let end = format!(
        r#"{{"type":"mcp_tool_call_end","call_id":"call_000000000000000001","invocation":{{"server":"toolbox","tool":"mail","arguments":{{"a":"{CANARY}"}}}},"result":{{"Err":"{CANARY}"}}}}"#
    );
    let call = format!(
        r#"{{"type":"function_call","name":"mcp__toolbox__drive","arguments":"{{\"a\":\"{CANARY}\"}}","call_id":"call_000000000000000002"}}"#
    );
    let output = format!(
        r#"{{"type":"function_call_output","call_id":"call_000000000000000002","output":"err: {CANARY}"}}"#
    );
    let head = format!(r#"{{"id":"T","cwd":"/srv/{CANARY}","instructions":"{CANARY}"}}"#);
    let lines = [
        record("session_meta", &head),
        record("event_msg", &end),
        record("response_item", &call),
        record("response_item", &output),
    ];
    lines.join("\n") + "\n"
}

fn gemini_lines() -> String {
    let call = format!(
        r#"{{"id":"mcp_toolbox_mail_1796004578039_0","name":"mcp_toolbox_mail","args":{{"a":"{CANARY}"}},"result":[{{"x":"{CANARY}"}}],"status":"error","timestamp":"2026-03-01T00:00:01.000Z","resultDisplay":"{CANARY}","description":"{CANARY}","displayName":"mail (toolbox MCP Server)"}}"#
    );
    format!(
        "{}\n{}\n{}\n",
        format_args!(r#"{{"sessionId":"G","projectHash":"{CANARY}"}}"#),
        format_args!(
            r#"{{"id":"m","timestamp":"2026-03-01T00:00:00.000Z","type":"gemini","content":"{CANARY}","toolCalls":[{call}]}}"#
        ),
        format_args!(r#"{{"type":"gemini","toolCalls":[{call},(toolbox MCP Server){CANARY}"#),
    )
}

fn qwen_lines() -> String {
    let record = |kind: &str, more: &str| {
        format!(
            r#"{{"sessionId":"Q","cwd":"/srv/{CANARY}","type":"{kind}","timestamp":"2026-03-01T00:00:00.000Z",{more}}}"#
        )
    };
    let call = format!(
        r#""message":{{"parts":[{{"text":"{CANARY}"}},{{"functionCall":{{"id":"call_000000000000000000000009","name":"mcp__toolbox__mail","args":{{"a":"{CANARY}"}}}}}}]}}"#
    );
    let result = format!(
        r#""message":{{"parts":[{{"functionResponse":{{"response":{{"output":"{CANARY}"}}}}}}]}},"toolCallResult":{{"callId":"call_000000000000000000000009","status":"success","resultDisplay":"{CANARY}"}}"#
    );
    format!("{}\n{}\n", record("assistant", &call), record("tool_result", &result))
}
