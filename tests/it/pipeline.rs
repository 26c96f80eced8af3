//! From a client's transcript to a listed tool, and the programs in pipes.
//!
//! Invariant: dates are fixed and the clock is given (`--as-of`), so no run depends on its day.
//! Deliberately absent: the rules of promotion case by case (unit tests of the policy).

use mws_tests::lab::{Done, Lab, bin, eventually, workspace};
use mws_tests::peer::Peer;
use mws_tests::script::{Era, Script};
use mws_tests::stub::Stub;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const AS_OF: &str = "2026-04-10T00:00:00Z";

#[test]
fn a_tool_used_in_two_sessions_gets_listed_while_the_proxy_runs() {
    let stub = Stub::start(Script::new(Era::Both));
    let lab = Lab::facing(&stub.url);
    transcripts(&lab, "apple_pick");
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url).named("claude-code");
    assert_eq!(peer.tool_names(), ["search_tools", "call_tool"]);
    let _ = lab.run("mws-ingest", &[]).ok();
    assert_eq!(lab.calls("apple_pick").len(), 2, "{:?}", lab.events());
    let _ = lab.run("mws-promote", &["--as-of", AS_OF]).ok();
    let listed = || peer.tool_names() == ["search_tools", "call_tool", "apple_pick"];
    assert!(eventually(Duration::from_secs(3), listed), "listed: {:?}", peer.tool_names());
    assert_eq!(Peer::session(&proxy.url).tool_names().last().unwrap(), "apple_pick");
    peer.call("apple_pick", &json!({"count": 3}));
    peer.call("plum_dry", &json!({}));
    peer.call("call_tool", &json!({"name": "pear_peel", "arguments": {"knife": "k"}}));
    let logged = || printed(&lab.run("mws", &["log", "--type", "call"]).ok().stdout);
    let seen = |tool: &str, via: &str| {
        logged().iter().any(|call| {
            call["tool"] == tool
                && call["via"] == via
                && call["ok"] == true
                && call["client"] == "claude-code"
        })
    };
    for (tool, via) in
        [("apple_pick", "listed"), ("plum_dry", "direct"), ("pear_peel", "call_tool")]
    {
        let there = eventually(Duration::from_secs(3), || seen(tool, via));
        assert!(there, "{tool} {via} is not in the log: {:?}", logged());
    }
}

#[test]
fn ingesting_twice_adds_nothing() {
    let lab = Lab::new();
    transcripts(&lab, "apple_pick");
    let _ = lab.run("mws-ingest", &[]).ok();
    let first = lab.calls("apple_pick");
    let _ = lab.run("mws-ingest", &[]).ok();
    assert_eq!(lab.calls("apple_pick"), first);
}

#[test]
fn promoting_twice_writes_the_same_bytes() {
    let lab = Lab::new();
    transcripts(&lab, "apple_pick");
    let _ = lab.run("mws-ingest", &[]).ok();
    let _ = lab.run("mws-promote", &["--as-of", AS_OF]).ok();
    let read = || std::fs::read_to_string(lab.state("working-set.json")).unwrap();
    let (first, events) = (read(), lab.events().len());
    let _ = lab.run("mws-promote", &["--as-of", AS_OF]).ok();
    assert_eq!(read(), first);
    assert_eq!(lab.events().len(), events, "equal bytes are not published again");
    let parsed: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(parsed["tools"][0]["name"], "apple_pick");
    assert_eq!(parsed["tools"][0]["why"], "promoted");
}

#[test]
fn a_pending_change_is_told_by_the_exit_code() {
    let lab = Lab::new();
    transcripts(&lab, "apple_pick");
    let _ = lab.run("mws-ingest", &[]).ok();
    let ask = || lab.run("mws-promote", &["-n", "--exit-code", "--as-of", AS_OF]).code;
    assert_eq!(ask(), 3);
    let _ = lab.run("mws-promote", &["--as-of", AS_OF]).ok();
    assert_eq!(ask(), 0);
}

