//! Servers and clients written by others, with and without the proxy between them.
//!
//! Invariant: each comparison is against the same client, or the same tap, on a direct connection.
//! Deliberately absent: tools whose result depends on the time or on the network.

use mws_tests::lab::{Lab, Proxy, finish};
use mws_tests::peer::Peer;
use mws_tests::pipe::Pipe;
use mws_tests::real::{Client, Parts, Step, Target, parts};
use serde_json::{Value, json};

/// A server with calls that always give the same result; the first one is the one searched for.
struct Upstream {
    target: Target,
    /// It answers `server/discover`, so a stateless client can reach it directly.
    stateless: bool,
    calls: Vec<(&'static str, Value)>,
}

const CLIENTS: [(Client, &str); 6] = [
    (Client::TypeScript, "legacy"),
    (Client::TypeScript, "2026-07-28"),
    (Client::Python, "legacy"),
    (Client::Python, "2026-07-28"),
    (Client::Inspector, "legacy"),
    (Client::Inspector, "2026-07-28"),
];

#[test]
fn clients_reach_server_everything_over_stdio() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    all_clients(&parts, &lab, &everything(Target::Command(parts.everything(&[]))));
}

#[test]
fn clients_reach_server_everything_over_http() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    let served = parts.everything_http(&lab);
    all_clients(&parts, &lab, &everything(Target::Url(served.url.clone())));
}

#[test]
fn clients_reach_server_filesystem() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    all_clients(&parts, &lab, &filesystem(&parts, &lab));
}

#[test]
fn clients_reach_mcp_server_git() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    all_clients(&parts, &lab, &git(&parts, &lab));
}

#[test]
fn session_clients_reach_a_server_that_is_spoken_to_without_sessions() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    let upstream = git(&parts, &lab);
    let Target::Command(words) = &upstream.target else { unreachable!() };
    let server = json!({"command": words[0], "args": words[1..], "protocol": "2026-07-28"});
    let home = Lab::with_config(&json!({"upstream": server}));
    let proxy = home.proxy(&[]);
    let through = Target::Url(proxy.url.clone());
    for client in [Client::TypeScript, Client::Python, Client::Inspector] {
        let calls = &upstream.calls[..2];
        let direct = parts.run(&lab, client, "legacy", &upstream.target, &direct_steps(calls));
        let got = parts.run(&lab, client, "legacy", &through, &proxied_steps(calls));
        assert_eq!(names(&got[0]), ["search_tools", "call_tool"], "{client:?}");
        found(&got[1], &direct[0], calls[0].0, &format!("{client:?}"));
        for (number, (name, _)) in calls.iter().enumerate() {
            let wrapped = settled(&got[2 + 2 * number]);
            assert_eq!(wrapped, settled(&direct[1 + number]), "{client:?}: {name}");
        }
    }
}

#[test]
fn the_tap_sees_the_same_bytes_from_stdio_servers() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    let servers = [
        everything(Target::Command(parts.everything(&[]))),
        filesystem(&parts, &lab),
        git(&parts, &lab),
    ];
    for upstream in servers {
        let Target::Command(words) = &upstream.target else { unreachable!() };
        let mut command = lab.command(&words[0]);
        command.args(&words[1..]);
        let mut direct = Pipe::start(command);
        let greeting = Peer::stateless("http://unused/mcp").initialize_body();
        direct.ask("0", &greeting);
        direct.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let (_home, proxy) = proxied(&upstream.target, &[]);
        let peer = Peer::session(&proxy.url);
        for (name, arguments) in &upstream.calls {
            let params = json!({"name": name, "arguments": arguments}).to_string();
            let body = peer.body("77", "tools/call", &params);
            let expected = direct.ask("77", &body);
            assert_eq!(peer.post("tools/call", Some(name), &body).message(), expected, "{name}");
        }
    }
}

