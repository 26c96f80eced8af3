//! Prompts, resources and completions, as the suite wants to see them.
//!
//! Invariant: everything here is a constant but for what the caller put in.
//! Deliberately absent: pages that change; subscriptions are accepted and stay silent.

use serde_json::{Value, json};

/// A red pixel.
pub(super) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

pub(super) fn prompts() -> Value {
    let argument =
        |name: &str| json!({"name": name, "description": format!("The {name}."), "required": true});
    json!({"prompts": [
        {"name": "test_simple_prompt", "description": "Without arguments."},
        {"name": "test_prompt_with_arguments", "description": "With two arguments.",
         "arguments": [argument("arg1"), argument("arg2")]},
        {"name": "test_prompt_with_embedded_resource", "description": "With a resource inside.",
         "arguments": [argument("resourceUri")]},
        {"name": "test_prompt_with_image", "description": "With an image inside."},
        {"name": "test_input_required_result_prompt", "description": "Asks before it answers."},
    ]})
}

pub(super) fn prompt(name: &str, arguments: &Value) -> Option<Value> {
    let given = |name: &str| arguments[name].as_str().unwrap_or_default();
    match name {
        "test_simple_prompt" => Some(said("This is a simple prompt for testing.")),
        "test_prompt_with_arguments" => Some(said(&format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            given("arg1"),
            given("arg2")
        ))),
        "test_prompt_with_embedded_resource" => Some(messages(&[
            json!({"type": "resource", "resource": {
                "uri": given("resourceUri"),
                "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            }}),
            json!({"type": "text", "text": "Please process the embedded resource above."}),
        ])),
        "test_prompt_with_image" => Some(messages(&[
            json!({"type": "image", "data": PNG, "mimeType": "image/png"}),
            json!({"type": "text", "text": "Please analyze the image above."}),
        ])),
        _ => None,
    }
}

/// A prompt of one text.
pub(super) fn said(text: &str) -> Value {
    messages(&[json!({"type": "text", "text": text})])
}

fn messages(contents: &[Value]) -> Value {
    let messages = contents.iter().map(|content| json!({"role": "user", "content": content}));
    json!({"messages": messages.collect::<Vec<_>>()})
}

pub(super) fn resources() -> Value {
    let resource = |name: &str, kind: &str| {
        json!({
            "uri": format!("test://{name}"), "name": name, "description": format!("A {name}."),
            "mimeType": kind,
        })
    };
    json!({"resources": [
        resource("static-text", "text/plain"),
        resource("static-binary", "image/png"),
        resource("watched-resource", "text/plain"),
    ]})
}

pub(super) fn templates() -> Value {
    json!({"resourceTemplates": [{
        "uriTemplate": "test://template/{id}/data", "name": "template",
        "description": "Data by its id.", "mimeType": "application/json",
    }]})
}

pub(super) fn resource(uri: &str) -> Option<Value> {
    let content = match uri {
        "test://static-text" => json!({
            "uri": uri, "mimeType": "text/plain",
            "text": "This is the content of the static text resource.",
        }),
        "test://static-binary" => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        "test://watched-resource" => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "Still."})
        }
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": data.to_string()})
        }
    };
    Some(json!({"contents": [content]}))
}

pub(super) fn completion() -> Value {
    json!({"completion": {"values": ["paris", "park", "party"], "total": 150, "hasMore": false}})
}
