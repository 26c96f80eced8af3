//! What repeated runs append while files grow, move, change and vanish.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::Duration;

use mws_event::Via;
use mws_state::{StageLock, publish};

use crate::engine::{Engine, Pace};
use crate::names::Names;
use crate::progress::Progress;
use crate::sources::SOURCES;
use crate::state::State;
use crate::stats::count;
use crate::walk::{Root, walk};

use super::{FAILED, Lab, call, call_with, result};

const A: &str = "projects/-srv/A.jsonl";
const B: &str = "projects/-srv/B.jsonl";
const MAIL: &str = "mcp__toolbox__mail";

#[test]
fn a_call_is_appended_once_with_all_that_is_known() {
    let mut lab = Lab::new();
    lab.put(A, &[&call("A", 10, "1", MAIL), &result("A", 12, "1", "")]);
    let calls = lab.new_calls(&[]);
    let [call] = calls.as_slice() else { panic!("one call, not {calls:?}") };
    assert_eq!(call.ts.to_string(), "2026-03-01T00:00:10.000Z");
    assert_eq!((call.tool.as_str(), call.via, call.ok, call.ms), ("mail", Via::Direct, true, 2000));
    assert_eq!(call.client, "claude-code");
    assert_eq!(call.session.as_deref(), Some("A"));
    assert_eq!(call.call_id.as_deref(), Some("toolu_000000000000000000000001"));
    assert_eq!(call.client_version.as_deref(), Some("2.1.0"));
    assert_eq!((call.server.as_deref(), call.raw.as_deref()), (Some("toolbox"), None));
    assert!(lab.news().is_empty());
}

#[test]
fn growth_is_read_from_where_the_last_run_stopped() {
    let mut lab = Lab::new();
    lab.put(A, &[&call("A", 1, "1", MAIL), &result("A", 2, "1", ""), &"x".repeat(9000)]);
    assert_eq!(lab.news(), ["A mail true"]);
    let more = format!("{}\n{}\n", call("A", 3, "2", MAIL), result("A", 4, "2", FAILED));
    lab.append(A, &more[..40]);
    assert!(lab.news().is_empty());
    lab.append(A, &more[40..]);
    assert_eq!(lab.news(), ["A mail false"]);
    assert_eq!(lab.last_run(), (1, more.len() as u64));
}

#[test]
fn a_moved_or_replaced_file_is_not_read_again() {
    let mut lab = Lab::new();
    lab.put(A, &[&call("A", 1, "1", MAIL), &result("A", 2, "1", "")]);
    assert_eq!(lab.news(), ["A mail true"]);
    let more = format!("{}\n", call("A", 3, "2", MAIL));
    fs::create_dir_all(lab.path("projects/-old")).expect("a directory");
    fs::rename(lab.path(A), lab.path("projects/-old/A.jsonl")).expect("moved");
    lab.append("projects/-old/A.jsonl", &more);
    assert!(lab.news().is_empty());
    assert_eq!(lab.last_run(), (1, more.len() as u64));
    let copy = fs::read(lab.path("projects/-old/A.jsonl")).expect("read");
    publish(&lab.path("projects/-old/A.jsonl"), &copy).expect("replaced");
    let end = format!("{}\n", result("A", 4, "2", ""));
    lab.append("projects/-old/A.jsonl", &end);
    assert_eq!(lab.news(), ["A mail true"]);
    assert_eq!(lab.last_run(), (1, end.len() as u64));
}

#[test]
fn a_file_rewritten_in_place_is_read_from_its_start() {
    let mut lab = Lab::new();
    let (one, ended) = (call("A", 1, "1", MAIL), result("A", 2, "1", ""));
    lab.put(A, &[&one, &ended]);
    assert_eq!(lab.news(), ["A mail true"]);
    let (two, failed) = (call("A", 3, "2", MAIL), result("A", 4, "2", FAILED));
    lab.put(A, &[&two]);
    assert!(lab.news().is_empty());
    lab.put(A, &[&failed, &one, &ended, &two, &failed]);
    assert_eq!(lab.news(), ["A mail false"]);
    fs::remove_file(lab.path(A)).expect("removed");
    assert!(lab.news().is_empty());
    lab.put(A, &[&one, &ended]);
    assert!(lab.news().is_empty(), "a file that comes back");
}

