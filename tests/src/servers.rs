//! Servers written by others, each with what to ask of it: the columns of the matrix.
//!
//! Invariant: whatever is asked gives the same answer each time, or `varies` says that only its shape does.
//! Deliberately absent: anything beyond loopback.

use crate::lab::{Lab, finish, free_port};
use crate::real::{Parts, Served, Target};
use serde_json::{Value, json};
use std::io::{Read, Write};

/// One server.
pub struct Server {
    /// Name in the table.
    pub name: &'static str,
    /// How a client reaches it.
    pub target: Target,
    /// How the proxy reaches it.
    pub behind: Target,
    /// It speaks the session protocol.
    pub session: bool,
    /// It speaks the stateless protocol.
    pub stateless: bool,
    /// The protocol that the proxy is told to speak to it.
    pub protocol: Option<&'static str>,
    /// What to ask, in order; the first is the tool that is searched for and called in every way.
    pub asks: Vec<Ask>,
    running: Vec<Served>,
}

/// One thing to ask.
pub struct Ask {
    /// Column within the cell.
    pub kind: &'static str,
    /// The step for a client.
    pub step: Value,
    /// Times or pictures in the answer are never the same twice.
    pub varies: bool,
}

fn ask(kind: &'static str, step: Value) -> Ask {
    Ask { kind, step, varies: false }
}

fn call(kind: &'static str, name: &str, arguments: &Value) -> Ask {
    ask(kind, json!({"op": "call", "name": name, "arguments": arguments}))
}

fn progress(name: &str, arguments: &Value) -> Ask {
    ask("progress", json!({"op": "progress", "name": name, "arguments": arguments}))
}

fn cancel(name: &str, arguments: &Value) -> Ask {
    ask("cancel", json!({"op": "cancel", "name": name, "arguments": arguments}))
}

fn resource(uri: &str) -> Ask {
    ask("resource", json!({"op": "resource", "uri": uri}))
}

fn prompt(name: &str, arguments: &Value) -> Ask {
    ask("prompt", json!({"op": "prompt", "name": name, "arguments": arguments}))
}

impl Server {
    fn new(name: &'static str, target: Target, eras: [bool; 2], asks: Vec<Ask>) -> Self {
        let [session, stateless] = eras;
        let (behind, protocol, running) = (target.clone(), None, Vec::new());
        Self { name, target, behind, session, stateless, protocol, asks, running }
    }

    fn served(name: &'static str, running: Served, eras: [bool; 2], asks: Vec<Ask>) -> Self {
        let target = Target::Url(running.url.clone());
        Self { running: vec![running], ..Self::new(name, target, eras, asks) }
    }

    /// The same server, to which the proxy speaks the stateless protocol alone.
    #[must_use]
    pub fn without_sessions(mut self, name: &'static str) -> Self {
        self.protocol = Some("2026-07-28");
        self.session = false;
        self.name = name;
        self
    }

    /// The same server, which the proxy reaches over a transport that few clients still speak.
    fn behind(mut self, name: &'static str, older: Served) -> Self {
        self.behind = Target::Url(older.url.clone());
        self.running.push(older);
        self.name = name;
        self
    }

    fn varying(mut self) -> Self {
        self.asks.iter_mut().for_each(|ask| ask.varies = true);
        self
    }

