//! `mws demo`: the whole pipeline with a made-up server and a made-up user.
//!
//! Invariant: every figure shown was measured in this run, through the real programs.
//! Deliberately absent: shortcuts past the proxy. The demo sees what a client sees.

mod client;
mod lab;
mod proxy;
mod transcripts;
mod upstream;

use std::io;
use std::time::{Duration, Instant};

use mws_cli::{Exit, Failure, Output};
use mws_event::{Event, Kind, Source};
use mws_state::StateDir;
use serde_json::{Value, json};

use client::Client;
use lab::Lab;
use proxy::Proxy;

/// How long the log may lag behind an answer.
const LOG_WAIT: Duration = Duration::from_secs(3);
/// How long `catalog.json` may lag behind the first list: a busy disk takes its time.
const CATALOG_WAIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Label of the call that goes through the meta-tool.
const THROUGH: &str = "through call_tool";

/// Serves the demo's catalog on stdin and stdout.
pub(crate) fn serve_upstream() -> Result<Exit, Failure> {
    upstream::serve(io::stdin().lock(), io::stdout().lock())?;
    Ok(Exit::Done)
}

/// Runs the demo; with `once` it ends after the report.
pub(crate) fn run(once: bool) -> Result<Exit, Failure> {
    let lab = Lab::create(mws_state::now())?;
    let proxy = Proxy::start(lab.command("proxy")?).map_err(Failure::failed)?;
    let mut out = Output::stdout().line_buffered();
    listings(&lab, &proxy.url, &mut out)?;
    calls(&lab, &proxy.url, &mut out)?;
    out.line("\n# What `mws report` says\n")?;
    out.line(lab.run("report")?)?;
    if !once {
        out.line("\n# Connect a client\n")?;
        out.line(format_args!("claude mcp add --transport http toolbox {}", proxy.url))?;
        out.line("\nServing until Ctrl-C.")?;
        proxy.wait()?;
    }
    drop(proxy);
    out.finish()?;
    Ok(Exit::Done)
}

/// Shows `tools/list` before and after the stages have run.
fn listings(lab: &Lab, url: &str, out: &mut Output) -> Result<(), Failure> {
    let catalog: Value = serde_json::from_str(upstream::CATALOG).unwrap_or_default();
    out.line("# What a model would read at the start of each session (tokens: bytes / 4)\n")?;
    show_size(out, "the server alone", &catalog)?;
    show_size(out, "through the proxy, first day", &list(url)?)?;
    wait(CATALOG_WAIT, || lab.state().catalog().exists());
    out.line(format_args!("\n# {} transcripts, read and folded\n", lab.transcripts))?;
    for stage in ["ingest", "index", "promote"] {
        out.line(format_args!("$ mws {stage}"))?;
        let said = lab.run(stage)?;
        if !said.is_empty() {
            out.line(said)?;
        }
    }
    out.line("\n# The same proxy, after that\n")?;
    let after = list(url)?;
    show_size(out, "through the proxy, now", &after)?;
    let names = names(&after["tools"]);
    out.line(format_args!("  {}", names.join("\n  ")))?;
    Ok(())
}

fn list(url: &str) -> Result<Value, Failure> {
    let mut client = Client::connect(url).map_err(Failure::failed)?;
    client.request("tools/list", json!({})).map_err(Failure::failed)
}

fn show_size(out: &mut Output, what: &str, list: &Value) -> io::Result<()> {
    let tools = &list["tools"];
    let (n, bytes) = (tools.as_array().map_or(0, Vec::len), tools.to_string().len());
    out.line(format_args!("{what:<30} {n:>3} tools {bytes:>6} bytes  ~{:>5} tokens", bytes / 4))
}

fn names(tools: &Value) -> Vec<&str> {
    tools.as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str()).collect()
}

/// Makes a few calls and searches through the proxy and waits until they are in the log.
fn calls(lab: &Lab, url: &str, out: &mut Output) -> Result<(), Failure> {
    let mut client = Client::connect(url).map_err(Failure::failed)?;
    let before = recorded(&lab.state());
    out.line("\n# A few calls and searches through it\n")?;
    let calls = [
        ("mail_search_messages", "listed", json!({"query": "from:anna"})),
        ("codesearch_list_repositories", "not listed, by its name", json!({})),
        ("calendar_list_calendars", THROUGH, json!({"showHidden": true})),
        ("drive_export_document", "without a needed argument", json!({"file": "/a.md"})),
    ];
    for (name, how, arguments) in &calls {
        let text = match *how {
            THROUGH => {
                let inner = json!({"name": name, "arguments": arguments});
                call(&mut client, "call_tool", &inner)?
            }
            _ => call(&mut client, name, arguments)?,
        };
        out.line(format_args!("{name} ({how})\n  {text}"))?;
    }
    let queries = ["share a file", "list_labels", "browser click"];
    for query in queries {
        let text = call(&mut client, "search_tools", &json!({"query": query}))?;
        let reply: Value = serde_json::from_str(&text).unwrap_or_default();
        let found = names(&reply["results"]);
        let first = found.iter().take(3).copied().collect::<Vec<_>>().join(", ");
        let kind = reply["kind"].as_str().unwrap_or("?");
        out.line(format_args!("search_tools {query:?}\n  {kind}, {} bytes: {first}", text.len()))?;
    }
    let expected = before + calls.len() + queries.len();
    wait(LOG_WAIT, || recorded(&lab.state()) >= expected);
    Ok(())
}

/// Returns when `done` holds, or `limit` has passed.
fn wait(limit: Duration, done: impl Fn() -> bool) {
    let asked = Instant::now();
    while !done() && asked.elapsed() < limit {
        std::thread::sleep(POLL);
    }
}

/// The text of a call's result.
fn call(client: &mut Client, name: &str, arguments: &Value) -> Result<String, Failure> {
    let params = json!({"name": name, "arguments": arguments});
    let result = client.request("tools/call", params).map_err(Failure::failed)?;
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    Ok(if result["isError"] == true { format!("error: {text}") } else { text.to_owned() })
}

/// Number of calls and searches that the proxy has recorded.
fn recorded(state: &StateDir) -> usize {
    let by_proxy = |e: &&Event| match e {
        Event::Call(call) => call.src == Source::Proxy,
        Event::Record(record) => matches!(record.kind, Kind::Search { .. }),
    };
    mws_state::read_events(state).0.iter().filter(by_proxy).count()
}
