//! What goes wrong around the proxy, and what it then says and does.
//!
//! Invariant: a message that is asserted names the thing that is wrong.
//! Deliberately absent: full disks, kill loops and cut connections.

use mws_tests::lab::{CONFIG, Done, Lab, bin, eventually, finish, free_port};
use mws_tests::peer::Peer;
use mws_tests::script::{Act, Era, Script};
use mws_tests::stub::Stub;
use serde_json::json;
use std::time::{Duration, Instant};

const OLD_LOG: &str = "old.jsonl";
const CATALOG: &str =
    r#"{"tools":[{"name":"apple_pick","description":"d","inputSchema":{"type":"object"}}]}"#;

#[test]
fn a_dead_upstream_leaves_the_last_good_catalog() {
    let url = format!("http://127.0.0.1:{}/mcp", free_port());
    let lab = Lab::with_config(&json!({"upstream": {"url": url}, "pins": ["apple_pick"]}));
    lab.write_state("catalog.json", CATALOG);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    let names = within(6, || peer.tool_names());
    assert_eq!(names, ["search_tools", "call_tool", "apple_pick"]);
    let found = within(6, || peer.call("search_tools", &json!({"query": "apple_pick"})));
    assert!(found.to_string().contains("apple_pick"), "{found}");
    let message = within(10, || peer.ask("tools/call", &json!({"name": "apple_pick"})));
    let failed = message.get("error").is_some() || message["result"]["isError"] == true;
    assert!(failed, "a call to a dead upstream succeeded: {message}");
}

#[test]
fn a_dead_upstream_and_no_catalog_leave_the_meta_tools() {
    let lab = Lab::facing(&format!("http://127.0.0.1:{}/mcp", free_port()));
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    assert_eq!(within(6, || peer.tool_names()), ["search_tools", "call_tool"]);
}

#[test]
fn a_hung_upstream_costs_five_seconds_once() {
    let mut script = Script::new(Era::Stateless);
    for method in ["initialize", "server/discover", "tools/list"] {
        script = script.on(method, "", Act::Hang);
    }
    let stub = Stub::start(script);
    let lab = Lab::with_config(&json!({"upstream": {"url": stub.url}, "pins": ["apple_pick"]}));
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    assert_eq!(within(7, || peer.tool_names()), ["search_tools", "call_tool"]);
    assert_eq!(within(2, || peer.tool_names()), ["search_tools", "call_tool"]);
    drop(proxy);
    lab.write_state("catalog.json", CATALOG);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    assert_eq!(within(6, || peer.tool_names()).last().unwrap(), "apple_pick");
}

#[test]
fn an_upstream_that_comes_back_is_found_again() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let address = stub.address().to_owned();
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    peer.call("apple_pick", &json!({}));
    drop(stub);
    let message = within(10, || peer.ask("tools/call", &json!({"name": "apple_pick"})));
    assert!(message.get("error").is_some() || message["result"]["isError"] == true, "{message}");
    let _stub = Stub::start_at(&address, Script::new(Era::Stateless));
    let back = eventually(Duration::from_secs(5), || {
        peer.ask("tools/call", &json!({"name": "apple_pick"})).to_string().contains("plain answer")
    });
    assert!(back, "{}", proxy.stderr());
    let failed = || lab.calls("apple_pick").iter().any(|call| call["ok"] == false);
    assert!(eventually(Duration::from_secs(3), failed), "{:?}", lab.events());
}

#[test]
fn a_child_that_dies_is_started_again() {
    let lab = Lab::new();
    let mut script = Script::new(Era::Session).on("tools/call", "plum_dry", Act::Drop);
    script.record = Some(lab.path("record"));
    let file =
        lab.write("script.json", &serde_json::to_string(&script).unwrap()).display().to_string();
    let stub = bin("mws-stub-stdio").display().to_string();
    let proxy = lab.proxy(&["--upstream-command", &stub, &file]);
    let peer = Peer::session(&proxy.url);
    peer.call("apple_pick", &json!({}));
    let message = within(15, || peer.ask("tools/call", &json!({"name": "plum_dry"})));
    assert!(message.get("error").is_some() || message["result"]["isError"] == true, "{message}");
    let back = eventually(Duration::from_secs(10), || {
        let peer = Peer::session(&proxy.url);
        peer.ask("tools/call", &json!({"name": "apple_pick"})).to_string().contains("plain answer")
    });
    assert!(back, "{}", proxy.stderr());
}

