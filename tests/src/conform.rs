//! The official conformance suite as a peer: runs of it, and two runs compared check by check.
//!
//! Invariant: only what the suite wrote down is compared, never its exit code.
//! Deliberately absent: a list of expected failures. What fails directly may fail through the proxy.

use crate::lab::{Lab, finish};
use crate::real::Parts;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Results by scenario, check and name of the check.
#[derive(Debug, Default)]
pub struct Checks(BTreeMap<[String; 3], Vec<String>>);

/// The requirement sets, which are frozen at the release of their protocol version.
pub const REQUIREMENTS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Runs the requirements of one protocol version against a server, or those of one scenario.
#[must_use]
pub fn against_server(parts: &Parts, lab: &Lab, url: &str, version: &str, only: &str) -> Checks {
    let out = lab.path(&format!("checks-{}", lab.fresh()));
    let mut command = lab.command(parts.node());
    // The suite tries other host names than this one, which the server must refuse.
    let url = url.replace("127.0.0.1", "localhost");
    command.arg(parts.conformance()).args(["server", "--url", &url, "-o"]).arg(&out);
    if only.is_empty() {
        command.args(["--requirements", version]);
    } else {
        command.args(["--spec-version", version, "--force", "--scenario", only]);
    }
    checked(&mut command, &out)
}

/// Runs one scenario against the client that `words` start; the suite adds its own address to them.
#[must_use]
pub fn against_client(
    parts: &Parts,
    lab: &Lab,
    words: &[String],
    scenario: &str,
    version: &str,
) -> Checks {
    let out = lab.path(&format!("checks-{}", lab.fresh()));
    let mut command = lab.command(parts.node());
    command.arg(parts.conformance()).args(["client", "--command", &words.join(" ")]);
    command.args(["--scenario", scenario, "--spec-version", version, "-o"]).arg(&out);
    checked(&mut command, &out)
}

/// Runs the suite; what it wrote to `out`.
fn checked(command: &mut Command, out: &Path) -> Checks {
    let done = finish(command, "");
    let checks = Checks::read(out);
    assert!(
        checks.total() > 0,
        "no check was written; the suite said: {} {}",
        done.stdout,
        done.stderr
    );
    checks
}

impl Checks {
    fn read(folder: &Path) -> Self {
        let mut checks = Self::default();
        for file in files(folder) {
            let scenario = file.parent().and_then(Path::file_name).unwrap().to_string_lossy();
            let scenario = without_time(&scenario);
            let list: Vec<Value> =
                serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
            for check in list {
                let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
                let key = [scenario.to_owned(), text("id"), text("name")];
                checks.0.entry(key).or_default().push(text("status"));
            }
        }
        checks
    }

    /// Number of checks.
    #[must_use]
    pub fn total(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Number of checks that passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.0.values().flatten().filter(|status| *status == PASSED).count()
    }

    /// Checks that passed here and did not pass in `through`, by scenario.
    #[must_use]
    pub fn lost_in(&self, through: &Self) -> BTreeMap<String, Vec<String>> {
        let mut lost: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, direct) in &self.0 {
            let got = through.0.get(key).map(Vec::as_slice).unwrap_or_default();
            if count(got) < count(direct) {
                let line = format!("{} ({}): {direct:?} became {got:?}", key[1], key[2]);
                lost.entry(key[0].clone()).or_default().push(line);
            }
        }
        lost
    }
}

const PASSED: &str = "SUCCESS";

fn count(statuses: &[String]) -> usize {
    statuses.iter().filter(|status| *status == PASSED).count()
}

// A folder is named SIDE-SCENARIO-TIME; a version inside the scenario is not the time.
fn without_time(folder: &str) -> &str {
    let marks = folder.match_indices("-20").filter(|(at, _)| folder[*at..].len() > 20);
    let end = marks.last().map_or(folder.len(), |(at, _)| at);
    let name = &folder[..end];
    name.strip_prefix("server-").or(name.strip_prefix("client-")).unwrap_or(name)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let entries = entries.map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.file_name().and_then(|name| name.to_str()) {
            Some("checks.json") => vec![path],
            _ if path.is_dir() => files(&path),
            _ => Vec::new(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_run_is_no_part_of_a_scenario() {
        let folder = "server-json-schema-2020-12-2026-11-30T01-15-44-989Z";
        assert_eq!(without_time(folder), "json-schema-2020-12");
        let folder = "server-server-stateless-2026-11-30T01-15-44-989Z";
        assert_eq!(without_time(folder), "server-stateless");
        assert_eq!(without_time("server-ping-2026-11-30T01-15-44-989Z"), "ping");
    }

    #[test]
    fn a_check_is_lost_where_it_passed_only_without_the_proxy() {
        let key = || ["s".to_owned(), "c".to_owned(), String::new()];
        let of = |status: &str| Checks([(key(), vec![status.to_owned()])].into());
        assert_eq!(of("SUCCESS").lost_in(&of("INFO")).len(), 1);
        assert_eq!(of("SUCCESS").lost_in(&Checks::default()).len(), 1);
        assert_eq!(of("FAILURE").lost_in(&Checks::default()).len(), 0);
    }
}
