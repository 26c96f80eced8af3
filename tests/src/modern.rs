//! An upstream on the official Rust SDK: both eras on one HTTP endpoint, or on stdio.
//!
//! Invariant: it is an independent peer, so it shares no code with the proxy and none with the stubs.
//! Deliberately absent: odd bytes. The SDK's models cannot send them; the stubs can.

use hyper::server::conn::http1;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The SDK's server, running in this process; it stops when it is dropped.
pub struct Modern {
    /// Endpoint.
    pub url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Modern {
    /// Listens on a free loopback port; `json` chooses JSON replies instead of event streams.
    #[must_use]
    pub fn start(json: bool) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                tokio::select! { () = serve(listener, json) => (), _ = stopped => () }
            });
        });
        Self { url, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Modern {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves the workshop over HTTP on this listener for ever.
pub async fn serve(listener: std::net::TcpListener, json: bool) {
    serve_with(listener, json, || Workshop).await;
}

/// Serves what `each` makes for a client over HTTP on this listener for ever.
pub async fn serve_with<S: ServerHandler>(
    listener: std::net::TcpListener,
    json: bool,
    each: impl Fn() -> S + Send + Sync + 'static,
) {
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    let config = StreamableHttpServerConfig::default().with_json_response(json);
    let service: StreamableHttpService<S, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(each()), std::sync::Arc::default(), config);
    while let Ok((stream, _)) = listener.accept().await {
        let io = hyper_util::rt::TokioIo::new(stream);
        let service = hyper_util::service::TowerToHyperService::new(service.clone());
        tokio::spawn(http1::Builder::new().serve_connection(io, service));
    }
}

/// Serves one client on standard input and output until it leaves.
pub async fn serve_stdio() {
    let service = Workshop.serve(rmcp::transport::stdio()).await.unwrap();
    service.waiting().await.unwrap();
}

/// Names of the tools, in the order in which they are listed.
pub const TOOLS: [&str; 9] = [
    "bench_measure",
    "bench_saw",
    "bench_sand",
    "paint_mix",
    "paint_apply",
    "shelf_list",
    "shelf_store",
    "fail_always",
    "echo_arguments",
];

#[derive(Clone)]
struct Workshop;

impl ServerHandler for Workshop {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("workshop", "1.0.0"))
            .with_instructions("Tools of a workshop.")
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(TOOLS.iter().map(|name| tool(name)).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        TOOLS.iter().find(|known| **known == name).map(|known| tool(known))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let result = match request.name.as_ref() {
            "fail_always" => {
                CallToolResult::error(vec![ContentBlock::text("it failed, as always")])
            }
            "echo_arguments" => {
                echo_late(&arguments, &context).await;
                CallToolResult::structured(arguments)
            }
            name if TOOLS.contains(&name) => CallToolResult::success(vec![ContentBlock::text(
                format!("{name} done: {arguments}"),
            )]),
            name => return Err(ErrorData::invalid_params(format!("no tool {name}"), None)),
        };
        Ok(result.into())
    }
}

// Takes the time that the caller asks for, and says the caller's own word meanwhile.
async fn echo_late(arguments: &Value, context: &RequestContext<RoleServer>) {
    if let Some(token) = context.meta.get_progress_token() {
        let marker = arguments["marker"].as_str().unwrap_or_default();
        let step = ProgressNotificationParam::new(token, 1.0).with_message(marker);
        let _ = context.peer.notify_progress(step).await;
    }
    let late = arguments["ms"].as_u64().unwrap_or(0);
    tokio::time::sleep(std::time::Duration::from_millis(late)).await;
}

fn tool(name: &'static str) -> Tool {
    let verb = name.split('_').next_back().unwrap_or(name);
    let mut schema = json!({
        "type": "object",
        "properties": {
            "length": {"type": "number", "description": "Length in millimetres."},
            "material": {"type": "string", "enum": ["oak", "pine"]},
        },
    });
    // One tool has a parameter that must be repeated in a header.
    if name == "bench_saw" {
        schema["properties"]["material"]["x-mcp-header"] = json!("Material");
    }
    let schema: JsonObject = serde_json::from_value(schema).unwrap();
    Tool::new(name, format!("Lets the workshop {verb} something ({name})."), schema)
}
