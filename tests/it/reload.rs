//! A running proxy and the files that others publish for it.
//!
//! Invariant: every change is made to a proxy that runs; none is restarted.
//! Deliberately absent: how a change is noticed. Only when the next listing shows it.

use mws_tests::lab::{Lab, eventually};
use mws_tests::peer::Peer;
use mws_tests::script::{Era, Script};
use mws_tests::stub::Stub;
use serde_json::json;
use std::time::Duration;

const META: [&str; 2] = ["search_tools", "call_tool"];

struct Running {
    lab: Lab,
    proxy: mws_tests::lab::Proxy,
    _stub: Stub,
}

impl Running {
    fn new() -> Self {
        // Without vectors an index in memory and a snapshot answer alike.
        let stub = Stub::start(Script::new(Era::Stateless));
        let plain = json!({"upstream": {"url": stub.url}, "search": {"vectors": false}});
        let lab = Lab::with_config(&plain);
        let proxy = lab.proxy(&[]);
        Self { lab, proxy, _stub: stub }
    }

    fn peer(&self) -> Peer {
        Peer::stateless(&self.proxy.url)
    }

    fn publish(&self, names: &[&str]) {
        let tools: Vec<_> =
            names.iter().map(|name| json!({"name": name, "why": "promoted"})).collect();
        let artifact = json!({"v": 1, "tools": tools, "thresholds": {}, "through": null});
        self.lab.write_state("working-set.json", &artifact.to_string());
    }

    fn lists(&self, names: &[&str]) {
        let expected: Vec<_> = META.iter().chain(names).map(|name| (*name).to_owned()).collect();
        let peer = self.peer();
        let seen = eventually(Duration::from_secs(3), || peer.tool_names() == expected);
        assert!(
            seen,
            "expected {expected:?}, listed {:?}; {}",
            peer.tool_names(),
            self.proxy.stderr()
        );
    }
}

#[test]
fn a_new_working_set_is_listed_next_time() {
    let running = Running::new();
    running.lists(&[]);
    running.publish(&["pear_peel"]);
    running.lists(&["pear_peel"]);
    // The same length, within the same second: size and mtime may both be equal.
    running.publish(&["plum_dry_"]);
    running.lists(&[]);
    running.publish(&["pear_peel", "apple_pick"]);
    let peer = running.peer();
    let both = || peer.tool_names().len() == 4;
    assert!(eventually(Duration::from_secs(3), both), "{:?}", peer.tool_names());
}

#[test]
fn plain_names_are_a_working_set_too() {
    let running = Running::new();
    running.lab.write_state("working-set.json", r#"{"tools":["apple_pick"]}"#);
    running.lists(&["apple_pick"]);
}

#[test]
fn a_damaged_working_set_leaves_the_last_good_one_and_one_warning() {
    let running = Running::new();
    running.publish(&["pear_peel"]);
    running.lists(&["pear_peel"]);
    for damage in ["{", "", "[]", r#"{"tools":5}"#, "\u{0}\u{0}"] {
        running.lab.write_state("working-set.json", damage);
        for _ in 0..5 {
            running.lists(&["pear_peel"]);
        }
        let warned = || running.proxy.stderr().matches("working-set.json").count();
        assert!(eventually(Duration::from_secs(2), || warned() >= 1), "no warning for {damage:?}");
    }
    let warnings = running.proxy.stderr().matches("working-set.json").count();
    assert!(warnings <= 5, "{warnings} warnings for 5 damaged files: {}", running.proxy.stderr());
    running.publish(&["apple_pick"]);
    running.lists(&["apple_pick"]);
}

#[test]
fn a_deleted_working_set_leaves_the_last_good_one_until_the_next_start() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::with_config(&json!({"upstream": {"url": stub.url}, "pins": ["plum_dry"]}));
    let proxy = lab.proxy(&[]);
    let running = Running { lab, proxy, _stub: stub };
    running.lists(&["plum_dry"]);
    running.publish(&["plum_dry", "apple_pick"]);
    let peer = running.peer();
    assert!(eventually(Duration::from_secs(3), || peer.tool_names().len() == 4));
    std::fs::remove_file(running.lab.state("working-set.json")).unwrap();
    assert_eq!(peer.tool_names().len(), 4);
    let warned = || running.proxy.stderr().contains("working-set.json");
    assert!(eventually(Duration::from_secs(2), warned), "nothing is said of the deletion");
    let again = Running { proxy: running.lab.proxy(&[]), ..running };
    again.lists(&["plum_dry"]);
}

#[test]
fn a_snapshot_published_while_it_runs_is_used_and_a_damaged_one_is_not_missed() {
    let running = Running::new();
    let peer = running.peer();
    running.lists(&[]);
    let ask = |query: &str| peer.call("search_tools", &json!({"query": query})).to_string();
    let before = ask("dry fruit");
    let there = || running.lab.state("catalog.json").exists();
    assert!(eventually(Duration::from_secs(3), there));
    let _ = running.lab.run("mws-index", &[]).ok();
    assert!(running.lab.state("index/CURRENT").exists());
    running.lists(&[]);
    assert_eq!(ask("dry fruit"), before, "index in memory and snapshot differ");
    for entry in std::fs::read_dir(running.lab.state("index")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "mwsx") {
            std::fs::write(&path, b"damaged").unwrap();
        }
    }
    running.lab.write_state("index/CURRENT", "gen-9-none.mwsx\n");
    running.lists(&[]);
    assert_eq!(ask("dry fruit"), before, "a damaged snapshot changed the answer");
    assert_eq!(
        ask("apple_pick"),
        peer.call("search_tools", &json!({"query": "apple_pick"})).to_string()
    );
}

#[test]
fn deleting_the_whole_state_never_stops_serving() {
    let running = Running::new();
    running.publish(&["pear_peel"]);
    running.lists(&["pear_peel"]);
    // The proxy may write while the folder is being emptied.
    let gone = || std::fs::remove_dir_all(running.lab.state("")).is_ok();
    assert!(eventually(Duration::from_secs(2), gone));
    running.lists(&["pear_peel"]);
    assert_eq!(running.peer().call("apple_pick", &json!({}))["content"][0]["text"], "plain answer");
    let recorded = || !running.lab.calls("apple_pick").is_empty();
    let peer = running.peer();
    let again = eventually(Duration::from_secs(4), || {
        peer.call("apple_pick", &json!({}));
        recorded()
    });
    assert!(again, "nothing is recorded after the state was deleted: {}", running.proxy.stderr());
}

#[test]
fn the_catalog_of_another_upstream_is_not_shown() {
    let first = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::with_config(&json!({"pins": ["apple_pick"]}));
    let proxy = lab.proxy(&["--upstream", &first.url]);
    let kept = eventually(Duration::from_secs(5), || {
        Peer::stateless(&proxy.url).tool_names().len() == 3 && lab.state("catalog.json").exists()
    });
    assert!(kept, "{}", proxy.stderr());
    drop(proxy);
    let nowhere = format!("http://127.0.0.1:{}/mcp", mws_tests::lab::free_port());
    let proxy = lab.proxy(&["--upstream", &nowhere]);
    assert_eq!(Peer::stateless(&proxy.url).tool_names(), ["search_tools", "call_tool"]);
    drop(proxy);
    let proxy = lab.proxy(&["--upstream", &first.url]);
    assert_eq!(Peer::stateless(&proxy.url).tool_names().len(), 3);
}
