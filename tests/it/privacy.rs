//! Nothing that a person typed or a server answered is left behind, at any log level.
//!
//! Invariant: each test first proves that something was recorded, so silence is no success.
//! Deliberately absent: the catalog, which is the upstream's own text.

use mws_tests::lab::{CONFIG, Lab, bin, eventually};
use mws_tests::peer::Peer;
use mws_tests::raw::exchange;
use mws_tests::script::{Act, Era, Script, result};
use mws_tests::stub::Stub;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

// In lower case, and compared so: a header or a token may be folded on its way.
const CANARY: &str = "canary7f3a";

#[test]
fn the_proxy_leaves_no_trace_of_what_it_forwards() {
    for era in [Era::Stateless, Era::Session] {
        let secret = |what: &str| format!("{CANARY}-{what}");
        let answer = result(&format!(
            r#"{{"content":[{{"type":"text","text":"{}"}}],"_meta":{{"a":"{}"}}}}"#,
            secret("result"),
            secret("result-meta")
        ));
        let failure = |code: u16| {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":$ID,"error":{{"code":-32000,"message":"{}"}}}}"#,
                secret("error")
            );
            Act::Status(code, body)
        };
        let script = Script::new(era)
            .on("tools/call", "pear_peel", failure(500))
            .on("tools/call", "plum_dry", Act::Drop)
            .on("tools/call", "", answer)
            .on("prompts/get", "", failure(200))
            .on("vendor/thing", "", Act::Message(format!("not json {}", secret("garbage"))));
        let stub = Stub::start(script);
        let lab = Lab::facing(&stub.url);
        let mut proxy = lab.proxy(&["-vvv"]);
        let peer = if era == Era::Session {
            Peer::session(&proxy.url)
        } else {
            Peer::stateless(&proxy.url)
        };
        let argument = json!({"a": secret("argument")});
        for name in ["apple_pick", "pear_peel", "plum_dry"] {
            peer.request("tools/call", &json!({"name": name, "arguments": argument}));
            let inner = json!({"name": name, "arguments": argument});
            peer.request("tools/call", &json!({"name": "call_tool", "arguments": inner}));
        }
        peer.request("tools/call", &json!({"name": "call_tool", "arguments": argument}));
        peer.request(
            "tools/call",
            &json!({"name": "search_tools", "arguments": {"query": secret("query")}}),
        );
        peer.request("prompts/get", &json!({"name": "x", "arguments": argument}));
        peer.request("vendor/thing", &argument);
        peer.request("resources/read", &json!({"uri": format!("file:///{}", secret("uri"))}));
        peer.post("vendor/thing", None, &format!("{{ broken {}", secret("broken-body")));
        with_secret_headers(proxy.address(), &peer, &secret("header"));
        let recorded = || lab.events().iter().any(|line| line["event"] == "search");
        assert!(eventually(Duration::from_secs(3), recorded), "{:?}", lab.events());
        assert!(!lab.calls("apple_pick").is_empty());
        proxy.stop();
        let said = proxy.stderr();
        assert!(!said.trim().is_empty(), "-vvv says nothing, so this proves nothing");
        clean(&said, "standard error");
        clean_folder(&lab.state(""));
    }
}

#[test]
fn no_failure_of_an_upstream_leaves_a_trace_of_what_it_said() {
    std::thread::scope(|scope| {
        for upstream in [Era::Stateless, Era::Session] {
            for process in [false, true] {
                scope.spawn(move || fail_without_a_trace(upstream, process));
            }
        }
    });
}