    /// The tools that its asks call.
    #[must_use]
    pub fn tools(&self) -> Vec<String> {
        let called = self.asks.iter().filter(|ask| !matches!(ask.kind, "resource" | "prompt"));
        let mut names: Vec<_> =
            called.map(|ask| ask.step["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names.dedup();
        names
    }
}

const SESSION: [bool; 2] = [true, false];
const BOTH: [bool; 2] = [true, true];

/// The server that has one of everything, over `stdio`, `http`, or `sse` behind the proxy.
#[must_use]
pub fn everything(parts: &Parts, lab: &Lab, transport: &str) -> Server {
    let asks = vec![
        call("call", "get-sum", &json!({"a": 2, "b": 40})),
        progress("trigger-long-running-operation", &json!({"duration": 1, "steps": 2})),
        cancel("trigger-long-running-operation", &json!({"duration": 3, "steps": 1})),
        resource("demo://resource/static/document/features.md"),
        prompt("simple-prompt", &json!({})),
        call("error", "get-sum", &json!({"a": "no number"})),
        call("elicit", "trigger-elicitation-request", &json!({})),
        call("image", "get-tiny-image", &json!({})),
        call("structured", "get-structured-content", &json!({"location": "Chicago"})),
    ];
    if transport == "stdio" {
        let target = Target::Command(parts.everything(&["stdio"]));
        return Server::new("everything stdio", target, SESSION, asks);
    }
    let server = Server::served("everything http", parts.everything_http(lab), SESSION, asks);
    match transport {
        "sse" => server.behind("everything sse", parts.everything_sse(lab)),
        _ => server,
    }
}

/// The server for files.
#[must_use]
pub fn filesystem(parts: &Parts, lab: &Lab) -> Server {
    lab.write("files/note.txt", "one\ntwo\n");
    let folder = lab.path("files").canonicalize().unwrap();
    let inside = |name: &str| folder.join(name).display().to_string();
    let asks = vec![
        call("call", "read_text_file", &json!({"path": inside("note.txt")})),
        progress("list_directory", &json!({"path": folder.display().to_string()})),
        cancel("list_directory", &json!({"path": folder.display().to_string()})),
        resource("file:///nothing"),
        prompt("nothing", &json!({})),
        call("error", "read_text_file", &json!({"path": inside("missing.txt")})),
    ];
    Server::new("filesystem", Target::Command(parts.filesystem(&folder)), SESSION, asks)
}

/// The server for a graph of notes.
#[must_use]
pub fn memory(parts: &Parts, lab: &Lab) -> Server {
    let note = r#"{"type":"entity","name":"ada","entityType":"person","observations":["counts"]}"#;
    let file = lab.write("memory.jsonl", note);
    let asks = vec![
        call("call", "search_nodes", &json!({"query": "ada"})),
        progress("read_graph", &json!({})),
        cancel("read_graph", &json!({})),
        resource("memory://nothing"),
        prompt("nothing", &json!({})),
        call("error", "search_nodes", &json!({"query": 7})),
    ];
    Server::new("memory", Target::Command(parts.memory(&file)), SESSION, asks)
}

/// The server for one git repository.
#[must_use]
pub fn git(parts: &Parts, lab: &Lab) -> Server {
    lab.write("repository/file.txt", "text\n");
    let script = "cd repository && [ ! -e .git ] || exit 0; git init -q -b main && git add . && \
        git -c user.name=a -c user.email=a@b commit -q -m first --date 2026-01-01T00:00:00Z";
    let mut command = lab.command("bash");
    command.env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z").args(["-c", script]);
    let _ = finish(&mut command, "").ok();
    let repository = lab.path("repository");
    let path = repository.display().to_string();
    let asks = vec![
        call("call", "git_log", &json!({"repo_path": path, "max_count": 3})),
        progress("git_status", &json!({"repo_path": path})),
        cancel("git_status", &json!({"repo_path": path})),
        resource("git://nothing"),
        prompt("nothing", &json!({})),
        call("error", "git_show", &json!({"repo_path": path, "revision": "no-such-revision"})),
    ];
    Server::new("git", Target::Command(parts.git(&repository)), BOTH, asks)
}

/// The server for time zones.
#[must_use]
pub fn time(parts: &Parts) -> Server {
    let noon = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let asks = vec![
        call("call", "convert_time", &noon),
        progress("convert_time", &noon),
        cancel("convert_time", &noon),
        resource("time://nothing"),
        prompt("nothing", &json!({})),
        call("error", "get_current_time", &json!({"timezone": "Nowhere/Else"})),
    ];
    Server::new("time", Target::Command(parts.time()), BOTH, asks)
}

/// The server for a browser, as a process or over HTTP; `None` where there is no browser.
#[must_use]
pub fn playwright(parts: &Parts, lab: &Lab, http: bool) -> Option<Server> {
    let page = json!({"url": serve_page()});
    let asks = vec![
        call("call", "browser_navigate", &page),
        progress("browser_navigate", &page),
        cancel("browser_wait_for", &json!({"time": 2})),
        resource("browser://nothing"),
        prompt("nothing", &json!({})),
        call("error", "browser_click", &json!({"ref": "nothing", "element": "nothing"})),
        call("image", "browser_take_screenshot", &json!({})),
    ];
    if http {
        let port = free_port();
        let words = parts.playwright(&["--port", &port.to_string()])?;
        // It answers under the name of its own address alone.
        let running = Served::start(lab, &words, port, "localhost");
        return Some(Server::served("playwright http", running, SESSION, asks).varying());
    }
    let target = Target::Command(parts.playwright(&[])?);
    Some(Server::new("playwright stdio", target, SESSION, asks).varying())
}

/// The server for dashboards.
#[must_use]
pub fn grafana(parts: &Parts, lab: &Lab) -> Server {
    let asks = vec![
        call("call", "list_datasources", &json!({})),
        progress("list_datasources", &json!({})),
        cancel("list_datasources", &json!({})),
        resource("grafana://nothing"),
        prompt("nothing", &json!({})),
        call("error", "get_dashboard_by_uid", &json!({"uid": "nothing"})),
    ];
    Server::served("grafana http", parts.grafana(lab), BOTH, asks)
}

/// The server for clusters, which speaks more on a pipe than over HTTP.
#[must_use]
pub fn kubernetes(parts: &Parts, lab: &Lab, http: bool) -> Server {
    let config = lab.write("kube.yaml", KUBE);
    let asks = vec![
        call("call", "configuration_view", &json!({})),
        progress("configuration_view", &json!({})),
        cancel("configuration_view", &json!({})),
        resource("k8s://nothing"),
        prompt("nothing", &json!({})),
        call("error", "pods_get", &json!({"namespace": "none"})),
    ];
    if http {
        let port = free_port();
        let words = parts.kubernetes(&config, &["--port", &port.to_string()]);
        let running = Served::start(lab, &words, port, "127.0.0.1");
        return Server::served("kubernetes http", running, SESSION, asks);
    }
    let target = Target::Command(parts.kubernetes(&config, &[]));
    Server::new("kubernetes stdio", target, BOTH, asks)
}

/// The conformance suite's server on the Rust SDK, of both eras or of the stateless one alone.
#[must_use]
pub fn suite(lab: &Lab, stateless_only: bool) -> Server {
    let asks = vec![
        call("call", "test_custom_header", &json!({"value": "ä b"})),
        progress("test_tool_with_progress", &json!({})),
        cancel("slow_compute", &json!({"seconds": 3})),
        resource("test://static-text"),
        prompt("test_simple_prompt", &json!({})),
        call("error", "test_error_handling", &json!({})),
        call("elicit", "test_elicitation", &json!({"message": "Who?"})),
        call("image", "test_multiple_content_types", &json!({})),
    ];
    if stateless_only {
        let running = Served::suite(lab, &["--stateless"]);
        return Server::served("rmcp stateless", running, [false, true], asks);
    }
    Server::served("rmcp both", Served::suite(lab, &[]), BOTH, asks)
}

/// A page on loopback, for as long as the tests run.
fn serve_page() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
            let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{PAGE}", PAGE.len());
        }
    });
    url
}

const PAGE: &str = "<!doctype html><title>A page</title><body style=\"height:100vh;margin:0;\
    background:conic-gradient(red,yellow,lime,aqua,blue,magenta,red)\"><h1>A page</h1>\
    <script>for(let i=0;i<200;i++)document.body.append('line '+i+' ')</script>";
const KUBE: &str = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
    clusters:\n- {name: k, cluster: {server: 'http://127.0.0.1:1'}}\n\
    users:\n- {name: u, user: {token: x}}\ncontexts:\n- {name: c, context: {cluster: k, user: u}}\n";
