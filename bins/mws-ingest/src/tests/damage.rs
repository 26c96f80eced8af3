//! Bytes cut, flipped and doubled: no panic, and no more is lost than what was touched.

use std::collections::BTreeSet;
use std::path::Path;

use mws_event::Timestamp;

use super::{call, result};
use crate::claude_code;
use crate::names::Names;
use crate::scan::{Tail, Window};
use crate::sources::Task;

/// Ids of the calls and of the results found in `text`.
fn read(text: &[u8], window: &mut Window) -> BTreeSet<String> {
    let names = Names::new(["toolbox"], []);
    let mtime = Timestamp::from_unix_ms(0);
    let task = Task { path: Path::new("/p/A.jsonl"), mtime, names: &names };
    let read = claude_code::read(&task, &mut &*text, window, Tail::default());
    let batch = read.expect("no I/O error").1;
    let calls = batch.calls.iter().map(|call| format!("call {}", call.call_id));
    let results = batch.results.iter().map(|(id, ..)| format!("result {id}"));
    calls.chain(results).collect()
}

fn lines() -> Vec<String> {
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

/// Everything but what the touched lines show. A call that became one of another tool takes its
/// result along, two lines below.
fn must_remain(lines: &[String], touched: &[usize], window: &mut Window) -> BTreeSet<String> {
    let is_touched = |i: &usize| touched.iter().any(|at| at == i || at + 2 == *i);
    let kept = lines.iter().enumerate().filter(|(i, _)| !is_touched(i));
    let text: String = kept.map(|(_, line)| format!("{line}\n")).collect();
    read(text.as_bytes(), window).into_iter().filter(|found| !found.contains("0009")).collect()
}

#[test]
fn a_flipped_or_cut_byte_costs_the_records_it_touches_at_most() {
    let (lines, mut window) = (lines(), Window::new());
    let text: Vec<u8> = lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
    let mut line = 0;
    for at in 0..text.len() {
        let touched = if text[at] == b'\n' { vec![line, line + 1] } else { vec![line] };
        let want = must_remain(&lines, &touched, &mut window);
        for flip in [1, 32, 128] {
            let mut bad = text.clone();
            bad[at] ^= flip;
            let got = read(&bad, &mut window);
            assert!(want.is_subset(&got), "flip {flip} at {at}: {want:?} not in {got:?}");
        }
        let cut = [&text[..at], &text[at + 1..]].concat();
        assert!(want.is_subset(&read(&cut, &mut window)), "byte {at} cut out");
        let doubled = [&text[..=at], &text[at..]].concat();
        assert!(want.is_subset(&read(&doubled, &mut window)), "byte {at} doubled");
        line += usize::from(text[at] == b'\n');
    }
}

#[test]
fn a_file_cut_anywhere_keeps_what_stands_before() {
    let (lines, mut window) = (lines(), Window::new());
    let text = lines.join("\n");
    let mut seen = BTreeSet::new();
    for end in 0..=text.len() {
        let got = read(&text.as_bytes()[..end], &mut window);
        assert!(seen.is_subset(&got) || end < text.len(), "cut at {end}");
        seen = got;
    }
    assert_eq!(seen.iter().filter(|found| !found.contains("0009")).count(), 6);
}

#[test]
fn results_of_other_tools_are_left_unparsed() {
    let found = read(lines().join("\n").as_bytes(), &mut Window::new());
    assert_eq!(found.len(), 6, "{found:?}");
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
        assert!(read(format!("{decoy}\n").as_bytes(), &mut Window::new()).is_empty(), "{decoy}");
    }
    assert_eq!(read(format!("{real}\n").as_bytes(), &mut Window::new()).len(), 1);
}
