//! Definitions that change behind a promotion, and the listing of a user without history.
//!
//! Invariant: what a model is told of a promoted tool is what was accepted, or somebody is told.
//! Deliberately absent: the hash itself (unit tests of the catalog).

use mws_tests::lab::{Lab, eventually};
use mws_tests::peer::Peer;
use mws_tests::script::{Era, Script};
use mws_tests::stub::Stub;
use serde_json::{Value, json};
use std::time::Duration;

const META: [&str; 2] = ["search_tools", "call_tool"];
const SOON: Duration = Duration::from_secs(5);
const AS_OF: [&str; 2] = ["--as-of", "2026-04-10"];

/// A home whose log has two sessions with `apple_pick`.
fn lab(stub: &Stub, promote: &Value) -> Lab {
    let lab = Lab::with_config(&json!({"upstream": {"url": stub.url}, "promote": promote}));
    let call = |day: u32| {
        format!("{{\"ts\":\"2026-04-0{day}T10:00:00Z\",\"tool\":\"apple_pick\",\"ok\":true}}\n")
    };
    lab.write_state("calls.jsonl", &(call(1) + &call(3)));
    lab
}

fn names(more: &[&str]) -> Vec<String> {
    META.iter().chain(more).map(|name| (*name).to_owned()).collect()
}

/// What a restarted proxy lists, once it lists `more`.
fn lists(peer: &Peer, more: &[&str]) {
    let listed = eventually(SOON, || peer.tool_names() == names(more));
    assert!(listed, "expected {more:?}, listed {:?}", peer.tool_names());
}

fn told(lab: &Lab, event: &str) -> Vec<String> {
    let events = lab.events().into_iter().filter(|line| line["event"] == event);
    events.map(|line| line["tool"].as_str().unwrap().to_owned()).collect()
}

/// Promotes, changes the definition behind the promotion, and starts a proxy that sees the change.
fn changed(on_change: &str) -> (Stub, Lab, mws_tests::lab::Proxy) {
    let script = Script::new(Era::Both);
    let poisoned = script.tools.replace("Picks apples", "Picks apples and pockets");
    let stub = Stub::start(script.clone());
    let lab = lab(&stub, &json!({"onChange": on_change}));
    let first = lab.proxy(&[]);
    lists(&Peer::stateless(&first.url), &[]);
    assert!(eventually(SOON, || lab.state("catalog.json").exists()));
    let _ = lab.run("mws-promote", &AS_OF).ok();
    assert_eq!(told(&lab, "definition_pinned"), ["apple_pick"]);
    lists(&Peer::stateless(&first.url), &["apple_pick"]);
    drop(first);
    stub.play(script.tools(&poisoned));
    let proxy = lab.proxy(&[]);
    let kept = || {
        let text = std::fs::read_to_string(lab.state("catalog.json"));
        text.is_ok_and(|text| text.contains("pockets"))
    };
    assert!(eventually(SOON, kept));
    (stub, lab, proxy)
}

#[test]
fn a_changed_definition_is_told_and_by_default_listed() {
    let (_stub, lab, proxy) = changed("warn");
    let peer = Peer::stateless(&proxy.url);
    let is_new = || peer.tools().iter().any(|tool| tool.to_string().contains("pockets"));
    assert!(eventually(SOON, is_new), "{:?}", peer.tools());
    assert!(eventually(SOON, || told(&lab, "definition_changed") == ["apple_pick"]));
    assert!(eventually(SOON, || proxy.stderr().contains("definition of \"apple_pick\" changed")));
    let done = lab.run("mws-promote", &AS_OF).ok();
    assert!(done.stderr.contains("apple_pick"), "{}", done.stderr);
    let done = lab.run("mws-promote", &AS_OF).ok();
    assert!(!done.stderr.contains("apple_pick"), "it is said once: {}", done.stderr);
    assert_eq!(told(&lab, "definition_changed").len(), 1);
}

#[test]
fn a_changed_definition_is_not_listed_where_so_configured() {
    let (_stub, lab, proxy) = changed("unlist");
    let peer = Peer::stateless(&proxy.url);
    lists(&peer, &[]);
    let reply = peer.call("apple_pick", &json!({}));
    assert_eq!(reply["isError"], false, "it stays reachable: {reply}");
    let done = lab.run("mws-promote", &AS_OF).ok();
    assert!(done.stderr.contains("--accept apple_pick"), "{}", done.stderr);
    let _ = lab.run("mws-promote", &[&AS_OF[..], &["--accept", "apple_pick"]].concat()).ok();
    lists(&peer, &["apple_pick"]);
}

#[test]
fn a_blocked_tool_is_called_in_no_way_until_it_is_accepted() {
    let (stub, lab, proxy) = changed("block");
    for round in 0..2 {
        for peer in [Peer::stateless(&proxy.url), Peer::session(&proxy.url)] {
            lists(&peer, &[]);
            for (tool, arguments) in [
                ("apple_pick", json!({})),
                ("call_tool", json!({"name": "apple_pick", "arguments": {}})),
            ] {
                let reply = peer.call(tool, &arguments);
                let text = reply.to_string();
                assert!(reply["isError"] == true && text.contains("blocked"), "{round}: {text}");
            }
            let reply = peer.call("pear_peel", &json!({"knife": "k"}));
            assert_eq!(reply["isError"], false, "others go on: {reply}");
        }
        // The second round is after a publication that keeps the tool out.
        let done = lab.run("mws-promote", &AS_OF).ok();
        assert!(done.stderr.contains("neither listed nor called"), "{}", done.stderr);
    }
    let through = stub.seen_of("tools/call");
    assert!(through.iter().all(|seen| !seen.body.contains("apple_pick")), "the upstream saw it");
    let _ = lab.run("mws-promote", &[&AS_OF[..], &["--accept", "apple_pick"]].concat()).ok();
    let peer = Peer::stateless(&proxy.url);
    lists(&peer, &["apple_pick"]);
    assert_eq!(peer.call("apple_pick", &json!({}))["isError"], false);
}

#[test]
fn a_small_catalog_is_listed_whole_until_the_first_promotion() {
    let all = ["apple_pick", "pear_peel", "plum_dry"];
    for (cold_start, at_first) in [
        (json!("empty"), &[][..]),
        (json!("all-under-tokens"), &all),
        (json!({"all-under-tokens": 20}), &[]),
        (json!({"all-under-tokens": 500}), &all),
    ] {
        let stub = Stub::start(Script::new(Era::Both));
        let lab = lab(&stub, &json!({"coldStart": cold_start}));
        let proxy = lab.proxy(&[]);
        let peer = Peer::stateless(&proxy.url);
        lists(&peer, at_first);
        assert!(eventually(SOON, || lab.state("catalog.json").exists()));
        // Two sessions are one too few here: nothing is promoted, and nothing ends.
        let none = [&AS_OF[..], &["--min-sessions", "3"]].concat();
        let _ = lab.run("mws-promote", &none).ok();
        lists(&peer, at_first);
        let _ = lab.run("mws-promote", &AS_OF).ok();
        lists(&peer, &["apple_pick"]);
        let _ = lab.run("mws-promote", &["--as-of", "2027-01-01"]).ok();
        lists(&peer, &[]);
    }
}