fn fail_without_a_trace(upstream: Era, process: bool) {
    let script = failures().into_iter().fold(Script::new(upstream), |script, (case, act)| {
        script.on("tools/call", &format!("{CANARY}-{case}\""), act)
    });
    let stub = Stub::start(script.clone());
    let lab = Lab::new();
    let file = lab.write("script.json", &serde_json::to_string(&script).unwrap());
    let config = if process {
        json!({"command": bin("mws-stub-stdio"), "args": [file], "timeoutSeconds": 2})
    } else {
        json!({"url": stub.url, "timeoutSeconds": 2})
    };
    lab.write(CONFIG, &json!({"upstream": config}).to_string());
    let mut proxy = lab.proxy(&["-vvv"]);
    for peer in [Peer::stateless(&proxy.url), Peer::session(&proxy.url)] {
        for (case, _) in failures() {
            let arguments = json!({"case": format!("{CANARY}-{case}")});
            let call = json!({"name": "apple_pick", "arguments": arguments});
            peer.request("tools/call", &call);
            peer.request("tools/call", &json!({"name": "call_tool", "arguments": call}));
        }
    }
    let recorded = || lab.calls("apple_pick").len() > failures().len();
    assert!(eventually(Duration::from_secs(5), recorded), "{:?}", lab.events());
    proxy.stop();
    let said = proxy.stderr();
    assert!(!said.trim().is_empty(), "-vvv says nothing, so this proves nothing");
    clean(&said, "standard error");
    clean_folder(&lab.state(""));
}

