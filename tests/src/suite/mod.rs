//! The server that the conformance suite asks for, on the official Rust SDK: both eras over HTTP and on stdio.
//!
//! Invariant: names and texts are those of the suite's scenario descriptions; what a client sees is
//! written down as JSON, and the SDK's models carry it.
//! Deliberately absent: tools of our own, and any code of the proxy.
// Sampling, logging and resource subscriptions are deprecated in the newest protocol, and tested here.
#![allow(deprecated)]

mod pages;
mod rounds;
mod session;
mod tasks;
mod tools;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
    Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, RequestStateCodec, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext, SubscriptionSink};
use rmcp::task_manager::TaskManager;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::{Arc, Mutex};

/// The server; its copies share tasks and subscriptions.
#[derive(Clone)]
pub struct Suite {
    stateless_only: bool,
    listeners: Arc<Mutex<Vec<SubscriptionSink>>>,
    seal: RequestStateCodec,
    tasks: TaskManager,
}

type Asked = RequestContext<RoleServer>;

impl Suite {
    /// A server of both eras, or of the stateless one alone.
    #[must_use]
    pub fn new(stateless_only: bool) -> Self {
        Self {
            stateless_only,
            listeners: Arc::default(),
            seal: RequestStateCodec::new_unchecked(b"a key for tests only, of 32 bytes or more"),
            tasks: TaskManager::new(),
        }
    }

    /// Serves HTTP on this listener for ever.
    pub async fn serve(self, listener: std::net::TcpListener) {
        crate::modern::serve_with(listener, false, move || self.clone()).await;
    }

    /// Serves one client on standard input and output until it leaves.
    pub async fn serve_stdio(self) {
        ServiceExt::serve(self, rmcp::transport::stdio()).await.unwrap().waiting().await.unwrap();
    }

    fn listeners(&self) -> Vec<SubscriptionSink> {
        self.listeners.lock().unwrap().clone()
    }
}

impl ServerHandler for Suite {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_completions()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("suite", "1.0.0"))
            .with_instructions("Answers the conformance suite.")
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        let known = ProtocolVersion::KNOWN_VERSIONS;
        if !self.stateless_only {
            return Cow::Borrowed(known);
        }
        known.iter().filter(|version| !version.has_initialize()).cloned().collect()
    }

    fn accepted_subscription_filter(
        &self,
        asked: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(asked.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.listeners.lock().unwrap().push(context.sink().clone());
        context.cancelled().await;
        let gone = context.sink().id();
        self.listeners.lock().unwrap().retain(|sink| sink.id() != gone);
        Ok(())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Asked,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::all().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Asked,
    ) -> Result<CallToolResponse, ErrorData> {
        if tasks::is_one(&request.name) {
            return self.call_task(request, &context).await;
        }
        if let Some(plan) = rounds::plan(&request.name, &context) {
            let answers = request.input_responses.unwrap_or_default();
            return match self.next_round(&plan, &answers, request.request_state.as_deref())? {
                Ok(done) => Ok(tools::text(&done).into()),
                Err(more) => Ok(more.into()),
            };
        }
        self.call_plain(&request, &context).await.map(Into::into)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Asked,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(result(pages::prompts()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: Asked,
    ) -> Result<GetPromptResponse, ErrorData> {
        if let Some(plan) = rounds::plan(&request.name, &context) {
            let answers = request.input_responses.unwrap_or_default();
            return match self.next_round(&plan, &answers, request.request_state.as_deref())? {
                Ok(done) => Ok(GetPromptResponse::Complete(result(pages::said(&done)))),
                Err(more) => Ok(more.into()),
            };
        }
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let prompt = pages::prompt(&request.name, &arguments);
        let unknown = || ErrorData::invalid_params(format!("no prompt {}", request.name), None);
        prompt.map(|page| GetPromptResponse::Complete(result(page))).ok_or_else(unknown)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Asked,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(result(pages::resources()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Asked,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(result(pages::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Asked,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let page = pages::resource(&request.uri);
        let gone = || {
            let data = serde_json::json!({"uri": request.uri});
            ErrorData::resource_not_found("Resource not found", Some(data))
        };
        page.map(|page| ReadResourceResponse::Complete(result(page))).ok_or_else(gone)
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: Asked,
    ) -> Result<CompleteResult, ErrorData> {
        Ok(result(pages::completion()))
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: Asked) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Asked) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Asked) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn get_task(&self, request: GetTaskParams, _: Asked) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(&self, request: UpdateTaskParams, _: Asked) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: Asked) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}

/// The SDK's model of a whole result written down as JSON.
fn result<T: DeserializeOwned>(mut json: Value) -> T {
    json["resultType"] = Value::from("complete");
    model(json)
}

/// The SDK's model of something written down as JSON.
fn model<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap()
}

/// Whether the request belongs to a session rather than standing alone.
fn in_session(context: &Asked) -> bool {
    context.protocol_version().is_none_or(|version| version.has_initialize())
}