#[test]
fn call_and_result_meet_across_files_and_runs_in_any_order() {
    let mut lab = Lab::new();
    lab.put(A, &[&call("A", 1, "1", MAIL)]);
    lab.put(B, &[&result("B", 9, "2", "")]);
    assert!(lab.news().is_empty());
    lab.append(A, &format!("{}\n", call("A", 2, "2", "mcp__toolbox__drive")));
    lab.append(B, &format!("{}\n", result("B", 10, "1", "")));
    assert_eq!(lab.news(), ["A mail true", "A drive true"]);
}

#[test]
fn only_a_failure_that_becomes_a_success_is_appended_twice() {
    let mut lab = Lab::new();
    lab.put(A, &[&call("A", 1, "1", MAIL), &result("A", 2, "1", FAILED)]);
    let first = lab.new_calls(&[]);
    lab.append(A, &format!("{}\n", result("A", 3, "1", FAILED)));
    assert!(lab.news().is_empty());
    lab.append(A, &format!("{}\n", result("A", 4, "1", "")));
    let second = lab.new_calls(&[]);
    assert_eq!((first[0].ok, second[0].ok), (false, true));
    assert_eq!(first[0].call_id, second[0].call_id);
    assert_ne!(first[0].id, second[0].id);
    lab.append(A, &format!("{}\n", result("A", 5, "1", FAILED)));
    assert!(lab.news().is_empty());
}

#[test]
fn when_nothing_changed_nothing_is_written() {
    let mut lab = Lab::new();
    lab.put(A, &[&call("A", 1, "1", MAIL), &result("A", 2, "1", "")]);
    lab.news();
    let stamps = |lab: &Lab| {
        ["state/ingest/state.bin", "state/events/events-000001.jsonl"].map(|name| {
            let meta = fs::metadata(lab.path(name)).expect("there");
            (meta.ino(), meta.size(), meta.mtime_nsec())
        })
    };
    let before = stamps(&lab);
    lab.news();
    lab.run(&["-n"]);
    lab.run(&["--from-start", "-o", &lab.path("out.jsonl").display().to_string()]);
    assert_eq!(stamps(&lab), before);
    let out = fs::read_to_string(lab.path("out.jsonl")).expect("written");
    assert_eq!(out.lines().count(), 1);
}

#[test]
fn dry_runs_do_not_even_create_the_state_directory() {
    let lab = Lab::new();
    lab.put(A, &[&call("A", 1, "1", MAIL), &result("A", 2, "1", "")]);
    lab.run(&["-n"]);
    lab.run(&["-o", &lab.path("out.jsonl").display().to_string()]);
    assert!(!lab.path("state").exists());
    assert!(lab.path("out.jsonl").exists());
}

#[test]
fn nothing_makes_a_call_stand_twice_in_the_log() {
    let mut lab = Lab::new();
    let lines = [call("A", 1, "1", MAIL), result("A", 2, "1", FAILED), call("A", 3, "2", MAIL)];
    lab.put(A, &[&lines[0], &lines[1], &lines[2], &result("A", 4, "2", "")]);
    let first = lab.new_calls(&[]);
    assert_eq!(first.len(), 2);
    assert!(lab.new_calls(&["--from-start"]).is_empty());
    let state = lab.path("state/ingest/state.bin");
    let mut bytes = fs::read(&state).expect("read");
    bytes[20] ^= 1;
    publish(&state, &bytes).expect("damaged");
    assert!(lab.new_calls(&[]).is_empty());
    lab.append(A, &(result("A", 5, "1", "") + "\n"));
    fs::remove_dir_all(lab.path("state/ingest")).expect("removed");
    assert_eq!(lab.news(), ["A mail true"], "a failure that turned out a success");
    assert!(lab.news().is_empty());
}

