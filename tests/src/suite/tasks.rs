//! Tools that become tasks where the client knows the tasks extension.
//!
//! Invariant: a tool that cannot do without a task refuses clients that do not know them.
//! Deliberately absent: keeping tasks; the SDK's manager has them.

use super::rounds::question;
use super::{Asked, Suite, result, tools::text};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, CreateTaskResult,
    InputRequiredResult,
};
use rmcp::task_manager::{TaskContext, TaskExit, TaskOptions};
use serde_json::{Value, json};
use std::time::Duration;

const NAMES: [&str; 7] = [
    "greet",
    "slow_compute",
    "failing_job",
    "protocol_error_job",
    "confirm_delete",
    "multi_input",
    "test_tool_with_task",
];

/// Whether `name` is one of these tools.
pub(super) fn is_one(name: &str) -> bool {
    NAMES.contains(&name)
}

impl Suite {
    pub(super) async fn call_task(
        &self,
        request: CallToolRequestParams,
        context: &Asked,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let knows = context.client_capabilities().is_some_and(|client| client.supports_tasks());
        let name = request.name.into_owned();
        match name.as_str() {
            "greet" => {
                let who = arguments["name"].as_str().unwrap_or("nobody");
                return Ok(text(&format!("Hello, {who}!")).into());
            }
            "slow_compute" if !knows => {
                tokio::time::sleep(seconds(&arguments)).await;
                return Ok(text("Computed.").into());
            }
            "protocol_error_job" if !knows => {
                return Err(ErrorData::internal_error("the job broke", None));
            }
            _ if !knows => {
                let needed = ClientCapabilities::builder().enable_tasks().build();
                return Err(ErrorData::missing_required_client_capability(needed));
            }
            _ => (),
        }
        let answers = json!(request.input_responses);
        if name == "test_tool_with_task" && !answers["user_name"].is_object() {
            let asked = [("user_name".to_owned(), question("user_name"))].into();
            return Ok(InputRequiredResult::from_input_requests(asked).into());
        }
        let options = TaskOptions::default().with_poll_interval_ms(50);
        let task =
            self.tasks.spawn(options, move |task| Box::pin(work(name, arguments, answers, task)));
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }
}

async fn work(
    name: String,
    arguments: Value,
    answers: Value,
    task: TaskContext,
) -> Result<CallToolResult, TaskExit> {
    Ok(match name.as_str() {
        "slow_compute" => {
            tokio::select! {
                () = tokio::time::sleep(seconds(&arguments)) => text("Computed."),
                () = task.cancelled() => return Err(TaskExit::Cancelled),
            }
        }
        "failing_job" => result(json!({
            "content": [{"type": "text", "text": "the job failed"}], "isError": true,
        })),
        "protocol_error_job" => {
            return Err(TaskExit::Error(ErrorData::internal_error("the job broke", None)));
        }
        "confirm_delete" => {
            let answer = task.request_input("delete", question("delete")).await?;
            text(&format!("Deletion of {}: {answer}", arguments["filename"]))
        }
        "multi_input" => {
            let (first, second) = tokio::join!(
                task.request_input("first", question("user_name")),
                task.request_input("second", question("value")),
            );
            text(&format!("Got {} and {}", first?, second?))
        }
        _ => text(&format!("Hello, {answers}")),
    })
}

fn seconds(arguments: &Value) -> Duration {
    Duration::from_secs_f64(arguments["seconds"].as_f64().unwrap_or(1.0))
}
