//! What the proxy is made of.
//!
//! Invariant: scanning, storage and a second HTTP stack stay out of the proxy's tree.
//! Deliberately absent: versions. `Cargo.lock` holds those.

use mws_tests::lab::workspace;
use std::collections::BTreeSet;
use std::process::Command;

const BANNED: [&str; 11] = [
    "rayon",
    "rayon-core",
    "sled",
    "reqwest",
    "rmcp",
    "zstd",
    "ureq",
    "openssl",
    "aws-lc-sys",
    "notify",
    "native-tls",
];

/// Ours that the proxy may use.
const OURS: [&str; 7] =
    ["mws-proxy", "mws-event", "mws-state", "mws-config", "mws-catalog", "mws-search", "mws-cli"];

#[test]
fn the_proxy_carries_none_of_the_heavy_packages() {
    let tree = tree("mws-proxy");
    let found: Vec<_> = BANNED.iter().filter(|name| tree.contains(**name)).collect();
    assert!(found.is_empty(), "in the proxy's tree: {found:?}");
    let ours = tree.iter().filter(|name| name.starts_with("mws-"));
    let foreign: Vec<_> = ours.filter(|name| !OURS.contains(&name.as_str())).collect();
    assert!(foreign.is_empty(), "the proxy depends on {foreign:?}");
}

#[test]
fn the_proxy_stays_below_its_ceiling_of_packages() {
    let tree = tree("mws-proxy");
    assert!(tree.contains("hyper") && tree.contains("tokio"), "not the proxy's tree: {tree:?}");
    assert!(tree.len() <= 80, "{} packages: {tree:?}", tree.len());
}

#[test]
fn heavy_packages_have_one_user_each() {
    for (package, user) in [("rayon", "mws-ingest"), ("sled", "mws-index")] {
        for name in programs() {
            let has = tree(&name).contains(package);
            assert_eq!(has, name == user, "{name} and {package}");
        }
    }
}

fn programs() -> Vec<String> {
    let folder = std::fs::read_dir(workspace().join("bins")).unwrap();
    let mut names: Vec<_> =
        folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn tree(package: &str) -> BTreeSet<String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["tree", "--offline", "--locked", "-e", "normal,no-proc-macro", "--prefix", "none"]);
    let output = cargo.args(["-p", package]).current_dir(workspace()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree -p {package}: {said}");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    printed.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}