#[test]
fn the_tap_sees_the_same_bytes_from_an_http_server() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    let served = parts.everything_http(&lab);
    let upstream = everything(Target::Url(served.url.clone()));
    let (_home, proxy) = proxied(&upstream.target, &[]);
    let (direct, through) = (Peer::session(&served.url), Peer::session(&proxy.url));
    let mut asked = upstream.calls.clone();
    asked.push(("no_such_tool", json!({})));
    for (name, arguments) in asked {
        let params = json!({"name": name, "arguments": arguments}).to_string();
        let body = direct.body("77", "tools/call", &params);
        let [expected, got] =
            [&direct, &through].map(|peer| peer.post("tools/call", Some(name), &body));
        assert_eq!(got.status, expected.status, "{name}");
        assert_eq!(got.header("content-type"), expected.header("content-type"), "{name}");
        assert_eq!(without_event_ids(&got.text()), without_event_ids(&expected.text()), "{name}");
    }
    for method in ["resources/list", "prompts/list", "resources/templates/list", "ping"] {
        let body = direct.body("78", method, "{}");
        let [expected, got] = [&direct, &through].map(|peer| peer.post(method, None, &body));
        assert_eq!(got.message(), expected.message(), "{method}");
    }
}

#[test]
fn pinned_tools_are_listed_beside_the_meta_tools() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    let upstream = everything(Target::Command(parts.everything(&[])));
    let (_home, proxy) = proxied(&upstream.target, &["get-sum", "echo"]);
    let direct = parts.run(&lab, Client::TypeScript, "legacy", &upstream.target, &[Step::List]);
    for (client, mode) in CLIENTS {
        let at = Target::Url(proxy.url.clone());
        let listed = parts.run(&lab, client, mode, &at, &[Step::List]);
        assert_eq!(names(&listed[0])[..2], ["search_tools", "call_tool"], "{client:?} {mode}");
        let mut rest = names(&listed[0])[2..].to_vec();
        rest.sort();
        assert_eq!(rest, ["echo", "get-sum"], "{client:?} {mode}");
        for name in ["echo", "get-sum"] {
            let described = tool(&listed[0], name)["description"].clone();
            assert_eq!(described, tool(&direct[0], name)["description"]);
        }
    }
}

fn all_clients(parts: &Parts, lab: &Lab, upstream: &Upstream) {
    let (_home, proxy) = proxied(&upstream.target, &[]);
    let through = Target::Url(proxy.url.clone());
    let mut known: Option<(Client, &str, Vec<Value>)> = None;
    for (client, mode) in CLIENTS {
        let who = format!("{client:?} {mode}");
        // The inspector starts a process for each step, so it makes the first two calls only.
        let few = if client == Client::Inspector { 2 } else { upstream.calls.len() };
        let calls = &upstream.calls[..few];
        let direct_mode = if upstream.stateless { mode } else { "legacy" };
        let direct = match known.take() {
            Some((same, mode, direct)) if (same, mode) == (client, direct_mode) => direct,
            _ => parts.run(lab, client, direct_mode, &upstream.target, &direct_steps(calls)),
        };
        let got = parts.run(lab, client, mode, &through, &proxied_steps(calls));
        assert_eq!(names(&got[0]), ["search_tools", "call_tool"], "{who}");
        found(&got[1], &direct[0], calls[0].0, &who);
        for (number, (name, _)) in calls.iter().enumerate() {
            let expected = settled(&direct[1 + number]);
            assert!(expected.get("result").is_some(), "{who}: {name} direct: {expected}");
            let [wrapped, named] = [0, 1].map(|way| settled(&got[2 + 2 * number + way]));
            // The inspector itself refuses a name that is not listed.
            if client != Client::Inspector {
                assert_eq!(named, expected, "{who}: {name} by its own name");
            }
            let wrapped = without_hint(wrapped, &expected);
            assert_eq!(wrapped, expected, "{who}: {name} through call_tool");
        }
        known = Some((client, direct_mode, direct));
    }
}

// An argument error that was reached through `call_tool` may carry the tool's schema behind it.
fn without_hint(mut wrapped: Value, expected: &Value) -> Value {
    if expected["result"]["isError"] == true
        && let Some(content) = wrapped["result"]["content"].as_array_mut()
    {
        content.truncate(expected["result"]["content"].as_array().map_or(0, Vec::len));
    }
    wrapped
}