#[test]
fn a_call_in_the_log_and_in_a_transcript_counts_once() {
    let folder = workspace().join("tests/fixtures/merge");
    let mut cases = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let case = entry.unwrap().path();
        let expected = std::fs::read_to_string(case.join("expected.json")).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        for order in [["calls.jsonl", "events.jsonl"], ["events.jsonl", "calls.jsonl"]] {
            let files = order.map(|file| case.join(file).display().to_string());
            let lab = Lab::new();
            let args = ["--json", "-n", "--as-of", AS_OF, &files[0], &files[1]];
            let lines = printed(&lab.run("mws-promote", &args).ok().stdout);
            counts(&case, &lines, &expected["tools"]);
        }
        cases += 1;
    }
    assert!(cases >= 5, "{cases} cases in {}", folder.display());
}

#[test]
fn the_programs_work_in_pipes() {
    let lab = Lab::new();
    transcripts(&lab, "apple_pick");
    let table = |line: &str| {
        let done = lab.shell(line).ok();
        assert!(done.stdout.contains("apple_pick"), "{line}: {} {}", done.stdout, done.stderr);
    };
    table(&format!("mws-ingest -o - | mws-promote -n --as-of {AS_OF} -"));
    assert!(lab.events().is_empty(), "printing must not append");
    let _ = lab.run("mws-ingest", &[]).ok();
    table(&format!("mws log | jq -c 'select(.ok)' | mws-promote -n --as-of {AS_OF} -"));
    table(&format!("mws log | jq -c 'select(.client!=\"ci\")' | mws-promote -n --as-of {AS_OF} -"));
    table("mws log | mws-report -");
    table(&format!("mws-promote -o - --as-of {AS_OF} | jq -r '.tools[].name'"));
    assert!(!lab.state("working-set.json").exists(), "printing must not publish");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let lab = Lab::new();
    transcripts(&lab, "apple_pick");
    let _ = lab.run("mws-ingest", &[]).ok();
    let catalog = json!({"tools": [{"name": "apple_pick", "inputSchema": {"type": "object"}}]});
    lab.write_state("catalog.json", &catalog.to_string());
    for words in [
        "mws-ingest --from-start -o -",
        "mws-promote -n --as-of 2026-04-10",
        "mws-promote -o - --as-of 2026-04-10",
        "mws-promote --json -n --as-of 2026-04-10",
        "mws-index search apple",
        "mws-report",
        "mws-report --json",
        "mws log",
        "mws paths",
        "mws-proxy --help",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut words_of = words.split(' ');
        let mut command = lab.command(bin(words_of.next().unwrap()));
        let child = command.args(words_of).stdout(Stdio::from(writer)).stderr(Stdio::piped());
        let output = child.spawn().unwrap().wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words}: {said}");
        assert!(!said.contains("panicked"), "{words}: {said}");
    }
}

#[test]
fn the_index_answers_like_the_running_proxy() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    peer.tool_names();
    assert!(eventually(Duration::from_secs(3), || lab.state("catalog.json").exists()));
    let _ = lab.run("mws-index", &[]).ok();
    for query in ["apple_pick", "dry fruit", "knife", "nothing like it"] {
        let reply = peer.call("search_tools", &json!({"query": query}));
        let text = reply["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply}"));
        let printed = lab.run("mws-index", &["search", "--json", query]).ok().stdout;
        assert_eq!(printed.trim_end(), text, "{query}");
    }
}

#[test]
fn the_demo_shows_what_is_saved() {
    let lab = Lab::new();
    let done = lab.run("mws", &["demo", "--once"]).ok();
    for word in ["search_tools", "call_tool", "tokens"] {
        assert!(done.stdout.contains(word), "no {word} in {}", done.stdout);
    }
}

#[test]
fn a_configuration_is_written_once() {
    let lab = Lab::new();
    let _ = lab.run("mws", &["init"]).ok();
    let path = lab.path(mws_tests::lab::CONFIG);
    let first = std::fs::read_to_string(&path).unwrap();
    assert!(serde_json::from_str::<Value>(&first).unwrap()["upstream"].is_object());
    let again: Done = lab.run("mws", &["init"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), first);
    assert!(again.stderr.contains("config.json"), "{}", again.stderr);
}

fn counts(case: &Path, lines: &[Value], expected: &Value) {
    for (tool, expected) in expected.as_object().unwrap() {
        let line = lines.iter().find(|line| line["tool"] == tool.as_str());
        let line = line.unwrap_or_else(|| panic!("{}: no {tool} in {lines:?}", case.display()));
        assert_eq!(line["calls"], expected["calls"], "{}: {line}", case.display());
        assert_eq!(line["sessions"], expected["sessions"], "{}: {line}", case.display());
    }
}

