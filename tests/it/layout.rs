//! Rules of the repository that a reader relies on.
//!
//! Invariant: only files that git tracks are looked at, so generated ones never fail a run.
//! Deliberately absent: what rustfmt, clippy and the compiler check already.

use mws_tests::lab::workspace;
use std::collections::BTreeSet;
use std::process::Command;

const TOP: [&str; 9] = [
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "bins",
    "fixtures",
    "scripts",
    "shared",
    "tests",
];

#[test]
fn the_top_level_is_the_agreed_one() {
    let tracked = tracked(".");
    let top: BTreeSet<_> = tracked.iter().filter_map(|path| path.split('/').next()).collect();
    let plain: Vec<_> = top.into_iter().filter(|name| !name.starts_with('.')).collect();
    assert_eq!(plain, TOP);
}

#[test]
fn entry_points_are_short() {
    for path in tracked("bins").iter().filter(|path| path.ends_with("/src/main.rs")) {
        let lines = read(path).lines().count();
        assert!(lines <= 15, "{path} has {lines} lines");
    }
}

#[test]
fn programs_meet_in_files_only() {
    let programs: BTreeSet<_> = folders("bins");
    assert_eq!(programs.len(), 6, "{programs:?}");
    for package in &programs {
        let manifest = read(&format!("bins/{package}/Cargo.toml"));
        for line in manifest.lines().skip_while(|line| !line.contains("dependencies]")) {
            let key = line.split(['.', '=', ' ']).next().unwrap_or_default();
            assert!(!programs.contains(key), "{package} depends on {key}");
        }
    }
}

#[test]
fn shared_packages_have_two_users() {
    let manifests = tracked(".").into_iter().filter(|path| path.ends_with("/Cargo.toml"));
    let manifests: Vec<_> = manifests.map(|path| (read(&path), path)).collect();
    for package in folders("shared") {
        let needle = format!("\n{package}");
        let own = format!("shared/{package}/Cargo.toml");
        let users = manifests.iter().filter(|(text, path)| *path != own && text.contains(&needle));
        assert!(users.count() >= 2, "{package} has fewer than two users");
    }
}

#[test]
fn sources_open_with_their_purpose_and_stay_readable() {
    for path in tracked(".").iter().filter(|path| path.ends_with(".rs")) {
        let text = read(path);
        assert!(text.starts_with("//!"), "{path} does not open with //!");
        let lines = text.lines().count();
        assert!(lines <= 400, "{path} has {lines} lines");
    }
}

#[test]
fn nothing_is_left_for_later() {
    // Put together here, so that this file does not contain what it looks for.
    let words = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["XX", "X:"].concat()];
    let kinds = [".rs", ".toml", ".md", ".mjs", ".py", ".service", ".timer", "/run"];
    for path in tracked(".").iter().filter(|path| kinds.iter().any(|kind| path.ends_with(kind))) {
        for (number, line) in read(path).lines().enumerate() {
            let found = words.iter().find(|word| line.contains(word.as_str()));
            assert!(found.is_none(), "{path}:{}: {line}", number + 1);
        }
    }
}

#[test]
fn lock_files_pin_everything_and_name_no_registry() {
    let pinned = read("tests/pip/requirements.txt");
    for line in pinned.lines() {
        assert!(line.contains("=="), "not pinned: {line}");
    }
    let lock = read("tests/npm/package-lock.json");
    assert!(!lock.contains("\"resolved\""), "the npm lock file names a host");
    let manifest: serde_json::Value =
        serde_json::from_str(&read("tests/npm/package.json")).unwrap();
    for (name, version) in manifest["dependencies"].as_object().unwrap() {
        let exact = version.as_str().unwrap().starts_with(|first: char| first.is_ascii_digit());
        assert!(exact, "{name} is not pinned");
    }
}

fn tracked(folder: &str) -> Vec<String> {
    let mut git = Command::new("git");
    let output = git.args(["ls-files", "-z", "--", folder]).current_dir(workspace());
    let output = output.output().unwrap();
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).unwrap();
    let paths: Vec<_> = listed.split_terminator('\0').map(str::to_owned).collect();
    let there = |path: &String| workspace().join(path).is_file();
    assert!(!paths.is_empty(), "git tracks nothing below {folder:?}");
    paths.into_iter().filter(there).collect()
}

fn folders(parent: &str) -> BTreeSet<String> {
    let tracked = tracked(parent);
    tracked.iter().filter_map(|path| path.split('/').nth(1)).map(str::to_owned).collect()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(workspace().join(path)).unwrap()
}
