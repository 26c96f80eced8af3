//! The demo's MCP server: the fixture catalog over stdio, in both protocol eras.
//!
//! Invariant: one answer line for each request line, in order; notifications are not answered.
//! Deliberately absent: state. What a tool is said to have done was not done.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The catalog that the demo serves, as `tools/list` result.
pub(crate) const CATALOG: &str = include_str!("../../../../fixtures/catalog.json");

const VERSIONS: [&str; 5] = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const LATEST_WITH_SESSION: &str = VERSIONS[1];
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// Answers requests until the input ends.
///
/// # Errors
/// When the input cannot be read or the output not be written.
pub(crate) fn serve(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    for line in input.lines() {
        if let Some(answer) = answer(&line?) {
            output.write_all(answer.as_bytes())?;
            output.write_all(b"\n")?;
            output.flush()?;
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: String,
    #[serde(default)]
    params: Value,
}

/// The answer to one line; none for notifications and for what is no request.
fn answer(line: &str) -> Option<String> {
    let request: Request<'_> = serde_json::from_str(line).ok()?;
    let id = request.id?.get();
    let modern = request.params["_meta"][VERSION_KEY].is_string();
    if request.method == "tools/list" {
        return Some(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{}}}", tools(modern)));
    }
    let body = match result(&request.method, &request.params) {
        Ok(mut result) => {
            if modern {
                result["resultType"] = json!("complete");
            }
            format!("\"result\":{result}")
        }
        Err(error) => format!("\"error\":{error}"),
    };
    Some(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{body}}}"))
}

fn result(method: &str, params: &Value) -> Result<Value, Value> {
    match method {
        "initialize" => Ok(initialize(params)),
        "server/discover" => Ok(json!({
            "resultType": "complete",
            "supportedVersions": VERSIONS,
            "capabilities": {"tools": {}},
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {SERVER_KEY: server_info()},
        })),
        "ping" => Ok(json!({})),
        "tools/call" => call(params),
        _ => Err(json!({"code": -32601, "message": format!("method not found: {method}")})),
    }
}

fn initialize(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let version = VERSIONS[1..].iter().find(|v| **v == asked).unwrap_or(&LATEST_WITH_SESSION);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": server_info(),
        "instructions": "A made-up office: mail, calendar, drive, browser and code search.",
    })
}

fn server_info() -> Value {
    json!({"name": "mws-demo", "version": env!("CARGO_PKG_VERSION")})
}

/// The catalog on one line, its tools byte for byte.
fn tools(modern: bool) -> String {
    let list = CATALOG.replace('\n', "");
    match list.strip_suffix('}') {
        Some(open) if modern => {
            format!(r#"{open},"ttlMs":60000,"cacheScope":"public","resultType":"complete"}}"#)
        }
        _ => list,
    }
}

fn call(params: &Value) -> Result<Value, Value> {
    let name = params["name"].as_str().unwrap_or_default();
    let catalog: Value = serde_json::from_str(CATALOG).unwrap_or_default();
    let Some(tool) =
        catalog["tools"].as_array().and_then(|all| all.iter().find(|t| t["name"] == name))
    else {
        return Err(json!({"code": -32602, "message": format!("unknown tool: {name}")}));
    };
    // Long enough for the report to show latencies that are not all zero.
    std::thread::sleep(Duration::from_millis(5 + name.len() as u64));
    let missing = tool["inputSchema"]["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .find(|key| params["arguments"].get(key).is_none());
    let (text, failed) = match missing {
        Some(key) => (format!("missing argument: {key}"), true),
        None => (format!("{name}: done (a demo answer; nothing has happened)"), false),
    };
    Ok(json!({"content": [{"type": "text", "text": text}], "isError": failed}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(line: &str) -> Value {
        let answer = answer(line).expect("an answer");
        serde_json::from_str(&answer).expect("JSON")
    }

    #[test]
    fn both_eras_are_answered() {
        let old = ask(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
        );
        assert_eq!(old["result"]["protocolVersion"], "2025-06-18");
        let unknown = ask(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"1999-01-01"}}"#,
        );
        assert_eq!(unknown["result"]["protocolVersion"], "2025-11-25");
        let new = ask(&format!(
            r#"{{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{{"_meta":{{"{VERSION_KEY}":"2026-07-28"}}}}}}"#
        ));
        assert_eq!((&new["id"], &new["result"]["resultType"]), (&json!("x"), &json!("complete")));
        assert_eq!(new["result"]["tools"].as_array().map(Vec::len), Some(60));
    }

    #[test]
    fn a_call_fails_when_a_required_argument_is_missing() {
        let call = |arguments: &str| {
            ask(&format!(
                r#"{{"id":7,"method":"tools/call","params":{{"name":"drive_read_file","arguments":{arguments}}}}}"#
            ))
        };
        assert_eq!(call("{}")["result"]["isError"], true);
        assert_eq!(call(r#"{"file":"/a"}"#)["result"]["isError"], false);
    }

    #[test]
    fn what_is_no_request_gets_no_answer_and_stops_nothing() {
        let mut out = Vec::new();
        let input = "garbage\n{\"method\":\"notifications/initialized\"}\n\n{\"id\":1,\"method\":\"ping\"}\n{\"id\":2,\"method\":\"no/such\"}\n";
        serve(input.as_bytes(), &mut out).expect("served");
        let out = String::from_utf8(out).expect("UTF-8");
        assert_eq!(out.lines().next(), Some(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        assert!(out.contains("-32601") && out.lines().count() == 2, "{out}");
    }
}
