//! Bytes cut, flipped and doubled: no panic, and no more is lost than what was touched.

use std::collections::BTreeSet;
use std::path::Path;

use mws_event::Timestamp;

use super::rollouts::{end_event, function_call, output, thread};
use super::{call, result, time};
use crate::claude_code;
use crate::codex;
use crate::gemini_cli;
use crate::names::Names;
use crate::qwen_code;
use crate::scan::{Tail, Window};
use crate::sources::{Reader, Task};

/// A type of transcripts, and lines of it: calls of ours and of others in turn, then their results.
struct Format {
    read: Reader,
    lines: fn() -> Vec<String>,
    found: usize,
}

const FORMATS: [Format; 4] = [
    Format { read: claude_code::read, lines: claude_lines, found: 6 },
    Format { read: codex::read, lines: codex_lines, found: 12 },
    Format { read: gemini_cli::read, lines: gemini_lines, found: 6 },
    Format { read: qwen_code::read, lines: qwen_lines, found: 6 },
];

impl Format {
    /// Ids of the calls and of the results found in `text`.
    fn read(&self, text: &[u8], window: &mut Window) -> BTreeSet<String> {
        let names = Names::new(["toolbox"], []);
        let mtime = Timestamp::from_unix_ms(0);
        let path = Path::new("/p/A.jsonl");
        let task = Task { path, mtime, names: &names, first_line: None };
        let read = (self.read)(&task, &mut &*text, window, Tail::default());
        let batch = read.expect("no I/O error").1;
        let calls = batch.calls.iter().map(|call| format!("call {}", call.call_id));
        let results = batch.results.iter().map(|(id, ..)| format!("result {id}"));
        calls.chain(results).collect()
    }
}

fn claude_lines() -> Vec<String> {
    let mut lines = Vec::new();
    for i in 0..3 {
        let id = i.to_string();
        lines.push(call("A", i, &id, "mcp__toolbox__mail"));
        lines.push(call("A", i, &format!("9{i}"), "Bash"));
        lines.push(result("A", i + 1, &id, ""));
        lines.push(result("A", i + 1, &format!("9{i}"), ""));
    }
    lines
}

fn codex_lines() -> Vec<String> {
    let mut lines = vec![thread("T", "")];
    for i in 0..3 {
        let id = i.to_string();
        lines.push(function_call(i, &id, "mcp__toolbox__mail", "{}"));
        lines.push(function_call(i, &format!("9{i}"), "shell", "{}"));
        lines.push(output(i + 1, &id, "done"));
        lines.push(output(i + 1, &format!("9{i}"), "done"));
        lines.push(end_event(i + 1, &format!("5{i}"), "mail", r#"{"Ok":{"isError":true}}"#));
    }
    lines
}

fn gemini_lines() -> Vec<String> {
    let mut lines = vec![r#"{"sessionId":"G","projectHash":"p"}"#.to_owned()];
    for i in 0..3 {
        for (id, server) in [(i, "toolbox"), (90 + i, "other")] {
            lines.push(format!(
                r#"{{"id":"m","timestamp":"{}","type":"gemini","toolCalls":[{{"id":"mcp_{id:0>24}","args":{{}},"status":"success","displayName":"mail ({server} MCP Server)"}}]}}"#,
                time(i)
            ));
        }
    }
    lines
}

fn qwen_lines() -> Vec<String> {
    let mut lines = Vec::new();
    for i in 0..3 {
        let record = |kind: &str, more: &str| {
            format!(r#"{{"sessionId":"Q","timestamp":"{}","type":"{kind}",{more}}}"#, time(i))
        };
        let both = [(i, "mcp__toolbox__mail"), (90 + i, "read_file")];
        for (id, name) in both {
            let call = format!(r#"{{"id":"call_{id:0>24}","name":"{name}","args":{{}}}}"#);
            let parts = format!(r#""message":{{"parts":[{{"functionCall":{call}}}]}}"#);
            lines.push(record("assistant", &parts));
        }
        for (id, _) in both {
            let result = format!(r#"{{"callId":"call_{id:0>24}","status":"success"}}"#);
            lines.push(record("tool_result", &format!(r#""toolCallResult":{result}"#)));
        }
    }
    lines
}

/// Everything but what the touched lines show. A call that became one of another tool takes its
/// result along, two lines below.
fn must_remain(
    format: &Format,
    lines: &[String],
    touched: &[usize],
    window: &mut Window,
) -> BTreeSet<String> {
    let is_touched = |i: &usize| touched.iter().any(|at| at == i || at + 2 == *i);
    let kept = lines.iter().enumerate().filter(|(i, _)| !is_touched(i));
    let text: String = kept.map(|(_, line)| format!("{line}\n")).collect();
    let found = format.read(text.as_bytes(), window);
    found.into_iter().filter(|found| !found.contains("0009")).collect()
}

#[test]
fn a_flipped_or_cut_byte_costs_the_records_it_touches_at_most() {
    let mut window = Window::new();
    for format in FORMATS {
        let lines = (format.lines)();
        let text: Vec<u8> =
            lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
        let mut line = 0;
        for at in 0..text.len() {
            let touched = if text[at] == b'\n' { vec![line, line + 1] } else { vec![line] };
            let want = must_remain(&format, &lines, &touched, &mut window);
            let mut check = |bad: &[u8], what: &str| {
                let got = format.read(bad, &mut window);
                assert!(want.is_subset(&got), "{what} at {at}: {want:?} not in {got:?}");
            };
            for flip in [1, 32, 128] {
                let mut bad = text.clone();
                bad[at] ^= flip;
                check(&bad, "flipped");
            }
            check(&[&text[..at], &text[at + 1..]].concat(), "cut");
            check(&[&text[..=at], &text[at..]].concat(), "doubled");
            line += usize::from(text[at] == b'\n');
        }
    }
}

#[test]
fn a_file_cut_anywhere_keeps_what_stands_before() {
    let mut window = Window::new();
    for format in FORMATS {
        let text = (format.lines)().join("\n");
        let mut seen = BTreeSet::new();
        for end in 0..=text.len() {
            let got = format.read(&text.as_bytes()[..end], &mut window);
            assert!(seen.is_subset(&got) || end < text.len(), "cut at {end}");
            seen = got;
        }
        assert_eq!(seen.iter().filter(|found| !found.contains("0009")).count(), format.found);
    }
}

#[test]
fn results_of_other_tools_are_left_unparsed() {
    for format in FORMATS {
        let found = format.read((format.lines)().join("\n").as_bytes(), &mut Window::new());
        assert_eq!(found.len(), format.found, "{found:?}");
    }
}

#[test]
fn what_looks_like_a_call_is_none() {
    let real = call("A", 1, "1", "mcp__toolbox__mail");
    let user = real.replace(r#""type":"assistant""#, r#""type":"user""#);
    let progress = format!(
        r#"{{"type":"progress","sessionId":"A","timestamp":"2026-03-01T00:00:00Z","data":{{"message":{real}}}}}"#
    );
    let pasted = format!(
        r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":"{}"}}]}}}}"#,
        real.replace('"', "\\\"")
    );
    let string = r#"{"type":"assistant","message":{"content":"mcp__toolbox__mail \"tool_use\""}}"#;
    for decoy in [user.as_str(), &progress, &pasted, string, "[\"toolbox__\"]", "toolbox__"] {
        assert!(
            FORMATS[0].read(format!("{decoy}\n").as_bytes(), &mut Window::new()).is_empty(),
            "{decoy}"
        );
    }
    assert_eq!(FORMATS[0].read(format!("{real}\n").as_bytes(), &mut Window::new()).len(), 1);
}
