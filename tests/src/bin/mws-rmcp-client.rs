//! Runs a list of steps with the official Rust client and prints what it received.
//! One JSON argument: `{"url"|"command", "mode": "legacy"|"2026-07-28", "steps": […]}`.
//!
//! Invariant: a failed step is reported as data, so that the caller compares errors as well as results.
//! Deliberately absent: the meaning of the steps; they are those of the clients in other languages.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest, ElicitRequestParams,
    ElicitResult, Implementation, ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::{
    ClientLifecycleMode, NotificationContext, Peer, PeerRequestOptions, RequestContext,
    RunningService, ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Default)]
struct Client {
    progress: Arc<Mutex<Vec<Value>>>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let spec: Value = serde_json::from_str(&std::env::args().nth(1).unwrap()).unwrap();
    let client = Client::default();
    let service = connect(client.clone(), &spec).await;
    let mut steps = Vec::new();
    for step in spec["steps"].as_array().unwrap() {
        let outcome = perform(&service, &client, step).await;
        steps.push(outcome.unwrap_or_else(|error| json!({"error": failure(&error)})));
    }
    println!("{}", json!({"steps": steps}));
    let _ = service.cancel().await;
}

async fn connect(client: Client, spec: &Value) -> RunningService<RoleClient, Client> {
    let mode = match spec["mode"].as_str() {
        Some("legacy") => ClientLifecycleMode::Initialize,
        _ => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    };
    if let Some(url) = spec["url"].as_str() {
        let transport = StreamableHttpClientTransport::from_uri(url.to_owned());
        return serve_client_with_lifecycle(client, transport, mode).await.unwrap();
    }
    let words = spec["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let words: Vec<_> = words.collect();
    let mut command = tokio::process::Command::new(words[0]);
    command.args(&words[1..]).kill_on_drop(true).stderr(std::process::Stdio::null());
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    tokio::spawn(async move { child.wait().await });
    serve_client_with_lifecycle(client, pipes, mode).await.unwrap()
}

async fn perform(
    peer: &RunningService<RoleClient, Client>,
    client: &Client,
    step: &Value,
) -> Result<Value, ServiceError> {
    let name = step["name"].as_str().unwrap_or_default().to_owned();
    let arguments = step["arguments"].as_object().cloned().unwrap_or_default();
    let result = match step["op"].as_str().unwrap() {
        "list" => plain(&peer.list_tools(None).await?),
        "call" => plain(&peer.call_tool(call(name, arguments)).await?),
        "progress" => {
            client.progress.lock().unwrap().clear();
            let result = plain(&peer.call_tool(call(name, arguments)).await?);
            tokio::time::sleep(Duration::from_millis(50)).await;
            return Ok(json!({"result": result, "progress": *client.progress.lock().unwrap()}));
        }
        "cancel" => cancelled(peer, call(name, arguments)).await?,
        "resource" => {
            let params = serde_json::from_value(json!({"uri": step["uri"]})).unwrap();
            plain(&peer.read_resource(params).await?)
        }
        "prompt" => {
            let params = serde_json::from_value(json!({"name": name, "arguments": arguments}));
            plain(&peer.get_prompt(params.unwrap()).await?)
        }
        other => panic!("unknown step {other}"),
    };
    Ok(json!({"result": result}))
}

async fn cancelled(
    peer: &Peer<RoleClient>,
    params: CallToolRequestParams,
) -> Result<Value, ServiceError> {
    let request: ClientRequest = serde_json::from_value(json!({
        "method": "tools/call", "params": params,
    }))
    .unwrap();
    let handle = peer.send_cancellable_request(request, PeerRequestOptions::default()).await?;
    tokio::time::sleep(Duration::from_millis(400)).await;
    handle.cancel(Some("enough".to_owned())).await?;
    let alive = !peer.list_tools(None).await?.tools.is_empty();
    Ok(json!({"cancelled": true, "alive": alive}))
}

fn call(name: String, arguments: Map<String, Value>) -> CallToolRequestParams {
    CallToolRequestParams::new(name).with_arguments(arguments)
}

fn plain(result: &impl Serialize) -> Value {
    serde_json::to_value(result).unwrap()
}

fn failure(error: &ServiceError) -> Value {
    match error {
        ServiceError::McpError(error) => plain(error),
        other => json!({"code": null, "message": other.to_string()}),
    }
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("suite-rust", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let asked = serde_json::to_value(&request).unwrap();
        let fields = asked["requestedSchema"]["properties"].as_object().cloned();
        let filled = fields.unwrap_or_default().into_iter().map(|(name, field)| {
            let value = value_for(&name, &field);
            (name, value)
        });
        let answer = json!({"action": "accept", "content": filled.collect::<Map<_, _>>()});
        Ok(serde_json::from_value(answer).unwrap())
    }

    async fn on_progress(
        &self,
        step: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let step = json!({"progress": step.progress, "total": step.total, "message": step.message});
        self.progress.lock().unwrap().push(step);
    }
}

// As the clients in other languages fill a form.
fn value_for(name: &str, field: &Value) -> Value {
    match name {
        "username" | "name" => return json!("ada"),
        "email" => return json!("ada@example.com"),
        "confirmed" => return json!(true),
        _ => (),
    }
    let choices = [field.pointer("/enum/0"), field.pointer("/oneOf/0/const"), field.get("default")];
    if let Some(choice) = choices.into_iter().flatten().next() {
        return choice.clone();
    }
    match field["type"].as_str() {
        Some("number" | "integer") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        _ => json!("text"),
    }
}
