//! Clients written by others × servers written by others, with the proxy between them.
//!
//! Invariant: what a client gets through the proxy is what the same client gets directly; an error
//! counts as equal only where the direct connection gives it too.
//! Deliberately absent: what a client or a server cannot do; its place in the table has a dash.

use mws_tests::lab::Lab;
use mws_tests::real::{Client, Parts, Target, parts, say, skip};
use mws_tests::servers::{self, Server};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Mutex;

const LEGACY: &str = "legacy";
const MODERN: &str = "2026-07-28";

const CLIENTS: [(Client, &str); 11] = [
    (Client::TypeScript, LEGACY),
    (Client::TypeScript, MODERN),
    (Client::TypeScript1, LEGACY),
    (Client::Python, LEGACY),
    (Client::Python, MODERN),
    (Client::FastMcp, LEGACY),
    (Client::FastMcp, MODERN),
    (Client::Rust, LEGACY),
    (Client::Rust, MODERN),
    (Client::Inspector, LEGACY),
    (Client::Inspector, MODERN),
];

/// What the inspector's command line can do.
const INSPECTOR: [&str; 5] = ["call", "resource", "prompt", "error", "structured"];

#[test]
fn every_client_gets_through_the_proxy_what_it_gets_from_the_server() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    let (mut columns, failures) = (columns(&parts, &lab), Mutex::new(Vec::new()));
    columns.reverse();
    let left = Mutex::new(columns);
    // Clients and servers wait for each other half of the time.
    let workers = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(server) = left.lock().unwrap().pop() else { return };
                    let failed = column(&parts, &lab, &server);
                    failures.lock().unwrap().extend(failed);
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

fn columns(parts: &Parts, lab: &Lab) -> Vec<Server> {
    let browsers = [false, true].map(|http| servers::playwright(parts, lab, http));
    let mut columns: Vec<_> = browsers.into_iter().flatten().collect();
    if columns.is_empty() {
        skip("no chromium for the browser's server");
    }
    columns.extend([
        servers::everything(parts, lab, "stdio"),
        servers::everything(parts, lab, "http"),
        servers::everything(parts, lab, "sse"),
        servers::filesystem(parts, lab),
        servers::memory(parts, lab),
        servers::git(parts, lab),
        servers::git(parts, lab).without_sessions("git, stateless"),
        servers::time(parts),
        servers::grafana(parts, lab),
        servers::kubernetes(parts, lab, false),
        servers::kubernetes(parts, lab, true),
        servers::suite(lab, false),
        servers::suite(lab, true),
    ]);
    let wanted = std::env::var("MWS_MATRIX").unwrap_or_default();
    columns.retain(|server| server.name.contains(&wanted));
    columns
}

/// One server with every client; the cells that failed.
fn column(parts: &Parts, lab: &Lab, server: &Server) -> Vec<String> {
    let mut upstream = match &server.behind {
        Target::Url(url) => json!({"url": url}),
        Target::Command(words) => json!({"command": words[0], "args": words[1..]}),
    };
    if let Some(protocol) = server.protocol {
        upstream["protocol"] = json!(protocol);
    }
    let home = Lab::with_config(&json!({"upstream": upstream, "pins": server.tools()}));
    let proxy = home.proxy(&[]);
    let through = Target::Url(proxy.url.clone());
    let mut failed = Vec::new();
    for (client, mode) in CLIENTS {
        let cell = Cell { parts, lab, server, client, mode };
        let (line, bad) = cell.compare(&through);
        let who = format!("{:<17} × {client:?} {mode}", server.name);
        say(&format!("{who:<42}{line}"));
        failed.extend(bad.into_iter().map(|bad| format!("{who}: {bad}")));
    }
    failed
}

struct Cell<'a> {
    parts: &'a Parts,
    lab: &'a Lab,
    server: &'a Server,
    client: Client,
    mode: &'a str,
}

