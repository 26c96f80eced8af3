//! A small MCP client over HTTP, enough to show what a model's client would see.
//!
//! Invariant: every request has its answer or an error that names the method.
//! Deliberately absent: typed results; the demo reads a few fields and counts bytes.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

const VERSION: &str = "2025-11-25";
const SESSION_HEADER: &str = "mcp-session-id";
const TIMEOUT: Duration = Duration::from_secs(20);
const BODY_MAX: u64 = 16 * 1024 * 1024;

/// A session with the proxy.
pub(crate) struct Client {
    agent: Agent,
    url: String,
    session: Option<String>,
    next_id: u64,
}

impl Client {
    /// Opens a session at `url`.
    ///
    /// # Errors
    /// When nothing answers there, or not as an MCP server does.
    pub(crate) fn connect(url: &str) -> Result<Self, String> {
        let config = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .proxy(None)
            .build();
        let mut client =
            Self { agent: config.into(), url: url.to_owned(), session: None, next_id: 0 };
        let who = json!({"name": "mws-demo-client", "version": env!("CARGO_PKG_VERSION")});
        client.request(
            "initialize",
            json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": who}),
        )?;
        client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(client)
    }

    /// Sends one request and returns its result.
    ///
    /// # Errors
    /// When the proxy does not answer, or answers with an error.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.next_id += 1;
        let id = self.next_id;
        let body = self
            .post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .map_err(|e| format!("{method}: {e}"))?;
        let mut answer =
            answer_to(&body, id).ok_or_else(|| format!("{method}: no answer in {body:?}"))?;
        match answer.get("error") {
            Some(error) => Err(format!("{method}: {error}")),
            None => Ok(answer["result"].take()),
        }
    }

    fn post(&mut self, message: &Value) -> Result<String, String> {
        let mut request = self
            .agent
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(session) = &self.session {
            request = request.header(SESSION_HEADER, session);
        }
        if self.next_id > 1 {
            request = request.header("mcp-protocol-version", VERSION);
        }
        let failed = |e: ureq::Error| format!("POST {}: {e}", self.url);
        let mut response = request.send(message.to_string()).map_err(failed)?;
        if let Some(session) = response.headers().get(SESSION_HEADER) {
            self.session = session.to_str().ok().map(str::to_owned);
        }
        response.body_mut().with_config().limit(BODY_MAX).read_to_string().map_err(failed)
    }
}

/// The message with this id in a JSON body or in the `data` lines of an event stream.
fn answer_to(body: &str, id: u64) -> Option<Value> {
    let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
    let whole = parse(body);
    let streamed = body.lines().filter_map(|line| parse(line.strip_prefix("data:")?));
    whole.into_iter().chain(streamed).find(|message| message["id"] == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_found_in_json_and_in_an_event_stream() {
        let json = r#"{"jsonrpc":"2.0","id":3,"result":{}}"#;
        assert!(answer_to(json, 3).is_some());
        assert!(answer_to(json, 4).is_none());
        let stream = format!(
            "event: message\ndata: {{\"method\":\"notifications/progress\"}}\n\nevent: message\ndata: {json}\n\n"
        );
        assert_eq!(answer_to(&stream, 3).map(|m| m["result"].is_object()), Some(true));
        assert!(answer_to("<html>busy</html>", 3).is_none());
    }
}