#[test]
fn a_child_that_starts_slowly_is_waited_for() {
    let stub = bin("mws-stub-stdio").display().to_string();
    for era in [Era::Session, Era::Stateless] {
        let lab = Lab::new();
        let script = serde_json::to_string(&Script::new(era)).unwrap();
        let file = lab.write("script.json", &script).display().to_string();
        let line = format!("sleep 4; exec {stub} {file}");
        let proxy = lab.proxy(&["--upstream-command", "bash", "-c", &line]);
        let peer = Peer::stateless(&proxy.url);
        let message = within(20, || peer.ask("tools/call", &json!({"name": "apple_pick"})));
        assert!(message.to_string().contains("plain answer"), "{era:?}: {message}");
    }
}

#[test]
fn a_command_that_does_not_exist_is_named_with_the_path_searched() {
    let lab = Lab::new();
    let mut command = lab.command(bin("mws-proxy"));
    command.args(["--check", "--upstream-command", "no-such-server-1", "--flag"]);
    let done = finish(command.env("PATH", "/usr/bin:/nowhere-2"), "");
    assert_ne!(done.code, 0);
    let said = done.stdout + &done.stderr;
    for word in ["no-such-server-1", "/nowhere-2"] {
        assert!(said.contains(word), "no {word} in {said}");
    }
}

#[test]
fn a_port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let lab = Lab::new();
    let done = lab.run("mws-proxy", &["--listen", &format!("127.0.0.1:{port}")]);
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(done.stderr.contains(&port), "{}", done.stderr);
    assert_eq!(done.stdout, "");
}

#[test]
fn an_unknown_field_is_a_warning_with_the_nearest_known_name() {
    let lab = Lab::with_config(&json!({"pinz": [], "promote": {"minSession": 3}}));
    for program in ["mws-ingest", "mws-report"] {
        let done = lab.run(program, &[]).ok();
        for word in ["pinz", "pins", "minSession", "minSessions", "config.json"] {
            assert!(done.stderr.contains(word), "{program}: no {word} in {}", done.stderr);
        }
    }
    let done = lab.run("mws", &["doctor"]);
    assert!(
        (done.stdout + &done.stderr).contains("pinz"),
        "doctor does not name the unknown field"
    );
}

