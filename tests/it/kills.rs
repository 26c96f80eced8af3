//! Programs of the pipeline killed at any moment: what they publish in the end is what one quiet
//! run would.
//!
//! Invariant: transcripts grow while the programs run, and the truth is the whole of them.
//! Deliberately absent: writers of the log and of the index, tested beside their code.

use mws_tests::lab::{Lab, bin};
use mws_tests::random::Random;
use serde_json::json;
use std::fmt::Write;
use std::time::Duration;

const SESSIONS: usize = 12;
const TOOLS: usize = 9;
const AS_OF: [&str; 2] = ["--as-of", "2026-05-01"];

#[test]
fn the_last_artifact_equals_a_fresh_replay_byte_for_byte() {
    let heavy = std::env::var_os("MWS_HEAVY").is_some();
    let kills = if heavy { 400 } else { 60 };
    let config = json!({"pinFiles": [], "transcripts": [{"type": "claude-code", "root": "~/.claude/projects"}]});
    let (lab, fresh) = (Lab::with_config(&config), Lab::with_config(&config));
    let mut random = Random(88_172_645_463_325_252);
    let (mut killed, mut grown) = (0, 0);
    for n in 0..kills {
        // The last sessions are there well before the end.
        let wanted = (n * SESSIONS * 5 / 4 / kills + 1).min(SESSIONS);
        while grown < wanted {
            lab.write(&path(grown), &session(grown));
            grown += 1;
        }
        let (program, args) = match random.below(2) {
            0 => ("mws-ingest", &[][..]),
            _ => ("mws-promote", &AS_OF[..]),
        };
        let mut command = lab.command(bin(program));
        let quiet = std::process::Stdio::null;
        let mut child = command.args(args).stdout(quiet()).stderr(quiet()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(random.below(40_000)));
        killed += usize::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    (0..SESSIONS).for_each(|n| drop(fresh.write(&path(n), &session(n))));
    let sets = [&lab, &fresh].map(|lab| {
        let _ = lab.run("mws-ingest", &[]).ok();
        let _ = lab.run("mws-promote", &AS_OF).ok();
        std::fs::read_to_string(lab.state("working-set.json")).unwrap()
    });
    println!("{killed} kills; {}", sets[1].trim());
    assert_eq!(sets[0], sets[1]);
    assert!(sets[1].contains("tool_0") && killed > kills / 4, "{killed} kills");
    assert!(lab.events().iter().all(|event| event["ts"].is_string()));
    let report = lab.run("mws-report", &["--json"]).ok().stdout;
    let health = &serde_json::from_str::<serde_json::Value>(&report).unwrap()["health"];
    assert_eq!((&health["damaged_lines"], &health["missing_events"]), (&json!(0), &json!(0)));
}

fn path(session: usize) -> String {
    format!(".claude/projects/-srv-app/{session:08}-0000-4000-a000-000000000000.jsonl")
}

/// Calls of all tools; some only in few sessions, one in three without success.
fn session(n: usize) -> String {
    let mut text = String::new();
    for call in 0..80 {
        let (tool, failed) = ((call * 7 + n) % TOOLS.min(n + 2), (call + n).is_multiple_of(3));
        let id = format!("toolu_{n:012}{call:012}");
        let line = |kind: &str, second: usize, content: serde_json::Value| {
            json!({
                "sessionId": format!("{n:08}-0000-4000-a000-000000000000"), "version": "2.1.123", "type": kind,
                "uuid": format!("{kind}-{n}-{call}"),
                "timestamp": format!("2026-04-{:02}T10:{:02}:{second:02}.000Z", n + 1, call % 60),
                "message": {"role": kind, "content": [content]},
            })
        };
        let used = json!({"type": "tool_use", "id": id, "name": format!("mcp__toolbox__tool_{tool}"), "input": {}});
        let done = json!({"type": "tool_result", "tool_use_id": id, "content": "x".repeat(900), "is_error": failed});
        let (used, done) = (line("assistant", 0, used), line("user", 2, done));
        writeln!(text, "{used}\n{done}").unwrap();
    }
    text
}