fn direct_steps(calls: &[(&'static str, Value)]) -> Vec<Step> {
    let calls = calls.iter().map(|(name, arguments)| Step::Call(name, arguments.clone()));
    std::iter::once(Step::List).chain(calls).collect()
}

fn proxied_steps(calls: &[(&'static str, Value)]) -> Vec<Step> {
    let mut steps = vec![Step::List];
    steps.push(Step::Call("search_tools", json!({"query": calls[0].0})));
    for (name, arguments) in calls {
        steps.push(Step::Call("call_tool", json!({"name": name, "arguments": arguments})));
        steps.push(Step::Call(name, arguments.clone()));
    }
    steps
}

// The exact name finds that tool alone, with the schema as the server sent it.
fn found(outcome: &Value, listed: &Value, name: &str, who: &str) {
    let text = outcome["result"]["content"][0]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("{who}: search_tools gave {outcome}"));
    let reply: Value = serde_json::from_str(text).unwrap();
    assert_eq!(reply["kind"], "exact", "{who}: {text}");
    assert_eq!(reply["results"].as_array().unwrap().len(), 1, "{who}: {text}");
    assert_eq!(reply["results"][0]["name"], name, "{who}");
    assert_eq!(reply["results"][0]["inputSchema"], tool(listed, name)["inputSchema"], "{who}");
}

/// Starts a proxy in its own home; both are kept as long as the test needs them.
fn proxied(target: &Target, pins: &[&str]) -> (Lab, Proxy) {
    let upstream = match target {
        Target::Url(url) => json!({"url": url}),
        Target::Command(words) => json!({"command": words[0], "args": words[1..]}),
    };
    let lab = Lab::with_config(&json!({"upstream": upstream, "pins": pins}));
    let proxy = lab.proxy(&[]);
    (lab, proxy)
}

fn everything(target: Target) -> Upstream {
    let calls = vec![
        ("get-sum", json!({"a": 2, "b": 40})),
        ("echo", json!({"message": "ä \u{1F980} \"quoted\""})),
        ("get-structured-content", json!({"location": "Chicago"})),
        ("get-tiny-image", json!({})),
        ("get-annotated-message", json!({"messageType": "error", "includeImage": true})),
        ("get-resource-links", json!({"count": 2})),
        ("get-sum", json!({"a": "no number"})),
    ];
    Upstream { target, stateless: false, calls }
}

fn filesystem(parts: &Parts, lab: &Lab) -> Upstream {
    let folder = lab.path("files").canonicalize().unwrap_or_else(|_| {
        lab.write("files/note.txt", "one\ntwo\n");
        lab.path("files").canonicalize().unwrap()
    });
    let inside = |name: &str| folder.join(name).display().to_string();
    let calls = vec![
        ("list_directory", json!({"path": folder.display().to_string()})),
        ("read_text_file", json!({"path": inside("note.txt")})),
        ("read_text_file", json!({"path": inside("missing.txt")})),
        ("read_text_file", json!({"path": "/etc/hostname"})),
        ("list_allowed_directories", json!({})),
    ];
    Upstream { target: Target::Command(parts.filesystem(&folder)), stateless: false, calls }
}

fn git(parts: &Parts, lab: &Lab) -> Upstream {
    let repository = lab.path("repository");
    if !repository.exists() {
        lab.write("repository/file.txt", "text\n");
        let script = "cd repository && git init -q -b main && git add . && \
            git -c user.name=a -c user.email=a@b commit -q -m first --date 2026-01-01T00:00:00Z";
        let mut command = lab.command("bash");
        let _ = finish(
            command.env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z").args(["-c", script]),
            "",
        )
        .ok();
    }
    let path = repository.display().to_string();
    let calls = vec![
        ("git_status", json!({"repo_path": path})),
        ("git_log", json!({"repo_path": path, "max_count": 3})),
        ("git_show", json!({"repo_path": path, "revision": "HEAD"})),
        ("git_show", json!({"repo_path": path, "revision": "no-such-revision"})),
        ("git_diff", json!({"repo_path": path})),
    ];
    Upstream { target: Target::Command(parts.git(&repository)), stateless: true, calls }
}

// What bridging two protocol eras adds to a result.
fn settled(outcome: &Value) -> Value {
    let mut outcome = outcome.clone();
    if let Some(result) = outcome.get_mut("result").and_then(Value::as_object_mut) {
        result.remove("resultType");
        if let Some(meta) = result.get_mut("_meta").and_then(Value::as_object_mut) {
            meta.remove("io.modelcontextprotocol/serverInfo");
            if meta.is_empty() {
                result.remove("_meta");
            }
        }
    }
    outcome
}

fn names(outcome: &Value) -> Vec<String> {
    let tools = outcome["result"]["tools"].as_array();
    let tools = tools.unwrap_or_else(|| panic!("no list of tools: {outcome}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn tool<'a>(listed: &'a Value, name: &str) -> &'a Value {
    let tools = listed["result"]["tools"].as_array().unwrap();
    tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name} is not listed"))
}

// Event ids of server-everything are random.
fn without_event_ids(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with("id:")).collect()
}