#[test]
fn a_wrong_type_is_named_with_file_and_field() {
    for (config, field) in [
        (r#"{"upstream": {"url": 5}}"#, "upstream.url"),
        (r#"{"listen": {"port": "x"}}"#, "listen.port"),
        (r#"{"pins": "a"}"#, "pins"),
        (r#"{"promote": {"minSessions": -1}}"#, "promote.minSessions"),
        (r#"{"upstream": {"url": "no url"}}"#, "upstream.url"),
        (r#"{"upstream": {"url": "http://u:p@h/"}}"#, "upstream.headers"),
        (r#"{"upstream": {"url": "http://h:65536/"}}"#, "upstream.url"),
        (r#"{"stateDir": "~nobody/x"}"#, "stateDir"),
        (r#"{"pins": []"#, ""),
        (r#"[]"#, ""),
    ] {
        let lab = Lab::new();
        lab.write(CONFIG, config);
        for program in ["mws-proxy", "mws-promote", "mws-ingest", "mws-index", "mws-report"] {
            let done = lab.run(program, &[]);
            assert_eq!(done.code, 2, "{program} {config}: {}", done.stderr);
            let named = done.stderr.contains("config.json") && done.stderr.contains(field);
            assert!(named, "{program} {config}: {}", done.stderr);
        }
    }
}

#[test]
fn wrong_usage_is_told_by_the_exit_code() {
    let lab = Lab::new();
    lab.write(CONFIG, "{}");
    lab.write(OLD_LOG, "{\"ts\":\"2026-03-01T00:00:11Z\",\"tool\":\"a\",\"ok\":true}\n");
    for (program, args) in [
        ("mws-proxy", vec!["--no-such-flag"]),
        ("mws-proxy", vec!["--listen", "nonsense"]),
        ("mws-ingest", vec!["--since", "yesterdayish"]),
        ("mws-promote", vec!["--as-of", "nonsense"]),
        ("mws-promote", vec!["--window-days", "90", "--keep-days", "30"]),
        ("mws-report", vec!["--since", "x"]),
        ("mws-index", vec!["no-such-catalog.json"]),
        ("mws-index", vec![CONFIG]),
        ("mws-index", vec!["search", "--catalog", CONFIG, "x"]),
        ("mws-promote", vec!["--catalog", CONFIG, OLD_LOG]),
        ("mws", vec!["no-such-command"]),
    ] {
        let done: Done = lab.run(program, &args);
        assert_eq!(done.code, 2, "{program} {args:?}: {}", done.stderr);
        assert!(!done.stderr.trim().is_empty(), "{program} {args:?} says nothing");
    }
}

#[test]
fn a_missing_command_is_answered_with_those_there_are() {
    let lab = Lab::new();
    let done = lab.run("mws", &["--color", "never"]);
    assert_eq!(done.code, 2, "{}", done.stderr);
    assert!(done.stderr.contains("doctor, demo,") && done.stderr.contains("promote"));
    assert!(!done.stderr.contains("demo-upstream"), "{}", done.stderr);
}

#[test]
fn a_log_without_events_cannot_be_promoted() {
    let lab = Lab::new();
    let done = lab.run("mws-promote", &[]);
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(!lab.state("working-set.json").exists());
}

#[test]
fn damaged_lines_of_the_log_are_skipped_and_counted() {
    let lab = Lab::new();
    let call = |day: &str, session: &str| {
        format!(
            r#"{{"ts":"2026-04-{day}T10:00:00.000Z","tool":"apple_pick","via":"direct","ok":true,"ms":1,"client":"x","session":"{session}"}}"#
        )
    };
    let log = format!("{}\n{{torn\n\u{0}\u{0}\n[]\n{}\n", call("01", "a"), call("02", "b"));
    let done = lab.feed("mws-promote", &["-o", "-", "--as-of", "2026-04-10", "-"], &log).ok();
    assert!(done.stdout.contains("apple_pick"), "{}", done.stdout);
    assert!(done.stderr.contains('3'), "3 damaged lines are not counted: {}", done.stderr);
}

#[test]
fn check_says_whether_the_upstream_is_there() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let done = lab.run("mws-proxy", &["--check"]).ok();
    let printed: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!((&printed["ok"], &printed["tools"]), (&json!(true), &json!(3)), "{printed}");
    assert_eq!(printed["protocol"], "2026-07-28");
    assert!(lab.state("catalog.json").exists());
    let address = stub.address().to_owned();
    drop(stub);
    let done = lab.run("mws-proxy", &["--check"]);
    assert_eq!(done.code, 1, "{}", done.stdout);
    assert!((done.stdout + &done.stderr).contains(&address));
}

#[test]
fn a_proxy_that_is_asked_to_stop_ends_well() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let mut proxy = lab.proxy(&[]);
    Peer::stateless(&proxy.url).call("apple_pick", &json!({}));
    assert_eq!(proxy.stop(), 0, "{}", proxy.stderr());
    assert_eq!(
        lab.calls("apple_pick").len(),
        1,
        "the last call was not written: {:?}",
        lab.events()
    );
}

fn within<T>(seconds: u64, action: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let value = action();
    let took = start.elapsed();
    assert!(took < Duration::from_secs(seconds), "it took {took:?}, more than {seconds} s");
    value
}
