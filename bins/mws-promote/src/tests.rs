//! Tests of whole runs in a state directory of their own.

use std::fs;
use std::path::PathBuf;

use clap::Parser;
use mws_cli::{Exit, Failure};
use mws_event::{Event, Kind};
use mws_state::{StateDir, read_events};

use crate::{Cli, run};

struct Lab {
    tmp: tempfile::TempDir,
    state: StateDir,
}

impl Lab {
    fn new() -> Self {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::at(tmp.path().join("state"));
        let lab = Self { tmp, state };
        lab.file("config.json", r#"{"pinFiles": [], "pins": []}"#);
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.tmp.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        mws_state::publish(&path, text.as_bytes()).expect("written");
        path.display().to_string()
    }

    fn run(&self, args: &[&str]) -> Result<Exit, Failure> {
        let config = self.path("config.json").display().to_string();
        let state = self.state.root().display().to_string();
        let own = ["mws-promote", "-q", "--config", &config, "--state-dir", &state];
        run(&Cli::parse_from(own.iter().chain(args)))
    }

    fn working_set(&self) -> Option<String> {
        fs::read_to_string(self.state.working_set()).ok()
    }

    /// Names that came in and went out, for each publication in the log.
    fn published(&self) -> Vec<(Vec<String>, Vec<String>)> {
        let changes = read_events(&self.state).0.into_iter().filter_map(|event| match event {
            Event::Record(record) => match record.kind {
                Kind::WorkingSetPublished { promoted, demoted, .. } => Some((promoted, demoted)),
                _ => None,
            },
            Event::Call(_) => None,
        });
        changes.collect()
    }
}

fn line(date: &str, tool: &str, session: &str) -> String {
    format!(
        r#"{{"ts":"{date}T00:00:00Z","tool":"{tool}","ok":true,"ms":1,"client":"x","session":"{session}"}}"#
    ) + "\n"
}

/// `a` in two sessions in March, `b` in one.
fn march() -> String {
    line("2026-03-01", "a", "s1") + &line("2026-03-02", "a", "s2") + &line("2026-03-02", "b", "s2")
}

#[test]
fn a_run_publishes_once_and_an_equal_one_is_silent() {
    let lab = Lab::new();
    let march = lab.file("march.jsonl", &march());
    let args = ["--as-of", "2026-03-05", &march];
    for _ in 0..2 {
        assert_eq!(lab.run(&args).expect("done"), Exit::Done);
        assert!(
            lab.working_set().is_some_and(|set| set.contains(r#"{"name":"a","why":"promoted""#))
        );
        assert_eq!(lab.published(), [(vec!["a".to_owned()], vec![])]);
    }
    lab.run(&["--as-of", "2026-06-05", &march]).expect("done");
    assert_eq!(lab.published()[1..], [(vec![], vec!["a".to_owned()])]);
}

#[test]
fn the_log_is_read_when_there_is_no_operand() {
    let lab = Lab::new();
    lab.file("state/calls.jsonl", &march());
    lab.run(&["--as-of", "2026-03-05"]).expect("done");
    assert_eq!(lab.published(), [(vec!["a".to_owned()], vec![])]);
}

#[test]
fn a_dry_run_and_an_output_file_touch_nothing() {
    let lab = Lab::new();
    let march = lab.file("march.jsonl", &march());
    let as_of = ["--as-of", "2026-03-05", "--exit-code"];
    assert_eq!(lab.run(&[&as_of[..], &["-n", &march]].concat()).expect("done"), Exit::Pending);
    let out = lab.path("out.json").display().to_string();
    let to_file = [&as_of[..], &["-o", &out, &march]].concat();
    assert_eq!(lab.run(&to_file).expect("done"), Exit::Pending);
    assert!(!lab.state.root().exists());
    let set = fs::read_to_string(&out).expect("written");
    lab.run(&["--as-of", "2026-03-05", &march]).expect("done");
    assert_eq!(lab.working_set(), Some(set));
    assert_eq!(lab.run(&[&as_of[..], &["-n", &march]].concat()).expect("done"), Exit::Done);
}

#[test]
fn flags_and_catalog_decide() {
    let lab = Lab::new();
    let march = lab.file("march.jsonl", &march());
    let catalog = lab.file("only-b.json", r#"{"tools":[{"name":"b","inputSchema":{}}]}"#);
    let args = ["--as-of", "2026-03-05", "--min-sessions", "1", "--catalog", &catalog, &march];
    lab.run(&args).expect("done");
    assert_eq!(lab.published(), [(vec!["b".to_owned()], vec![])]);
}

#[test]
fn what_cannot_be_used_is_refused_before_anything_is_touched() {
    let lab = Lab::new();
    let march = lab.file("march.jsonl", &march());
    let none = lab.file("none.jsonl", "\nnot json\n");
    let broken = lab.file("broken.json", r#"{"tools":1}"#);
    for (args, word) in [
        (&["-n", &none][..], "no event"),
        (&["-n", "--catalog", &broken, &march], "broken.json"),
        (&["-n", "--as-of", "soon", &march], "--as-of"),
        (&["-n", "--keep-days", "29", &march], "keepDays (29)"),
        (&["--json", "-o", "-", &march], "stdout"),
        (&["-n", "/nonexistent/x.jsonl"], "/nonexistent/x.jsonl"),
    ] {
        let failure = lab.run(args).expect_err(word);
        assert!(failure.message().contains(word), "{failure}");
    }
    assert!(!lab.state.root().exists());
}

#[test]
fn a_second_run_at_the_same_time_is_refused() {
    let lab = Lab::new();
    let march = lab.file("march.jsonl", &march());
    let _held = mws_state::StageLock::acquire(&lab.state, "promote").expect("a lock");
    let failure = lab.run(&[&march]).expect_err("held");
    assert!(failure.message().contains("another mws-promote"), "{failure}");
    assert_eq!(lab.run(&["-o", "/dev/null", &march]).expect("no lock needed"), Exit::Done);
}

#[test]
fn a_damaged_artifact_is_replaced() {
    let lab = Lab::new();
    let march = lab.file("march.jsonl", &march());
    lab.file("state/working-set.json", "{\"tools\":[\"a\"");
    lab.run(&["--as-of", "2026-03-05", &march]).expect("done");
    assert!(lab.working_set().is_some_and(|set| set.contains("promoted")));
    lab.file("state/working-set.json", r#"{"tools":["z"]}"#);
    lab.run(&["--as-of", "2026-03-05", &march]).expect("done");
    assert_eq!(lab.published()[1..], [(vec!["a".to_owned()], vec!["z".to_owned()])]);
}
