//! Tools that ask the client of a session, by a request of their own.
//!
//! Invariant: a client that cannot answer makes the result an error, never the session.
//! Deliberately absent: the same questions on the stateless protocol (`rounds`).

use super::{Asked, Suite, model, result, tools::text};
use rmcp::ErrorData;
use rmcp::model::CallToolResult;
use serde_json::{Value, json};

impl Suite {
    pub(super) async fn ask_in_session(
        &self,
        name: &str,
        arguments: &Value,
        context: &Asked,
    ) -> Result<CallToolResult, ErrorData> {
        let answer = match name {
            "test_sampling" => sample(arguments, context).await,
            "test_elicitation" => elicit(&arguments["message"], &user(), context).await,
            "test_elicitation_sep1034_defaults" => {
                elicit(&json!("Everything has a default."), &defaults(), context).await
            }
            "test_elicitation_sep1330_enums" => {
                elicit(&json!("Choose."), &choices(), context).await
            }
            name => return Err(ErrorData::invalid_params(format!("no tool {name}"), None)),
        };
        Ok(match answer {
            Ok(answer) => text(&answer),
            Err(error) => {
                result(json!({"content": [{"type": "text", "text": error}], "isError": true}))
            }
        })
    }
}

async fn sample(arguments: &Value, context: &Asked) -> Result<String, String> {
    let prompt = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": arguments["prompt"]}}],
        "maxTokens": 100,
    });
    let answer = context.peer.create_message(model(prompt)).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let answer = serde_json::to_value(&answer).unwrap();
    let said = answer.pointer("/content/text").or(answer.pointer("/content/0/text"));
    Ok(format!("LLM response: {}", said.and_then(Value::as_str).unwrap_or_default()))
}

async fn elicit(message: &Value, schema: &Value, context: &Asked) -> Result<String, String> {
    let form = json!({"mode": "form", "message": message, "requestedSchema": schema});
    let answer = context.peer.create_elicitation(model(form)).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let answer = serde_json::to_value(&answer).unwrap();
    Ok(format!(
        "User response: action={}, content={}",
        answer["action"].as_str().unwrap_or_default(),
        answer["content"]
    ))
}

/// What `test_elicitation` asks for.
pub(super) fn user() -> Value {
    json!({
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    })
}

fn defaults() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    }})
}

fn choices() -> Value {
    let plain = json!(["option1", "option2", "option3"]);
    let titled = |noun: &str| {
        let each = ["First", "Second", "Third"].iter().zip(1..);
        let each = each.map(
            |(word, n)| json!({"const": format!("value{n}"), "title": format!("{word} {noun}")}),
        );
        each.collect::<Vec<_>>()
    };
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {
            "type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    }})
}
