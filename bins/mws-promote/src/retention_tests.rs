//! What is removed from the log, and what never is.
//!
//! Invariant: a segment has the events of one month, unless a test says otherwise.
//! Deliberately absent: what a cut does to decisions in general, which `mws-policy` tests.

use std::fs;
use std::path::PathBuf;

use clap::Parser;
use mws_cli::{Exit, Failure};
use mws_state::StateDir;

use crate::{Cli, run};

struct Lab {
    _tmp: tempfile::TempDir,
    config: PathBuf,
    state: StateDir,
}

impl Lab {
    fn new(retention: &str) -> Self {
        let tmp = tempfile::tempdir().expect("a directory");
        let (config, state) = (tmp.path().join("c.json"), StateDir::at(tmp.path().join("state")));
        state.create().expect("created");
        let text = format!(r#"{{"pinFiles":[],{retention}}}"#);
        mws_state::publish(&config, text.as_bytes()).expect("written");
        Self { _tmp: tmp, config, state }
    }

    /// One segment, with a success on the first and second of the month, in two sessions.
    fn segment(&self, number: u32, month: &str, tool: &str) {
        let line = |day: u32| {
            format!(
                r#"{{"ts":"{month}-0{day}T00:00:00Z","tool":"{tool}","ok":true,"ms":1,"client":"x","session":"{month}{day}"}}"#
            ) + "\n"
        };
        mws_state::publish(&self.path(number), (line(1) + &line(2)).as_bytes()).expect("written");
    }

    fn path(&self, number: u32) -> PathBuf {
        self.state.events_dir().join(format!("events-{number:06}.jsonl"))
    }

    fn promote(&self, args: &[&str]) -> Result<Exit, Failure> {
        let config = self.config.display().to_string();
        let state = self.state.root().display().to_string();
        let own = ["mws-promote", "-q", "--config", &config, "--state-dir", &state];
        run(&Cli::parse_from(own.iter().chain(args)))
    }

    fn left(&self) -> Vec<u32> {
        (1..20).filter(|n| self.path(*n).exists()).collect()
    }

    fn set(&self) -> String {
        fs::read_to_string(self.state.working_set()).expect("published")
    }
}

const AS_OF: [&str; 2] = ["--as-of", "2026-06-20"];

/// January 2025 in segment 1, and so on until June 2026.
fn year_and_half(lab: &Lab) {
    for n in 0..18 {
        lab.segment(n + 1, &format!("{}-{:02}", 2025 + n / 12, n % 12 + 1), "a");
    }
}

#[test]
fn segments_older_than_the_days_go_when_a_set_is_published() {
    let lab = Lab::new(r#""retentionDays":400"#);
    year_and_half(&lab);
    for looking in [["-n"], ["--replay"]] {
        lab.promote(&[&AS_OF[..], &looking].concat()).expect("looked");
    }
    assert_eq!(lab.left().len(), 18);
    lab.promote(&AS_OF).expect("published");
    assert_eq!(lab.left(), (6..19).collect::<Vec<_>>());
    assert!(lab.set().contains(r#""name":"a""#));
    lab.promote(&AS_OF).expect("published");
    assert_eq!(lab.left().len(), 13);
}

#[test]
fn too_many_bytes_go_earlier_but_nothing_that_is_looked_back_on() {
    let lab = Lab::new(r#""retentionBytes":1"#);
    year_and_half(&lab);
    lab.promote(&AS_OF).expect("published");
    // 90 days before June 20 is March 22.
    assert_eq!(lab.left(), [16, 17, 18]);
    let lab = Lab::new(
        r#""retentionBytes":1,"retentionDays":5,"promote":{"keepDays":1,"windowDays":1,"pinDecayDays":1}"#,
    );
    year_and_half(&lab);
    lab.promote(&AS_OF).expect("published");
    assert_eq!(lab.left(), [17, 18], "the newest two");
}

#[test]
fn a_tool_that_is_kept_by_rare_use_keeps_what_brought_it_in() {
    let lab = Lab::new(r#""retentionDays":100"#);
    lab.segment(1, "2024-12", "other");
    lab.segment(2, "2025-01", "rare");
    for n in 3..20 {
        let (year, month) = (2025 + (n - 2) / 12, (n - 2) % 12 + 1);
        let line = format!(
            r#"{{"ts":"{year}-{month:02}-15T00:00:00Z","tool":"rare","ok":true,"ms":1,"client":"x","session":"once"}}"#
        );
        mws_state::publish(&lab.path(n), (line + "\n").as_bytes()).expect("written");
    }
    lab.promote(&AS_OF).expect("published");
    assert!(lab.set().contains(r#""name":"rare","why":"kept""#), "{}", lab.set());
    assert_eq!(lab.left(), (2..20).collect::<Vec<_>>());
    lab.segment(19, "2026-06", "rare");
    lab.promote(&AS_OF).expect("published");
    assert!(lab.set().contains(r#""name":"rare","why":"promoted""#));
    assert!(lab.left().len() < 6, "{:?}", lab.left());
}

#[test]
fn days_that_do_not_fit_the_thresholds_are_a_usage_error_that_names_both() {
    for (days, flags, words) in [
        ("0", vec![], ["retentionDays (0)", "pinDecayDays (90)"]),
        ("89", vec!["-n"], ["retentionDays (89)", "pinDecayDays (90)"]),
        ("100", vec!["--keep-days", "101"], ["retentionDays (100)", "keepDays (101)"]),
    ] {
        let lab = Lab::new(&format!(r#""retentionDays":{days}"#));
        lab.segment(1, "2026-06", "a");
        let error = lab.promote(&flags).expect_err("refused");
        let text = format!("{error:?}");
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert!(!lab.state.working_set().exists());
    }
    let lab = Lab::new(r#""serverName":"x""#);
    lab.segment(1, "2026-06", "a");
    lab.promote(&["--keep-days", "1000"]).expect("the default reaches as far as is needed");
}
