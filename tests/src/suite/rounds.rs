//! Tools and prompts that ask by answering `input_required`, round after round.
//!
//! Invariant: which round comes next depends on the sealed state alone; answers that are missing or
//! of the wrong kind are asked for again.
//! Deliberately absent: memory between rounds.

use super::session::user;
use super::{Asked, Suite, in_session, model};
use rmcp::ErrorData;
use rmcp::model::{InputRequest, InputRequiredResult, InputResponses};
use serde_json::{Value, json};

/// The questions of a tool or prompt, round by round.
pub(super) struct Plan {
    name: String,
    rounds: Vec<Vec<&'static str>>,
    sealed: bool,
}

/// What `name` asks this client; `None` where it asks nothing.
pub(super) fn plan(name: &str, context: &Asked) -> Option<Plan> {
    let short = name.strip_prefix("test_input_required_result_").unwrap_or(name);
    let rounds = match short {
        "elicitation" => vec![vec!["user_name"]],
        "sampling" => vec![vec!["capital_question"]],
        "list_roots" => vec![vec!["client_roots"]],
        "request_state" | "tampered_state" => vec![vec!["confirm"]],
        "multiple_inputs" => vec![vec!["user_name", "greeting", "client_roots"]],
        "multi_round" => vec![vec!["step1"], vec!["step2"]],
        "capabilities" => vec![declared(context)],
        "prompt" => vec![vec!["user_context"]],
        "test_streaming_elicitation" => vec![vec!["value"]],
        "test_elicitation" if !in_session(context) => vec![vec!["user"]],
        _ => return None,
    };
    let sealed =
        matches!(short, "request_state" | "tampered_state" | "multiple_inputs" | "multi_round");
    Some(Plan { name: short.to_owned(), rounds, sealed })
}

fn declared(context: &Asked) -> Vec<&'static str> {
    let declared = context.client_capabilities().unwrap_or_default();
    let known = [
        (declared.elicitation.is_some(), "user_name"),
        (declared.sampling.is_some(), "greeting"),
        (declared.roots.is_some(), "client_roots"),
    ];
    known.into_iter().filter(|(can, _)| *can).map(|(_, question)| question).collect()
}

impl Suite {
    /// The final text, or what is asked next.
    pub(super) fn next_round(
        &self,
        plan: &Plan,
        answers: &InputResponses,
        state: Option<&str>,
    ) -> Result<Result<String, InputRequiredResult>, ErrorData> {
        let mut round: usize = match state {
            Some(state) => self.seal.open_json(state).map_err(|error| {
                ErrorData::invalid_params(format!("requestState is not ours: {error}"), None)
            })?,
            None => 0,
        };
        let asked = plan.rounds.get(round).map_or(&[][..], Vec::as_slice);
        if asked.iter().all(|question| answers.get(*question).is_some_and(Value::is_object)) {
            round += 1;
        }
        match plan.rounds.get(round) {
            None => Ok(Ok(conclusion(&plan.name, answers))),
            Some(asked) => {
                let state = plan.sealed.then(|| self.seal.seal_json(&round).unwrap());
                let asked = asked.iter().map(|name| ((*name).to_owned(), question(name)));
                Ok(Err(InputRequiredResult::new(Some(asked.collect()), state)))
            }
        }
    }
}

fn conclusion(name: &str, answers: &InputResponses) -> String {
    let given = json!(answers);
    match name {
        "elicitation" => {
            let who = given.pointer("/user_name/content/name").and_then(Value::as_str);
            format!("Hello, {}!", who.unwrap_or("nobody"))
        }
        "request_state" => "state-ok".to_owned(),
        "test_elicitation" => {
            let user = &given["user"];
            let action = user["action"].as_str().unwrap_or_default();
            format!("User response: action={action}, content={}", user["content"])
        }
        _ => format!("Answered: {given}"),
    }
}

/// A question by its name.
pub(super) fn question(name: &str) -> InputRequest {
    let form = |message: &str, field: &str, kind: &str| {
        let schema = json!({
            "type": "object", "properties": {field: {"type": kind}}, "required": [field],
        });
        elicitation(message, &schema)
    };
    model(match name {
        "capital_question" => sampling("What is the capital of France?", 100),
        "greeting" => sampling("Generate a greeting", 50),
        "client_roots" => json!({"method": "roots/list", "params": {}}),
        "confirm" => form("Please confirm", "ok", "boolean"),
        "step1" => form("Step 1: What is your name?", "name", "string"),
        "step2" => form("Step 2: What is your favorite color?", "color", "string"),
        "user_context" => form("What context should the prompt use?", "context", "string"),
        "value" => form("Provide a value", "value", "string"),
        "delete" => form("Really delete it?", "confirm", "boolean"),
        "user" => elicitation("Who are you?", &user()),
        _ => form("What is your name?", "name", "string"),
    })
}

fn elicitation(message: &str, schema: &Value) -> Value {
    let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
    json!({"method": "elicitation/create", "params": params})
}

fn sampling(prompt: &str, tokens: u32) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}})
}