impl Cell<'_> {
    fn compare(&self, through: &Target) -> (String, Vec<String>) {
        let able = |kind: &str| self.client != Client::Inspector || INSPECTOR.contains(&kind);
        let asks: Vec<_> = self.server.asks.iter().filter(|ask| able(ask.kind)).collect();
        let first = asks[0];
        let name = first.step["name"].as_str().unwrap();
        let list = json!({"op": "list"});
        let mut steps = vec![list];
        steps.extend(asks.iter().map(|ask| ask.step.clone()));
        // A server that lacks the client's era is asked directly in the other one.
        let lacks = if self.mode == LEGACY { !self.server.session } else { !self.server.stateless };
        let other = if self.mode == LEGACY { MODERN } else { LEGACY };
        let direct_mode =
            if lacks && self.client != Client::TypeScript1 { other } else { self.mode };
        let client = if lacks && self.client == Client::TypeScript1 {
            Client::TypeScript
        } else {
            self.client
        };
        let direct_mode = if client == self.client { direct_mode } else { MODERN };
        let direct = self.parts.run(self.lab, client, direct_mode, &self.server.target, &steps);
        let meta = [
            json!({"op": "call", "name": "search_tools", "arguments": {"query": name}}),
            json!({"op": "call", "name": "call_tool",
                "arguments": {"name": name, "arguments": first.step["arguments"]}}),
        ];
        steps.splice(1..1, meta);
        let got = self.parts.run(self.lab, self.client, self.mode, through, &steps);
        let (direct, got) = match (direct, got) {
            (Ok(direct), Ok(got)) => (direct, got),
            (Err(why), _) => {
                return (format!(" directly: {why}"), vec![format!("directly: {why}")]);
            }
            (_, Err(why)) => return (format!(" FAILED {why}"), vec![why]),
        };
        let mut row = Row::default();
        row.note("list", self.listed(&got[0], &direct[0]));
        row.note("search", found(&got[1], &direct[0], name));
        row.note("call_tool", same(&got[2], &direct[1], first.varies, lacks));
        for (number, ask) in asks.iter().enumerate() {
            let kind = if number == 0 { "direct" } else { ask.kind };
            let outcome = same(&got[3 + number], &direct[1 + number], ask.varies, lacks);
            row.note(kind, outcome);
        }
        (row.line, row.failed)
    }

    /// The list is the meta-tools and the pins that the server has.
    fn listed(&self, got: &Value, direct: &Value) -> Result<&'static str, String> {
        let names = |outcome: &Value| {
            let tools = outcome["result"]["tools"].as_array().cloned().unwrap_or_default();
            let names =
                tools.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned());
            names.collect::<Vec<_>>()
        };
        let has = names(direct);
        let outcome: String = got.to_string().chars().take(400).collect();
        let mut got = names(got);
        let meta: Vec<_> = got.drain(..2.min(got.len())).collect();
        got.sort();
        // Tools that a server shows to some clients alone are not in the proxy's own list.
        let pinned = |name: &String| has.contains(name) && !name.contains("elicitation-request");
        let expected: Vec<_> = self.server.tools().into_iter().filter(pinned).collect();
        got.retain(|name| !name.contains("elicitation-request"));
        if meta == ["search_tools", "call_tool"] && got == expected {
            return Ok("ok");
        }
        Err(format!("listed {meta:?} {got:?} instead of {expected:?}: {outcome}"))
    }
}

#[derive(Default)]
struct Row {
    line: String,
    failed: Vec<String>,
}

impl Row {
    fn note(&mut self, kind: &str, outcome: Result<&'static str, String>) {
        let word = match outcome {
            Ok(word) => word,
            Err(why) => {
                self.failed.push(format!("{kind}: {why}"));
                "FAILED"
            }
        };
        let _ = write!(self.line, " {kind} {word}");
    }
}

