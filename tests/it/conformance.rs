//! The official conformance suite, directly and through the proxy, compared check by check.
//!
//! Invariant: a check that passes directly passes through the proxy. With nothing listed but the
//! meta-tools, only scenarios that look for a tool in the list may differ.
//! Deliberately absent: judging the servers; what fails directly may fail through the proxy too.

use mws_tests::conform::{Checks, REQUIREMENTS, against_client, against_server};
use mws_tests::lab::{Lab, bin};
use mws_tests::real::{Parts, Served, parts, say};
use serde_json::json;
use std::collections::BTreeSet;

/// Scenarios that need their tool in `tools/list`.
const NEED_A_LISTING: [&str; 2] = ["http-custom-header-server-validation", "json-schema-2020-12"];
const THEIR_TOOLS: [&str; 2] = ["json_schema_2020_12_tool", "test_custom_header"];

#[test]
fn every_check_passes_through_the_proxy_where_the_two_schema_tools_are_pinned() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    let upstream = Served::suite(&lab, &[]);
    let lost = compare(&parts, &lab, &upstream.url, &THEIR_TOOLS, "SDK fixture, two pins");
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn an_empty_working_set_costs_the_two_scenarios_about_listed_tools() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    let upstream = Served::suite(&lab, &[]);
    let lost = compare(&parts, &lab, &upstream.url, &[], "SDK fixture, no pins");
    assert_eq!(lost, NEED_A_LISTING.map(str::to_owned).into());
}

#[test]
fn every_check_of_server_everything_passes_through_the_proxy() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    let upstream = parts.everything_http(&lab);
    let lost = compare(&parts, &lab, &upstream.url, &[], "server-everything");
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn every_check_of_a_client_passes_with_the_proxy_behind_it() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    let config = json!({"slimSchemas": false, "pins": CLIENT_TOOLS});
    let config = lab.write("client.json", &config.to_string()).display().to_string();
    let direct = parts.conform_client(&[]);
    let through = parts.conform_client(&[&bin("mws-proxy").display().to_string(), &config]);
    let mut all_lost = Vec::new();
    for (scenario, version) in CLIENT_SCENARIOS {
        let mut lost = Vec::new();
        for _ in 0..ATTEMPTS {
            let [without, with] = [&direct, &through]
                .map(|words| against_client(&parts, &lab, words, scenario, version));
            say(&row(&format!("client, {scenario}"), version, &without, &with));
            lost = without.lost_in(&with).into_values().flatten().collect();
            if lost.is_empty() {
                break;
            }
        }
        lost.iter().for_each(|line| say(&format!("  {scenario} {line}")));
        all_lost.extend(lost);
    }
    assert!(all_lost.is_empty(), "{all_lost:#?}");
}

/// The suite measures times, so what differs on a busy machine is asked again.
const ATTEMPTS: usize = 3;

/// Scenarios in which a check is lost through the proxy.
fn compare(parts: &Parts, lab: &Lab, url: &str, pins: &[&str], what: &str) -> BTreeSet<String> {
    let config = json!({"upstream": {"url": url}, "slimSchemas": false, "pins": pins});
    let home = Lab::with_config(&config);
    let proxy = home.proxy(&[]);
    let both = |version: &str, only: &str| {
        [url, &proxy.url].map(|url| against_server(parts, lab, url, version, only))
    };
    let mut all_lost = BTreeSet::new();
    for version in REQUIREMENTS {
        let [direct, through] = both(version, "");
        say(&row(what, version, &direct, &through));
        for (scenario, lines) in direct.lost_in(&through) {
            lines.iter().for_each(|line| say(&format!("  {scenario} {line}")));
            let lost = |_| {
                let [direct, through] = both(version, &scenario);
                !direct.lost_in(&through).is_empty()
            };
            if (1..ATTEMPTS).all(lost) {
                all_lost.insert(scenario);
            }
        }
    }
    all_lost
}

fn row(what: &str, version: &str, direct: &Checks, through: &Checks) -> String {
    format!(
        "{what:<45} {version}  direct {:>3}/{:<3}  proxy {:>3}/{:<3}",
        direct.passed(),
        direct.total(),
        through.passed(),
        through.total()
    )
}

/// Everything about clients but authorization, which a proxy on this machine has no part in.
const CLIENT_SCENARIOS: [(&str, &str); 13] = [
    ("initialize", "2025-11-25"),
    ("tools_call", "2025-11-25"),
    ("elicitation-sep1034-client-defaults", "2025-11-25"),
    ("sse-retry", "2025-11-25"),
    ("json-schema-2020-12-preservation", "2025-11-25"),
    ("tools_call", "2026-07-28"),
    ("request-metadata", "2026-07-28"),
    ("sep-2322-client-request-state", "2026-07-28"),
    ("http-standard-headers", "2026-07-28"),
    ("http-custom-headers", "2026-07-28"),
    ("http-invalid-tool-headers", "2026-07-28"),
    ("json-schema-ref-no-deref", "2026-07-28"),
    ("json-schema-2020-12-preservation", "2026-07-28"),
];

/// Tools of the suite's own servers, listed so that the client sees what it would see directly.
const CLIENT_TOOLS: [&str; 13] = [
    "add_numbers",
    "json_schema_2020_12_tool",
    "json_schema_echo",
    "test_client_elicitation_defaults",
    "test_custom_headers",
    "test_custom_headers_null",
    "test_headers",
    "test_mrtr_echo_state",
    "test_mrtr_no_result_type",
    "test_mrtr_no_state",
    "test_mrtr_unrelated",
    "test_reconnection",
    "valid_tool",
];