#[test]
fn a_log_that_is_gone_is_written_again_with_the_same_ids() {
    let mut lab = Lab::new();
    lab.put(A, &[&call("A", 1, "1", MAIL), &result("A", 2, "1", "")]);
    let first = lab.new_calls(&[]);
    fs::remove_dir_all(lab.path("state/events")).expect("removed");
    lab.reported = 0;
    assert!(lab.new_calls(&[]).is_empty());
    assert_eq!(lab.new_calls(&["--from-start"]), first);
}

#[test]
fn calls_before_since_are_passed_over() {
    let mut lab = Lab::new();
    let lines = [call("A", 1, "1", MAIL), result("A", 2, "1", ""), call("A", 60, "2", MAIL)];
    lab.put(A, &[&lines[0], &lines[1], &lines[2], &result("A", 61, "2", "")]);
    assert_eq!(lab.new_calls(&["--since", "2026-03-01T00:00:30Z"]).len(), 1);
    assert!(lab.news().is_empty());
    assert_eq!(lab.new_calls(&["--from-start"]).len(), 1, "the one that was passed over");
}

#[test]
fn names_are_unwrapped_resolved_and_told_apart() {
    let mut lab = Lab::new();
    let catalog = br#"{"tools":[{"name":"mail.send"},{"name":"a"}]}"#;
    publish(&lab.path("state/catalog.json"), catalog).expect("published");
    let wrapped = r#"{"arguments":{"name":"x"},"name":"mail.send"}"#;
    let names = [
        ("1", "mcp__my_box__mail_send", "{}"),
        ("2", "mcp__plugin_acme_toolbox__call_tool", wrapped),
        ("3", "mcp__toolbox__call_tool", "{}"),
        ("4", "mcp__toolbox__search_tools", "{}"),
        ("5", "mcp__toolbox2__a", "{}"),
    ];
    let calls = names.map(|(id, name, input)| call_with("A", 1, id, name, input, ""));
    let results = names.map(|(id, ..)| result("A", 2, id, ""));
    lab.put(A, &calls.iter().chain(&results).map(String::as_str).collect::<Vec<_>>());
    let mut got = lab.new_calls(&[]);
    got.sort_by(|a, b| a.call_id.cmp(&b.call_id));
    let got: Vec<_> = got.iter().map(|c| (c.tool.as_str(), c.via, c.raw.as_deref())).collect();
    let want = [("mail.send", Via::Direct, Some("mail_send")), ("mail.send", Via::CallTool, None)];
    assert_eq!(got, want);
}

#[test]
fn copies_belong_to_the_session_that_made_the_call() {
    let mut lab = Lab::new();
    let mark = r#","forkedFrom":{"sessionId":"A"}"#;
    let copy = call_with("B", 1, "1", MAIL, "{}", mark);
    lab.put(B, &[&copy, &result("B", 2, "1", "")]);
    lab.put("projects/-srv/C.jsonl", &[&call("C", 3, "2", MAIL), &result("C", 40, "2", "")]);
    lab.put("projects/-srv/D.jsonl", &[&call("D", 3, "2", MAIL), &result("D", 30, "2", "")]);
    assert_eq!(lab.news(), ["A mail true", "D mail true"]);
}

#[test]
fn short_ids_are_calls_of_their_own_in_each_session() {
    let mut lab = Lab::new();
    lab.put(A, &[&call("A", 1, "call-0", MAIL), &result("A", 2, "call-0", "")]);
    lab.put(B, &[&call("B", 3, "call-0", MAIL), &result("B", 4, "call-0", FAILED)]);
    let ids: Vec<_> = lab.new_calls(&[]).into_iter().map(|c| (c.call_id, c.ok)).collect();
    let want = [(Some("A/call-0".into()), true), (Some("B/call-0".into()), false)];
    assert_eq!(ids, want);
}