/// The exact name finds that tool alone, with the schema as the server sent it.
fn found(got: &Value, listed: &Value, name: &str) -> Result<&'static str, String> {
    let text = got["result"]["content"][0]["text"].as_str().unwrap_or_default();
    let reply: Value = serde_json::from_str(text).map_err(|_| format!("search gave {got}"))?;
    let tools = listed["result"]["tools"].as_array().cloned().unwrap_or_default();
    let tool = tools.into_iter().find(|tool| tool["name"] == name);
    let schema = tool.map(|tool| tool["inputSchema"].clone()).ok_or("not listed directly")?;
    let one = reply["results"].as_array().is_some_and(|results| results.len() == 1);
    if one && reply["results"][0]["name"] == name && schema == reply["results"][0]["inputSchema"] {
        return Ok("ok");
    }
    Err(format!("search gave {text}"))
}

fn same(got: &Value, direct: &Value, varies: bool, bridged: bool) -> Result<&'static str, String> {
    let [mut got, mut direct] = [got, direct].map(|outcome| {
        let outcome = if bridged { settled(outcome) } else { outcome.clone() };
        match outcome.get("error") {
            Some(error) => json!({"error": as_sent(error)}),
            None => outcome,
        }
    });
    if alike(&got["progress"], &direct["progress"]) {
        got["progress"].take();
        direct["progress"].take();
    }
    let equal = match (got.get("error"), direct.get("error")) {
        (Some(got), Some(direct)) if got == direct => return Ok("refused-as-directly"),
        (None, None) if varies => shape(&got) == shape(&direct),
        (None, None) => got == direct,
        _ => false,
    };
    if equal { Ok("ok") } else { Err(format!("got {got:.1000} instead of {direct:.1000}")) }
}

/// Some clients drop a notification that comes right before the response, so one list may lack some.
fn alike(got: &Value, direct: &Value) -> bool {
    let (Some(got), Some(direct)) = (got.as_array(), direct.as_array()) else { return false };
    let (few, many) = if got.len() < direct.len() { (got, direct) } else { (direct, got) };
    few.is_empty() == many.is_empty() && few.iter().all(|step| many.contains(step))
}

/// What bridging two protocol eras adds to a result, and what a client's version of a result lacks.
fn settled(outcome: &Value) -> Value {
    let mut outcome = outcome.clone();
    if let Some(result) = outcome.get_mut("result").and_then(Value::as_object_mut) {
        for key in ["resultType", "ttlMs", "cacheScope"] {
            result.remove(key);
        }
        if let Some(meta) = result.get_mut("_meta").and_then(Value::as_object_mut) {
            meta.remove("io.modelcontextprotocol/serverInfo");
            if meta.is_empty() {
                result.remove("_meta");
            }
        }
    }
    outcome
}

/// The error as the server sent it, where a client shows it within a text of its own: the inspector
/// shows no more than the message, and the status that goes with some errors hides all of it.
fn as_sent(error: &Value) -> Value {
    let text = |value: &Value| value["message"].as_str().unwrap_or_default().to_owned();
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let sent = |shown: &str| {
        let body = shown.split_once("Error POSTing to endpoint: ").map(|(_, body)| parsed(body));
        body.filter(|body| body["error"]["code"].is_i64()).map(|body| body["error"].clone())
    };
    let inspected = parsed(&text(error));
    if inspected["error"].is_object() {
        let shown = text(&inspected["error"]);
        return json!({"message": sent(&shown).map_or(shown, |error| text(&error))});
    }
    let mut error = sent(&text(error)).unwrap_or_else(|| error.clone());
    if error["data"].is_null() {
        error.as_object_mut().map(|error| error.remove("data"));
    }
    // The first TypeScript SDK puts the code into the message as well.
    let prefix = format!("MCP error {}: ", error["code"]);
    if let Some(message) = text(&error).strip_prefix(&prefix) {
        error["message"] = json!(message);
    }
    error
}

fn shape(outcome: &Value) -> Value {
    let result = &outcome["result"];
    let content = result["content"].as_array().cloned().unwrap_or_default();
    let kinds = content.iter().map(|part| {
        let large = part["data"].as_str().is_some_and(|data| data.len() > 10_000);
        json!([part["type"], large])
    });
    json!({
        "kinds": kinds.collect::<Vec<_>>(),
        "isError": result["isError"].as_bool().unwrap_or(false),
        "alive": result["alive"],
    })
}
