//! What the programs say on standard error, and what they do when nobody can hear it.
//!
//! Invariant: a standard error that takes nothing changes no exit code and costs no event.
//! Deliberately absent: the wording of messages.

use mws_tests::lab::{Lab, Proxy, bin, eventually};
use mws_tests::peer::Peer;
use mws_tests::script::{Era, Script};
use mws_tests::stub::Stub;
use serde_json::json;
use std::time::Duration;

#[test]
fn a_full_standard_error_fails_no_program() {
    let lab = Lab::with_config(&json!({"pinz": []}));
    for program in ["mws-ingest", "mws-report", "mws paths"] {
        let done = lab.shell(&format!("{program} 2>/dev/full"));
        assert_eq!(done.code, 0, "{program}: {}", done.stderr);
    }
}

#[test]
fn the_event_log_outlives_a_full_standard_error() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    // In the way of the log, which is warned about where nothing can be written.
    lab.write_state("events", "");
    let mut command = lab.command("bash");
    let line = "exec \"$0\" --listen 127.0.0.1:0 2>/dev/full";
    command.args(["-c", line]).arg(bin("mws-proxy"));
    let proxy = Proxy::start(command);
    let peer = Peer::stateless(&proxy.url);
    peer.call("apple_pick", &json!({}));
    std::thread::sleep(Duration::from_millis(300));
    std::fs::remove_file(lab.state("events")).unwrap();
    peer.call("plum_dry", &json!({}));
    let both = || lab.calls("apple_pick").len() == 1 && lab.calls("plum_dry").len() == 1;
    assert!(eventually(Duration::from_secs(5), both), "{:?}", lab.events());
}

#[test]
fn the_most_talkative_proxy_names_no_connection_of_its_libraries() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&["-vvv"]);
    Peer::stateless(&proxy.url).call("apple_pick", &json!({}));
    let said = proxy.stderr();
    for word in ["pooling", "pool", "connecting to", "serve_inner", stub.address()] {
        assert!(!said.contains(word), "{word}: {said}");
    }
}