fn printed(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Two sessions of Claude Code that called this tool, with success.
fn transcripts(lab: &Lab, tool: &str) {
    for (day, session) in [
        ("01", "11111111-1111-4111-a111-111111111111"),
        ("03", "22222222-2222-4222-a222-222222222222"),
    ] {
        let line = |second: &str, kind: &str, message: &Value| {
            json!({
                "parentUuid": null, "isSidechain": false, "userType": "external", "cwd": "/srv/app",
                "sessionId": session, "version": "2.1.123", "type": kind,
                "uuid": format!("{day}{second}0000-0000-4000-a000-000000000000"),
                "timestamp": format!("2026-04-{day}T10:00:{second}.000Z"), "message": message,
            })
        };
        let call = format!("toolu_0900000000000000000000{day}");
        let used = json!({"type": "tool_use", "id": call, "name": format!("mcp__toolbox__{tool}"), "input": {}});
        let done = json!({"type": "tool_result", "tool_use_id": call, "content": "done"});
        let lines = [
            line(
                "00",
                "assistant",
                &json!({"role": "assistant", "id": format!("msg_{day}"), "content": [used]}),
            ),
            line("02", "user", &json!({"role": "user", "content": [done]})),
        ];
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        lab.write(&format!(".claude/projects/-srv-app/{session}.jsonl"), &text);
    }
}

#[test]
fn a_followed_log_ends_with_its_reader_though_nothing_is_added() {
    let lab = Lab::new();
    lab.write_state("calls.jsonl", &format!("{OLD_CALL}\n"));
    let done = lab.shell("timeout 20 mws log -f | head -n 1").ok();
    assert_eq!(done.stdout, format!("{OLD_CALL}\n"));
}

#[test]
fn a_segment_that_cannot_be_read_is_named_and_passed() {
    let lab = Lab::new();
    lab.write_state("events/events-000001.jsonl", &format!("{OLD_CALL}\n"));
    lab.write_state("events/events-000003.jsonl", &format!("{OLD_CALL}\n"));
    let _ = lab.shell("mkfifo .local/state/mcp-working-set/events/events-000002.jsonl").ok();
    for program in ["mws log", "mws-promote -n --json"] {
        let done = lab.shell(&format!("timeout 20 {program}")).ok();
        assert!(done.stderr.contains("events-000002.jsonl"), "{program}: {}", done.stderr);
        assert!(done.stderr.contains("1 unreadable files"), "{program}: {}", done.stderr);
    }
    assert_eq!(lab.run("mws", &["log"]).ok().stdout, format!("{OLD_CALL}\n").repeat(2));
}

#[test]
fn a_target_named_by_hand_is_written_through_and_no_directory_is_made() {
    let lab = Lab::new();
    lab.write_state("calls.jsonl", &format!("{OLD_CALL}\n"));
    lab.write_state("catalog.json", r#"{"tools":[{"name":"apple_pick"}]}"#);
    transcripts(&lab, "apple_pick");
    for (program, starts) in [("mws-promote", "{"), ("mws-index", "MWSX"), ("mws-ingest", "{")] {
        let line =
            format!("mkfifo pipe; timeout 20 {program} -o pipe & timeout 20 head -c 4 <pipe");
        let piped = lab.shell(&format!("{line}; wait; [ -p pipe ] && rm pipe")).ok();
        assert!(piped.stdout.starts_with(starts), "{program}: {}", piped.stdout);
        let line = format!("ln -s real link; {program} -o link && [ -L link ] && [ -s real ]");
        let _ = lab.shell(&format!("{line} && rm link real && ln -sf /dev/full full")).ok();
        let done = lab.run(program, &["-o", "full"]);
        assert_eq!(done.code, 1, "{program}: {}", done.stderr);
        let done = lab.run(program, &["-o", "missing/out"]);
        assert_eq!(done.code, 1, "{program}: {}", done.stderr);
        assert!(done.stderr.contains("missing") && !lab.path("missing").exists(), "{program}");
        let _ = lab.run(program, &["-o", "plain"]).ok();
        let written = std::fs::read(lab.path("plain")).unwrap();
        assert!(written.starts_with(starts.as_bytes()), "{program}");
    }
}

const OLD_CALL: &str = r#"{"ts":"2026-03-01T00:00:11.000Z","tool":"apple_pick","ok":true}"#;
