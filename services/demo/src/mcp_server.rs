//! Behavior of an example server, independent of the protocol generation.

use std::future::Future;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::stateful::Session;

/// MCP server without its transport.
pub(crate) trait McpServer: Send + Sync + 'static {
    const NAME: &'static str;
    const INSTRUCTIONS: &'static str;

    fn capabilities() -> Value;

    /// Returns the members of a request's result.
    fn handle(
        &self,
        method: &str,
        params: &Value,
        client: &ClientChannel,
    ) -> impl Future<Output = Result<Value, RpcError>> + Send;
}

/// Error of a request.
#[derive(Debug)]
pub(crate) struct RpcError {
    pub(crate) code: i32,
    pub(crate) message: String,
}

/// Channel to the client during a request.
#[derive(Debug)]
pub(crate) struct ClientChannel {
    /// The progress token of the request.
    pub(crate) token: Option<Value>,
    /// Messages before the response.
    pub(crate) messages: mpsc::Sender<Value>,
    /// Session of the request; `None` in the stateless protocol.
    pub(crate) session: Option<Arc<Session>>,
}

impl RpcError {
    pub(crate) fn unknown_method(method: &str) -> Self {
        Self { code: vmcp_core::code::METHOD_NOT_FOUND, message: format!("no method {method}") }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { code: vmcp_core::code::INVALID_PARAMS, message: message.into() }
    }
}

impl ClientChannel {
    pub(crate) async fn progress(&self, done: u64, total: u64, message: &str) {
        let Some(token) = &self.token else { return };
        let progress = json!({
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": token, "progress": done, "total": total, "message": message},
        });
        // Without a client, the message is unnecessary.
        _ = self.messages.send(progress).await;
    }
}

/// Returns the result of a successful tool.
pub(crate) fn text(text: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": text.into()}]})
}

/// Returns the result of a successful tool with an `outputSchema`.
pub(crate) fn structured(value: &Value) -> Value {
    json!({
        "content": [{"type": "text", "text": value.to_string()}],
        "structuredContent": value,
    })
}

/// Returns the result of a failed tool, with a message for the model.
pub(crate) fn failed(message: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": message.into()}], "isError": true})
}

/// Returns the definition of a tool.
pub(crate) fn tool(name: &str, title: &str, description: &str, arguments: &Value) -> Value {
    let required: Vec<&String> =
        arguments.as_object().into_iter().flatten().map(|(k, _)| k).collect();
    json!({
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": {"type": "object", "properties": arguments, "required": required},
    })
}
