//! The list of tools, and the tools that only answer.
//!
//! Invariant: the list is the same for every client and at any time.
//! Deliberately absent: tools that ask the client something (`session`, `rounds`) or become tasks (`tasks`).

use super::pages::PNG;
use super::{Asked, Suite, in_session, model, result};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, LoggingLevel,
    LoggingMessageNotificationParam, ProgressNotificationParam, Tool,
};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn all() -> Vec<Tool> {
    let plain = NAMES.iter().map(|name| (*name, json!({"type": "object", "properties": {}})));
    plain.chain(with_parameters()).map(|(name, schema)| tool(name, schema)).collect()
}

fn tool(name: &str, schema: Value) -> Tool {
    model(json!({"name": name, "description": format!("Fixture {name}."), "inputSchema": schema}))
}

const NAMES: [&str; 29] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_error_handling",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_reconnection",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_logging_tool",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "failing_job",
    "protocol_error_job",
    "confirm_delete",
    "multi_input",
    "test_tool_with_task",
];

fn with_parameters() -> Vec<(&'static str, Value)> {
    let required = |name: &str, extra: Value| {
        let mut property = json!({"type": "string", "description": format!("The {name}.")});
        property.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"type": "object", "properties": {name: property}, "required": [name]})
    };
    vec![
        ("test_sampling", required("prompt", json!({}))),
        ("test_elicitation", required("message", json!({}))),
        ("test_custom_header", required("value", json!({"x-mcp-header": "Value"}))),
        ("greet", required("name", json!({}))),
        (
            "slow_compute",
            json!({"type": "object", "properties": {
                "seconds": {"type": "number"}, "label": {"type": "string"},
            }}),
        ),
        ("json_schema_2020_12_tool", newest_keywords()),
    ]
}

// Every keyword group that may not get lost on the way to a client.
fn newest_keywords() -> Value {
    let text = || json!({"type": "string"});
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef", "type": "object",
            "properties": {"street": text(), "city": text()},
        }},
        "properties": {
            "name": text(),
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": text(),
            "email": text(),
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

/// A result of one text.
pub(super) fn text(text: &str) -> CallToolResult {
    result(json!({"content": [{"type": "text", "text": text}], "isError": false}))
}

fn contents(contents: &Value) -> CallToolResult {
    result(json!({"content": contents, "isError": false}))
}

fn resource(uri: &str, kind: &str, text: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": text}})
}

impl Suite {
    pub(super) async fn call_plain(
        &self,
        request: &CallToolRequestParams,
        context: &Asked,
    ) -> Result<CallToolResult, ErrorData> {
        let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
        Ok(match request.name.as_ref() {
            "test_tool_with_logging" => log(context, LINES).await,
            "test_logging_tool" => log(context, &LINES[..1]).await,
            "test_tool_with_progress" => progress(context).await,
            "test_trigger_tool_change" => {
                for listener in self.listeners() {
                    let _ = listener.notify_tool_list_changed().await;
                }
                if in_session(context) {
                    let _ = context.peer.notify_tool_list_changed().await;
                }
                text("Told everybody who listens.")
            }
            "test_trigger_prompt_change" => {
                for listener in self.listeners() {
                    let _ = listener.notify_prompt_list_changed().await;
                }
                text("Told everybody who listens.")
            }
            "test_missing_capability" => {
                let declared = context.client_capabilities().unwrap_or_default();
                if declared.sampling.is_none() {
                    let needed = ClientCapabilities::builder().enable_sampling().build();
                    return Err(ErrorData::missing_required_client_capability(needed));
                }
                text("The client can sample.")
            }
            "test_reconnection" => {
                tokio::time::sleep(Duration::from_millis(100)).await;
                text("Still here.")
            }
            name => match fixed(name, &arguments) {
                Some(result) => result,
                None => return self.ask_in_session(name, &arguments, context).await,
            },
        })
    }
}

fn fixed(name: &str, arguments: &Value) -> Option<CallToolResult> {
    let image = || json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let audio = || json!({"type": "audio", "data": WAV, "mimeType": "audio/wav"});
    Some(match name {
        "test_simple_text" => text("This is a simple text response for testing."),
        "test_image_content" => contents(&json!([image()])),
        "test_audio_content" => contents(&json!([audio()])),
        "test_embedded_resource" => contents(&json!([resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content."
        )])),
        "test_multiple_content_types" => contents(&json!([
            {"type": "text", "text": "Multiple content types test:"},
            image(),
            resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ])),
        "test_error_handling" => result(json!({
            "content": [{"type": "text", "text": "This tool intentionally returns an error for testing"}],
            "isError": true,
        })),
        "test_custom_header" => text(arguments["value"].as_str().unwrap_or_default()),
        "json_schema_2020_12_tool" => text(&arguments.to_string()),
        _ => return None,
    })
}

// A silent half second, short of its samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";
const LINES: &[&str] =
    &["Tool execution started", "Tool processing data", "Tool execution completed"];

// A request that stands alone gets no log line unless it asked for them.
async fn log(context: &Asked, lines: &[&str]) -> CallToolResult {
    let wanted = in_session(context) || context.meta.log_level().is_some();
    for line in lines.iter().filter(|_| wanted) {
        let line = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(line));
        let _ = context.peer.notify_logging_message(line).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    text("Logged.")
}

async fn progress(context: &Asked) -> CallToolResult {
    let token = context.meta.get_progress_token();
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = &token {
            let step = ProgressNotificationParam::new(token.clone(), done).with_total(100.0);
            let _ = context.peer.notify_progress(step).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    text("Done.")
}
