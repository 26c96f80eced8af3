//! `tools.allow` and `tools.deny`: what they leave out does not exist for clients.
//!
//! Invariant: a tool that is left out is not listed, found, described or called, by whatever way.
//! Deliberately absent: the patterns themselves; they are tested beside the code.

use mws_tests::lab::Lab;
use mws_tests::peer::Peer;
use mws_tests::script::{Era, Script};
use mws_tests::stub::Stub;
use serde_json::{Value, json};

/// What a client sees of the three tools of the stub under these rules: listed, found, called.
fn seen(rules: &Value, era: Era) -> Vec<String> {
    let names = ["apple_pick", "pear_peel", "plum_dry"];
    let stub = Stub::start(Script::new(Era::Both));
    let config = json!({"upstream": {"url": stub.url}, "pins": names, "tools": rules});
    let lab = Lab::with_config(&config);
    let proxy = lab.proxy(&[]);
    let peer = match era {
        Era::Session => Peer::session(&proxy.url),
        _ => Peer::stateless(&proxy.url),
    };
    let listed = peer.tool_names().split_off(2);
    let overview = peer.call("search_tools", &json!({})).to_string();
    for name in names {
        let there = listed.contains(&name.to_owned());
        assert_eq!(overview.contains(name), there, "{rules}: {name} in the overview");
        let found = peer.call("search_tools", &json!({"query": name})).to_string();
        assert_eq!(found.contains("inputSchema") && found.contains(name), there, "{rules}: {name}");
        let before = stub.seen_of("tools/call").len();
        let direct = peer.ask("tools/call", &json!({"name": name, "arguments": {}}));
        let inner = json!({"name": name, "arguments": {}});
        let through = peer.ask("tools/call", &json!({"name": "call_tool", "arguments": inner}));
        let nested = json!({"name": "call_tool", "arguments": inner});
        peer.ask("tools/call", &json!({"name": "call_tool", "arguments": nested}));
        assert_eq!(direct.to_string().contains("plain answer"), there, "{rules}: {direct}");
        assert_eq!(through.to_string().contains("plain answer"), there, "{rules}: {through}");
        let sent = stub.seen_of("tools/call")[before..].iter().any(|s| s.body.contains(name));
        assert_eq!(sent, there, "{rules}: {name} came upstream");
        let failed = direct["error"]["code"] == -32602 && through["result"]["isError"] == true;
        assert!(there || failed, "{rules}: {direct} {through}");
    }
    listed
}

#[test]
fn rules_bind_every_way_to_a_tool() {
    for era in [Era::Stateless, Era::Session] {
        for (rules, want) in [
            (json!({}), &["apple_pick", "pear_peel", "plum_dry"][..]),
            (json!({"allow": ["p*"]}), &["pear_peel", "plum_dry"]),
            (json!({"deny": ["p*"]}), &["apple_pick"]),
            (
                json!({"allow": ["p*", "apple_pick"], "deny": ["*dry"]}),
                &["apple_pick", "pear_peel"],
            ),
            (json!({"allow": []}), &[]),
            (json!({"allow": ["pear_peel"], "deny": []}), &["pear_peel"]),
        ] {
            assert_eq!(seen(&rules, era), want, "{rules}");
        }
    }
}

#[test]
fn rules_bind_before_the_upstream_was_ever_reached() {
    let stub =
        Stub::start(Script::new(Era::Stateless).on("tools/list", "", mws_tests::script::Act::Hang));
    let config = json!({"upstream": {"url": stub.url}, "tools": {"deny": ["apple*"]}});
    let lab = Lab::with_config(&config);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    let inner = json!({"name": "apple_pick", "arguments": {}});
    peer.ask("tools/call", &json!({"name": "call_tool", "arguments": inner}));
    peer.ask("tools/call", &inner);
    let batch = format!("[{}]", peer.body("9", "tools/call", &inner.to_string()));
    peer.post("tools/call", Some("apple_pick"), &batch);
    assert!(stub.seen_of("tools/call").is_empty(), "{:?}", stub.seen_of("tools/call"));
}
