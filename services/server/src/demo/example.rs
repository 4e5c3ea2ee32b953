//! Behavior of an example server, independent of the protocol generation.

use std::future::Future;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::stateful::Session;

/// An MCP server without its transport.
pub(super) trait Example: Send + Sync + 'static {
    const NAME: &'static str;
    const INSTRUCTIONS: &'static str;

    fn capabilities() -> Value;

    /// Answers a request with the members of its result.
    fn answer(
        &self,
        method: &str,
        params: &Value,
        talk: &Talk,
    ) -> impl Future<Output = Result<Value, Fault>> + Send;
}

/// Error of a request.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) code: i32,
    pub(super) message: String,
}

/// The way back to the client while a request is worked on.
#[derive(Debug)]
pub(super) struct Talk {
    /// By which the client recognises its request's progress.
    pub(super) token: Option<Value>,
    /// Messages that go out before the answer.
    pub(super) messages: mpsc::Sender<Value>,
    /// Session of the request; `None` in the stateless protocol.
    pub(super) session: Option<Arc<Session>>,
}

impl Fault {
    pub(super) fn unknown_method(method: &str) -> Self {
        Self { code: vmcp_core::code::METHOD_NOT_FOUND, message: format!("no method {method}") }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self { code: vmcp_core::code::INVALID_PARAMS, message: message.into() }
    }
}

impl Talk {
    pub(super) async fn progress(&self, done: u64, total: u64, message: &str) {
        let Some(token) = &self.token else { return };
        let progress = json!({
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": token, "progress": done, "total": total, "message": message},
        });
        // A client that has gone misses nothing.
        _ = self.messages.send(progress).await;
    }
}

/// The result of a tool that worked.
pub(super) fn text(text: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": text.into()}]})
}

/// The result of a tool that worked and declares an `outputSchema`.
pub(super) fn structured(value: &Value) -> Value {
    json!({
        "content": [{"type": "text", "text": value.to_string()}],
        "structuredContent": value,
    })
}

/// The result of a tool that did not: something that the model can read and do better.
pub(super) fn failed(message: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": message.into()}], "isError": true})
}

/// The definition of a tool.
pub(super) fn tool(name: &str, title: &str, description: &str, arguments: &Value) -> Value {
    let required: Vec<&String> =
        arguments.as_object().into_iter().flatten().map(|(k, _)| k).collect();
    json!({
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": {"type": "object", "properties": arguments, "required": required},
    })
}
