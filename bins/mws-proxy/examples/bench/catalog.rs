//! Tools made up for the benchmark.
//!
//! Invariant: the same number gives the same bytes; one tool has about 1.5 KB, as real ones do.
//! Deliberately absent: anything a ranking could be judged by.

use serde_json::{Value, json};

const AREAS: [&str; 8] =
    ["mail", "calendar", "drive", "browser", "tickets", "wiki", "billing", "build"];
const VERBS: [&str; 8] = ["list", "get", "create", "update", "delete", "move", "share", "export"];
const NOUNS: [&str; 7] = ["message", "event", "file", "page", "issue", "thread", "label"];

/// The name of tool number `n`; the first is the one that is called.
pub(crate) fn name(n: usize) -> String {
    match n {
        0 => "echo".to_owned(),
        _ => format!("{}_{}_{}_{n}", AREAS[n % 8], VERBS[n / 8 % 8], NOUNS[n / 64 % 7]),
    }
}

/// The `tools` array of `count` tools; `version` is told in one description.
pub(crate) fn tools(count: usize, version: usize) -> String {
    let tools: Vec<Value> = (0..count).map(|n| tool(n, version)).collect();
    serde_json::to_string(&tools).unwrap_or_default()
}

fn tool(n: usize, version: usize) -> Value {
    let (area, verb, noun) = (AREAS[n % 8], VERBS[n / 8 % 8], NOUNS[n / 64 % 7]);
    let mut properties = json!({"bytes": {"type": "integer", "description": "Size of the answer"}});
    for k in 1..8 {
        let text = format!(
            "Field {k} of the {noun}, which {verb} reads; without it the server takes its own value"
        );
        properties[format!("{noun}_field_{k}")] = match k % 3 {
            0 => json!({"type": "array", "items": {"type": "string"}, "description": text}),
            1 => json!({"type": "string", "description": text}),
            _ => {
                json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null, "description": text})
            }
        };
    }
    let revision = if n == 1 { version } else { 0 };
    json!({
        "name": name(n),
        "title": format!("{verb} {noun}"),
        "description": format!("Use this tool to {verb} a {noun} in {area}. It gives the {noun} as text, one line for each part, and fails when the {noun} is unknown or the caller may not {verb} it. Revision {revision}."),
        "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": properties, "additionalProperties": false},
    })
}
