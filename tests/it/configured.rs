//! The protocol that the configuration names is the one that is spoken with the upstream.
//!
//! Invariant: the setting holds for every client, also where the upstream would speak another.
//! Deliberately absent: what the bridge to such an upstream does; see `session_bridge`.

use mws_tests::front::initialize;
use mws_tests::lab::{CONFIG, Lab, bin};
use mws_tests::peer::Peer;
use mws_tests::script::{Era, Script};
use serde_json::json;

const CAPABILITIES: &str = r#"{"roots":{}}"#;
const KEY: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;

#[test]
fn an_upstream_of_both_protocols_is_spoken_to_in_the_configured_one() {
    let lab = Lab::new();
    let script = Script { record: Some(lab.path("record")), ..Script::new(Era::Both) };
    let file = lab.write("script.json", &serde_json::to_string(&script).unwrap());
    let program = bin("mws-stub-stdio").display().to_string();
    let upstream = json!({"command": program, "args": [file], "protocol": "2026-07-28"});
    lab.write(CONFIG, &json!({"upstream": upstream}).to_string());
    let proxy = lab.proxy(&[]);
    // Also for a client that can be asked.
    let mut peer = Peer::stateless(&proxy.url);
    let opened = peer.post("initialize", None, &initialize("2025-11-25", CAPABILITIES));
    peer.session = opened.header("mcp-session-id").map(str::to_owned);
    assert_eq!(peer.call("apple_pick", &json!({}))["content"][0]["text"], "plain answer");
    let lines = std::fs::read_to_string(lab.path("record")).unwrap();
    assert!(!lines.contains(r#""method":"initialize""#), "{lines}");
    assert!(lines.contains(KEY), "{lines}");
}
