//! Replay, grid and story from the command line, and the pipes that a user will write.
//!
//! Invariant: the small history's figures were worked out by hand (`fixtures/history/README.md`).
//! Deliberately absent: what a walk must never do (unit tests of the policy).

use mws_tests::lab::{Lab, workspace};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const END: &str = "2026-05-11";

/// A home in which definitions are listed as they are, so that their sizes are plain.
fn lab() -> Lab {
    let plain = json!({"clientHints": false, "slimSchemas": false, "pinFiles": []});
    let lab = Lab::with_config(&plain);
    let fixture = |name: &str| {
        std::fs::read_to_string(workspace().join("fixtures/history").join(name)).unwrap()
    };
    lab.write_state("events/events-000001.jsonl", &fixture("twin.jsonl"));
    lab.write_state("catalog.json", &fixture("twin-catalog.json"));
    lab
}

fn printed(lab: &Lab, args: &[&str]) -> Vec<Value> {
    let args = [args, &["--json", "--as-of", END]].concat();
    let done = lab.run("mws-promote", &args).ok();
    done.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_cell_of_the_grid_is_as_worked_out_by_hand() {
    let lab = lab();
    let grid = ["minSessions=1..3", "windowDays=2,4", "keepDays=4,6"];
    let args: Vec<&str> =
        std::iter::once("--replay").chain(grid.iter().flat_map(|axis| ["--grid", axis])).collect();
    let cells = printed(&lab, &args);
    let table =
        std::fs::read_to_string(workspace().join("fixtures/history/twin-grid.tsv")).unwrap();
    let mut rows = table.lines().map(|line| line.split('\t'));
    let head: Vec<&str> = rows.next().unwrap().collect();
    let rows: Vec<BTreeMap<&str, &str>> =
        rows.map(|row| head.iter().copied().zip(row).collect()).collect();
    assert_eq!((cells.len(), rows.len()), (12, 12));
    for (cell, row) in cells.iter().zip(rows) {
        assert_eq!((&cell["event"], &cell["calls"]), (&json!("policy_replayed"), &json!(21)));
        for (key, want) in row {
            let threshold = cell["thresholds"].get(key);
            match threshold.unwrap_or(&cell[key]) {
                Value::Bool(mark) => assert_eq!(*mark, want == "yes", "{key} of {cell}"),
                number => {
                    let want: f64 = want.parse().unwrap();
                    assert!((number.as_f64().unwrap() - want).abs() < 1e-9, "{key} of {cell}");
                }
            }
        }
    }
}

#[test]
fn the_small_history_is_what_the_generator_writes() {
    let lab = Lab::new();
    let script = workspace().join("scripts/gen-history");
    let line = format!("python3 {} --twin --catalog catalog.json -o log.jsonl", script.display());
    if lab.shell("command -v python3").code != 0 {
        println!("skipped: no python3");
        return;
    }
    let _ = lab.shell(&line).ok();
    for (made, kept) in [("log.jsonl", "twin.jsonl"), ("catalog.json", "twin-catalog.json")] {
        let kept = std::fs::read(workspace().join("fixtures/history").join(kept)).unwrap();
        assert!(std::fs::read(lab.path(made)).unwrap() == kept, "{made}");
    }
}

#[test]
fn a_replay_of_the_policy_in_force_ends_in_the_published_set() {
    let lab = lab();
    let thresholds = ["--keep-days", "6", "--window-days", "4"];
    for more in [&[][..], &["--max-tokens", "350"], &["--policy", "value"]] {
        let policy = [&thresholds[..], more].concat();
        let lines = printed(&lab, &[&policy[..], &["--replay"]].concat());
        let end = lines.iter().find(|line| line["in_force"] == true).unwrap();
        let args = [&policy[..], &["-o", "-", "--as-of", END]].concat();
        let set = lab.run("mws-promote", &args).ok().stdout;
        let set: Value = serde_json::from_str(&set).unwrap();
        let names: Vec<&Value> =
            set["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert!(!names.is_empty(), "{more:?}");
        assert_eq!(json!(names), end["ends_with"], "{more:?}");
    }
}

#[test]
fn a_budget_cuts_what_saves_least_for_a_token_and_says_so() {
    let lab = lab();
    let policy = ["-n", "--keep-days", "6", "--window-days", "4"];
    let before = printed(&lab, &policy);
    let listed = |lines: &[Value]| -> Vec<String> {
        let listed = lines.iter().filter(|line| line["listed"] == true);
        listed.map(|line| line["tool"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed(&before), ["anchor", "burst", "crane", "echo"]);
    // Since D7 there were four sessions; anchor and crane were used in two of them, the others in one.
    let value =
        |tool: &str| before.iter().find(|line| line["tool"] == tool).unwrap()["value"].clone();
    for (tool, want) in [("anchor", 5.0), ("burst", 1.25), ("crane", 5.0 / 3.0), ("echo", 5.0)] {
        let got = value(tool).as_f64().unwrap();
        assert!((got - want).abs() < 1e-4, "{tool}: {got}");
    }
    let after = printed(&lab, &[&policy[..], &["--max-tokens", "449"]].concat());
    assert_eq!(listed(&after), ["anchor", "burst", "echo"]);
    let crane = after.iter().find(|line| line["tool"] == "crane").unwrap();
    assert_eq!(crane["rule"], "cut", "{crane}");
}

#[test]
fn a_tools_story_has_dates_and_ends_with_the_decision() {
    let lab = lab();
    let policy = ["--keep-days", "4", "--window-days", "4", "--explain"];
    let story = printed(&lab, &[&policy[..], &["burst"]].concat());
    let told: Vec<(&str, &str)> = story[..story.len() - 1]
        .iter()
        .map(|line| (&line["ts"].as_str().unwrap()[..10], line["event"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            ("2026-05-02", "first_success"),
            ("2026-05-03", "tool_promoted"),
            ("2026-05-07", "tool_demoted"),
            ("2026-05-09", "last_success"),
        ]
    );
    assert_eq!(story.last().unwrap()["rule"], "too_few_sessions");
    let args = [&policy[..], &["anchor", "--as-of", END]].concat();
    let text = lab.run("mws-promote", &args).ok().stdout;
    for part in ["anchor: listed", "2026-05-02  promoted", "falls out in 2 days"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let done = lab.run("mws-promote", &["--explain", "ancor"]);
    assert!(done.code == 2 && done.stderr.contains("'anchor'"), "{}", done.stderr);
}

#[test]
fn the_pipes_of_a_user_work() {
    let lab = lab();
    let calls = "mws log --type call";
    let decide = format!("mws-promote --as-of {END}");
    for (line, wants) in [
        (
            format!("mws-ingest --from-start -o - >/dev/null; {calls} | {decide} --dry-run -"),
            "anchor",
        ),
        (format!("{{ mws log; mws-ingest -o -; }} | {decide} -n -"), "anchor"),
        (
            format!("mws log --since 2026-05-04 | {decide} -n --min-sessions 3 --window-days 14 -"),
            "2 of 3",
        ),
        (format!("diff <({decide} -n -o -) <({decide} -n --keep-days 30 -o -)"), "\"keepDays\":30"),
        (format!("mws log | jq -c 'select(.client != \"editor\")' | {decide} -n -"), "crane   yes, new  2 "),
        (
            format!(
                "{decide} --replay --json | jq -r 'select(.event==\"tool_promoted\") | [.ts,.tool] | @tsv'"
            ),
            "2026-05-03T00:00:00.000Z\tanchor\n",
        ),
        (
            format!(
                "for n in 1 2 3 4; do printf '%s ' $n; {decide} -n --json --min-sessions $n | jq -s 'map(select(.listed)) | length'; done"
            ),
            "1 5\n2 4\n3 4\n4 1\n",
        ),
        (
            "timeout 20 mws log -f --type call | jq --unbuffered -r 'select(.ok|not) | .tool' | head -n 1"
                .to_owned(),
            "dud\n",
        ),
        (
            format!("{decide} -n --exit-code >/dev/null || echo 'working set would change'"),
            "would change",
        ),
        (
            format!(
                "S=.local/state/mcp-working-set; cat $S/events/*.jsonl | {decide} --catalog $S/catalog.json -o - - \
                 | (cat >$S/ws.tmp && mv $S/ws.tmp $S/working-set.json); jq -r '.tools[0].name' $S/working-set.json"
            ),
            "anchor\n",
        ),
        ("mws-report --json --since 2026-05-01 | jq .calls.total".to_owned(), "21\n"),
    ] {
        let done = lab.shell(&line);
        assert!(done.stdout.contains(wants), "{line}: {} {}", done.stdout, done.stderr);
        assert!(!done.stderr.contains("panicked"), "{line}: {}", done.stderr);
    }
}

#[test]
fn a_replay_touches_nothing_and_its_mistakes_are_named() {
    let lab = lab();
    let before = lab.events();
    let text = lab.run("mws-promote", &["--replay", "--as-of", END]).ok().stdout;
    assert!(text.contains("2026-05-03") && text.contains("thresholds (in force)"), "{text}");
    assert!(!lab.state("working-set.json").exists());
    assert_eq!(lab.events(), before);
    for (args, word) in [
        (&["--grid", "minSessions=1"][..], "--replay"),
        (&["--replay", "--grid", "x=1"], "'x' is not known"),
        (&["--replay", "-o", "-"], "--output"),
        (&["--policy", "value", "-n", "--catalog", "/nonexistent"], "/nonexistent"),
    ] {
        let done = lab.run("mws-promote", args);
        assert!(done.code == 2 && done.stderr.contains(word), "{args:?}: {}", done.stderr);
    }
}

#[test]
fn the_report_draws_what_a_replay_found() {
    let lab = lab();
    let grid = ["--replay", "--grid", "minSessions=1..3", "--json", "--as-of", END];
    let cells = lab.run("mws-promote", &grid).ok().stdout;
    let (file, page) = (lab.write("grid.jsonl", &cells), lab.path("report.html"));
    let [file, page_arg] = [&file, &page].map(|path| path.display().to_string());
    let report = ["--html", &page_arg, "--replay", &file];
    assert_eq!(lab.run("mws-report", &report).ok().stdout, "");
    let html = std::fs::read_to_string(&page).unwrap();
    for sessions in 1..=3 {
        assert!(html.contains(&format!("minSessions={sessions}: ")), "minSessions={sessions}");
    }
    lab.write("grid.jsonl", "{}");
    let refused = lab.run("mws-report", &report);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("no policy in it"), "{}", refused.stderr);
}