/// Ways to fail, each with words that nobody else is to read.
fn failures() -> Vec<(&'static str, Act)> {
    let error = |code: i64| {
        format!(
            r#"{{"jsonrpc":"2.0","id":$ID,"error":{{"code":{code},"message":"{CANARY}","data":"{CANARY}"}}}}"#
        )
    };
    let page = format!("<html>{CANARY}</html>");
    let half = format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"content":[{{"text":"{CANARY}"#);
    let log = format!(
        "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"level\":\"error\",\"data\":\"{CANARY}\"}}}}\n\n"
    );
    let ask = format!(
        "data: {{\"jsonrpc\":\"2.0\",\"id\":\"{CANARY}\",\"method\":\"elicitation/create\",\"params\":{{\"message\":\"{CANARY}\",\"requestedSchema\":{{\"type\":\"object\",\"properties\":{{}}}}}}}}\n\n"
    );
    let other = format!(r#"{{"jsonrpc":"2.0","id":"{CANARY}","result":{{"text":"{CANARY}"}}}}"#);
    vec![
        ("invalid", Act::Message(error(-32602))),
        ("header-mismatch", Act::Status(400, error(-32020))),
        ("unauthorized", Act::Status(401, page.clone())),
        ("forbidden", Act::Status(403, page.clone())),
        ("not-found", Act::Status(404, page.clone())),
        ("too-many", Act::Status(429, page.clone())),
        ("broken", Act::Status(503, page.clone())),
        ("page", Act::Status(200, page)),
        ("half", Act::Message(half)),
        ("another-id", Act::Message(other)),
        ("cut", Act::Stream(vec![log.clone(), format!("data: {CANARY}\n\n"), ": \n\n".into()])),
        ("asks", Act::Stream(vec![log, ask])),
        ("gone", Act::Drop),
    ]
}

#[test]
fn the_other_programs_leave_no_trace_of_a_transcript() {
    let lab = Lab::new();
    let secret = |what: &str| format!("{CANARY}-{what}");
    let line = |kind: &str, content: &serde_json::Value| {
        json!({
            "sessionId": "11111111-1111-4111-a111-111111111111", "type": kind, "cwd": "/srv/app",
            "uuid": "00000000-0000-4000-a000-000000000000", "timestamp": "2026-04-01T10:00:00.000Z",
            "version": "2.1.123", "message": {"role": kind, "id": "msg_1", "content": content},
        })
    };
    let call = json!([
        {"type": "text", "text": secret("text")},
        {"type": "tool_use", "id": "toolu_090000000000000000000001", "name": "mcp__toolbox__apple_pick", "input": {"a": secret("input")}},
    ]);
    let done = json!([{"type": "tool_result", "tool_use_id": "toolu_090000000000000000000001", "content": secret("output")}]);
    let lines = [
        line("user", &json!(secret("prompt"))).to_string(),
        line("assistant", &call).to_string(),
        line("user", &done).to_string(),
        format!("{{ broken {}", secret("broken-line")),
    ];
    lab.write(
        ".claude/projects/-srv-app/11111111-1111-4111-a111-111111111111.jsonl",
        &(lines.join("\n") + "\n"),
    );
    for (program, args) in [
        ("mws-ingest", vec!["-vvv"]),
        ("mws-promote", vec!["-vvv", "--as-of", "2026-04-10"]),
        ("mws-promote", vec!["-vvv", "-n", "--json", "--as-of", "2026-04-10"]),
        ("mws-report", vec!["-vvv"]),
        ("mws", vec!["log"]),
    ] {
        let done = lab.run(program, &args).ok();
        clean(&done.stderr, program);
        clean(&done.stdout, program);
    }
    assert_eq!(lab.calls("apple_pick").len(), 1, "{:?}", lab.events());
    clean_folder(&lab.state(""));
}

#[test]
fn secrets_of_the_configuration_are_never_shown() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let header = json!({"X-Key": format!("{CANARY}-key")});
    let lab = Lab::with_config(&json!({"upstream": {"url": stub.url, "headers": header}}));
    let mut proxy = lab.proxy(&["-vvv"]);
    Peer::stateless(&proxy.url).call("apple_pick", &json!({}));
    let seen = stub.seen_of("tools/call").pop().unwrap();
    assert_eq!(seen.header("x-key"), Some(format!("{CANARY}-key").as_str()));
    proxy.stop();
    clean(&proxy.stderr(), "standard error");
    clean_folder(&lab.state(""));
    for args in [vec!["doctor"], vec!["paths"]] {
        let done = lab.run("mws", &args);
        clean(&(done.stdout + &done.stderr), args[0]);
    }
}

#[test]
fn state_is_readable_by_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    peer.tool_names();
    peer.call("apple_pick", &json!({}));
    let there = || lab.state("catalog.json").exists() && !lab.calls("apple_pick").is_empty();
    assert!(eventually(Duration::from_secs(3), there));
    let _ = lab.run("mws-index", &[]).ok();
    let mut files = 0;
    walk(&lab.state(""), &mut |path| {
        // The store of the index makes its own files, below a folder that nobody else can enter.
        if path.starts_with(lab.state("index/sled")) {
            return;
        }
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
        files += usize::from(path.is_file());
    });
    assert!(files >= 3, "{files} files");
}

fn with_secret_headers(address: &str, peer: &Peer, secret: &str) {
    let head = peer.head("tools/call", Some("apple_pick"))
        + &format!(
            "Authorization: Bearer {secret}\nX-Secret: {secret}\nCookie: a={secret}\nMcp-Param-Key: {secret}\n"
        );
    let body = peer.body("1", "tools/call", r#"{"name":"apple_pick"}"#);
    assert_eq!(exchange(address, &head, body.as_bytes()).unwrap().status, 200);
}

fn clean(text: &str, place: &str) {
    let lower = text.to_lowercase();
    if let Some(at) = lower.find(CANARY) {
        let from = lower[..at].rfind('\n').map_or(0, |end| end + 1);
        let line: String =
            lower[from..].lines().next().unwrap_or_default().chars().take(400).collect();
        panic!("{place} holds what it must not: {line}");
    }
}

fn clean_folder(folder: &Path) {
    let mut files = 0;
    walk(folder, &mut |path| {
        if path.is_file() {
            clean(
                &String::from_utf8_lossy(&std::fs::read(path).unwrap()),
                &path.display().to_string(),
            );
            files += 1;
        }
        clean(&path.display().to_string(), "a file name");
    });
    assert!(files > 0, "nothing was written to {}", folder.display());
}

fn walk(folder: &Path, visit: &mut impl FnMut(&Path)) {
    visit(folder);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, visit) } else { visit(&path) }
    }
}
