//! Runs over Codex's transcripts.

use std::fs;

use mws_event::Via;
use mws_state::publish;

use super::{Lab, time};

const T: &str = "019a0000-0000-7000-8000-000000000001";
const U: &str = "019a1000-0000-7000-8000-000000000002";
const V: &str = "019a2000-0000-7000-8000-000000000003";
const MAIL: &str = "mcp__toolbox__mail";

fn record(at: u32, kind: &str, payload: &str) -> String {
    format!(r#"{{"timestamp":"{}","type":"{kind}","payload":{payload}}}"#, time(at))
}

/// The head of a thread; `more` is put into it.
pub(super) fn thread(id: &str, more: &str) -> String {
    let payload = format!(r#"{{"id":"{id}","cli_version":"0.144.0"{more}}}"#);
    record(0, "session_meta", &payload)
}

pub(super) fn function_call(at: u32, id: &str, name: &str, arguments: &str) -> String {
    let arguments = arguments.replace('"', "\\\"");
    let payload = format!(
        r#"{{"type":"function_call","name":"{name}","arguments":"{arguments}","call_id":"{}"}}"#,
        long(id)
    );
    record(at, "response_item", &payload)
}

pub(super) fn output(at: u32, id: &str, text: &str) -> String {
    let payload =
        format!(r#"{{"type":"function_call_output","call_id":"{}","output":"{text}"}}"#, long(id));
    record(at, "response_item", &payload)
}

pub(super) fn end_event(at: u32, id: &str, tool: &str, result: &str) -> String {
    let payload = format!(
        r#"{{"type":"mcp_tool_call_end","call_id":"{}","invocation":{{"server":"toolbox","tool":"{tool}","arguments":{{"name":"drive","canary":"SECRETARG"}}}},"duration":{{"secs":1,"nanos":500000000}},"result":{result}}}"#,
        long(id)
    );
    record(at, "event_msg", &payload)
}

fn long(id: &str) -> String {
    if id.contains('-') { id.to_owned() } else { format!("call_{id:0>24}") }
}

/// The name of a thread's file.
fn file(thread: &str) -> String {
    format!("codex/sessions/2026/03/01/rollout-2026-03-01T00-00-00-{thread}.jsonl")
}

const OK: &str = r#"{"Ok":{"content":[{"type":"text","text":"SECRETRESULT"}]}}"#;

#[test]
fn names_times_and_outcomes_come_from_where_they_are_exact() {
    let mut lab = Lab::new();
    publish(&lab.path("state/catalog.json"), br#"{"tools":[{"name":"mail.send"}]}"#).expect("put");
    lab.put(
        &file(T),
        &[
            &thread(T, ""),
            &function_call(1, "1", "mcp__toolbox__mail_send", r#"{"canary":"SECRETARG"}"#),
            &end_event(3, "1", "mail.send", r#"{"Err":"SECRETRESULT"}"#),
            &output(3, "1", "fine"),
            &function_call(5, "2", "toolbox__call_tool", r#"{"name":"mail_send"}"#),
            &output(6, "2", "err: no"),
            &end_event(9, "exec-11111111-1111-4111", "call_tool", OK),
            &end_event(9, "exec-22222222-1111-4111", "search_tools", OK),
        ],
    );
    let calls = lab.new_calls(&[]);
    let got: Vec<_> = calls
        .iter()
        .map(|c| {
            let at = c.ts.unix_ms() % 60_000;
            (at, c.tool.as_str(), c.via, c.ok, c.ms, c.why.as_deref(), c.conf.as_deref())
        })
        .collect();
    let (explicit, inferred) = (Some("explicit"), Some("inferred"));
    let want = [
        (1000, "mail.send", Via::Direct, false, 1500, Some("err"), explicit),
        (5000, "mail.send", Via::CallTool, false, 1000, Some("text"), inferred),
        (7500, "drive", Via::CallTool, true, 1500, Some("result"), explicit),
    ];
    assert_eq!(got, want);
    let first = &calls[0];
    assert_eq!((first.session.as_deref(), first.client.as_str()), (Some(T), "codex"));
    assert_eq!(first.client_version.as_deref(), Some("0.144.0"));
    for name in ["state/ingest/state.bin", "state/events/events-000001.jsonl"] {
        let bytes = fs::read(lab.path(name)).expect("read");
        assert!(memchr::memmem::find(&bytes, b"SECRET").is_none(), "{name}");
    }
}

#[test]
fn growth_is_read_with_what_the_head_said() {
    let mut lab = Lab::new();
    // Not the name that the file implies.
    lab.put(&file(U), &[&thread(T, ""), &function_call(1, "1", MAIL, "{}")]);
    assert!(lab.news().is_empty());
    let more = format!("{}\n{}\n", output(2, "1", "done"), function_call(3, "2", MAIL, "{}"));
    lab.append(&file(U), &more);
    assert_eq!(lab.new_calls(&[])[0].session.as_deref(), Some(T));
    assert_eq!(lab.last_run(), (1, more.len() as u64));
    lab.append(&file(U), &format!("{}\n", output(4, "2", "done")));
    let calls = lab.new_calls(&[]);
    assert_eq!(calls[0].session.as_deref(), Some(T));
    assert_eq!(calls[0].client_version.as_deref(), Some("0.144.0"));
}

#[test]
fn forks_and_sub_agents_are_told_from_their_parents() {
    let mut lab = Lab::new();
    let parent = [function_call(1, "1", MAIL, "{}"), output(2, "1", "done")];
    let copy = [function_call(40, "1", MAIL, "{}"), output(40, "1", "done")];
    let forked = thread(U, &format!(r#","forked_from_id":"{T}""#));
    let spawned = thread(
        V,
        &format!(
            r#","source":{{"subagent":{{"thread_spawn":{{"parent_thread_id":"{T}","depth":1}}}}}}"#
        ),
    );
    let own = |n: &str| [function_call(50, n, MAIL, "{}"), output(51, n, "done")];
    let all = |head: &str, own: &[String; 2]| {
        let lines = [head, &thread(T, ""), &copy[0], &copy[1], &own[0], &own[1]].map(str::to_owned);
        lines.to_vec()
    };
    let put = |lab: &Lab, thread: &str, lines: &[String]| {
        lab.put(&file(thread), &lines.iter().map(String::as_str).collect::<Vec<_>>());
    };
    put(&lab, U, &all(&forked, &own("2")));
    put(&lab, V, &all(&spawned, &own("3")));
    put(&lab, T, &[thread(T, ""), parent[0].clone(), parent[1].clone()]);
    let calls = lab.new_calls(&[]);
    let mut got: Vec<_> = calls
        .iter()
        .map(|c| (c.ts.unix_ms() % 60_000, c.session.as_deref(), c.agent.as_deref()))
        .collect();
    got.sort_unstable();
    let want = [(1000, Some(T), None), (50_000, Some(T), Some(V)), (50_000, Some(U), None)];
    assert_eq!(got, want);
    // What comes later in the sub-agent's file is its root's too.
    lab.append(&file(V), &(own("4").join("\n") + "\n"));
    assert_eq!(lab.new_calls(&[])[0].session.as_deref(), Some(T));
}

#[test]
fn an_archived_or_compressed_thread_is_the_same() {
    let mut lab = Lab::new();
    let lines = [thread(T, ""), function_call(1, "1", MAIL, "{}"), output(2, "1", "done")];
    lab.put(&file(T), &[&lines[0], &lines[1], &lines[2]]);
    assert_eq!(lab.news(), [format!("{T} mail true")]);
    let archived = format!("codex/archived_sessions/rollout-2026-03-01T00-00-00-{T}.jsonl");
    fs::create_dir_all(lab.path("codex/archived_sessions")).expect("a directory");
    fs::rename(lab.path(&file(T)), lab.path(&archived)).expect("moved");
    assert!(lab.news().is_empty());
    let more = format!("{}\n{}\n", function_call(3, "2", MAIL, "{}"), output(4, "2", "done"));
    let text = format!("{}\n{more}", lines.join("\n"));
    let packed = zstd::encode_all(text.as_bytes(), 3).expect("compressed");
    publish(&lab.path(&format!("{archived}.zst")), &packed).expect("put");
    assert!(lab.news().is_empty(), "the plain file wins");
    fs::remove_file(lab.path(&archived)).expect("removed");
    assert_eq!(lab.news(), [format!("{T} mail true")]);
    assert!(lab.news().is_empty());
    // Where a compressed file is damaged, what stands before is kept.
    let damaged = format!("codex/archived_sessions/rollout-2026-03-01T00-00-00-{U}.jsonl.zst");
    let other = [thread(U, ""), function_call(3, "3", MAIL, "{}"), output(4, "3", "done")];
    let mut frames = zstd::encode_all((other.join("\n") + "\n").as_bytes(), 3).expect("x");
    frames.extend_from_slice(&packed[..packed.len() - 5]);
    publish(&lab.path(&damaged), &frames).expect("put");
    assert_eq!(lab.news(), [format!("{U} mail true")]);
    assert!(lab.news().is_empty());
}