#[test]
fn links_loops_and_fifos_change_nothing() {
    let mut lab = Lab::new();
    lab.put(A, &[&call("A", 1, "1", MAIL), &result("A", 2, "1", "")]);
    lab.put("elsewhere/E.jsonl", &[&call("E", 3, "2", MAIL), &result("E", 4, "2", "")]);
    fs::hard_link(lab.path(A), lab.path("projects/-srv/hard.jsonl")).expect("linked");
    symlink(lab.path(A), lab.path("projects/-srv/soft.jsonl")).expect("linked");
    symlink(lab.path("projects"), lab.path("projects/-srv/loop")).expect("linked");
    symlink(lab.path("nowhere"), lab.path("projects/-srv/dead.jsonl")).expect("linked");
    symlink(lab.path("elsewhere"), lab.path("projects/-out")).expect("linked");
    let fifo = lab.path("projects/-srv/fifo.jsonl");
    let made = std::process::Command::new("mkfifo").arg(fifo).status();
    assert!(made.expect("mkfifo").success());
    assert_eq!(lab.news(), ["A mail true", "E mail true"]);
    assert_eq!(lab.last_run().0, 2);
    assert!(lab.news().is_empty());
}

#[test]
fn an_interrupted_run_goes_on_and_reports_the_same() {
    let mut lab = Lab::new();
    let copy = call_with("B", 1, "1", MAIL, "{}", r#","forkedFrom":{"sessionId":"A"}"#);
    lab.put(B, &[&copy, &result("B", 2, "1", "")]);
    lab.put("projects/-srv/C.jsonl", &[&call("C", 3, "2", MAIL), &result("C", 40, "2", "")]);
    lab.put("projects/-srv/D.jsonl", &[&call("D", 3, "2", MAIL), &result("D", 30, "2", "")]);
    let dir = lab.state();
    let always = Pace { bytes: 0, files: 0, every: Duration::ZERO };
    let mut engine = Engine::start(&dir, false, Some(always));
    let root = Root { source: &SOURCES[0], path: lab.path("projects") };
    let names = Names::new(["toolbox", "my.box"], []);
    engine.read(walk(&[root]), &names, Some(1), Progress::hidden()).expect("read");
    drop(engine);
    assert_eq!(lab.events(), []);
    lab.put(A, &[&call("A", 1, "1", MAIL), &result("A", 2, "1", "")]);
    assert_eq!(lab.news(), ["A mail true", "D mail true"]);
    assert_eq!(lab.last_run().0, 1);
    assert!(lab.news().is_empty());
}

#[test]
fn what_was_read_is_counted_by_client() {
    let mut lab = Lab::new();
    let damaged = format!("{}{}", call("A", 5, "3", MAIL), call("A", 6, "4", MAIL));
    let lines = [call("A", 1, "1", MAIL), result("A", 2, "1", ""), damaged];
    lab.put(A, &[&lines[0], &lines[1], &lines[2]]);
    lab.news();
    let size = fs::metadata(lab.path(A)).expect("there").len();
    let (state, _) = State::load(&lab.state());
    let rows = count(&state);
    assert_eq!(rows["claude-code"], [1, size, 1, 2, 0, 1, 2]);
    assert_eq!(rows["codex"], [0; 7]);
}

#[test]
fn a_second_run_leaves_the_work_to_the_first() {
    let mut lab = Lab::new();
    lab.put(A, &[&call("A", 1, "1", MAIL), &result("A", 2, "1", "")]);
    let first = StageLock::acquire(&lab.state(), "ingest").expect("no error").expect("free");
    assert!(lab.news().is_empty());
    drop(first);
    assert_eq!(lab.news(), ["A mail true"]);
}

#[test]
fn neither_log_nor_state_holds_what_was_asked_or_answered() {
    let mut lab = Lab::new();
    lab.put(A, &[&call("A", 1, "1", MAIL), &result("A", 2, "1", FAILED), &call("A", 3, "2", MAIL)]);
    assert_eq!(lab.news().len(), 1);
    for name in ["state/ingest/state.bin", "state/events/events-000001.jsonl"] {
        let bytes = fs::read(lab.path(name)).expect("read");
        assert!(memchr::memmem::find(&bytes, b"SECRET").is_none(), "{name}");
    }
}
