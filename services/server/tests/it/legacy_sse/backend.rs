//! Tools of the HTTP+SSE backends.

use serde_json::json;
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::{McpBackendBuilder, PendingRequest, Protocol};

/// Starts a server that speaks HTTP+SSE.
pub(crate) fn start() -> McpBackend {
    builder().start()
}

/// Returns a builder of such a server, with a tool for each kind of message.
pub(crate) fn builder() -> McpBackendBuilder {
    McpBackend::builder(Protocol::LegacySse)
        .capabilities(json!({"tools": {"listChanged": true}, "logging": {}}))
        .tools(&["echo", "count", "ask", "stray", "die", "silent", "log"])
        .on_tool("echo", |call| {
            let said = call.argument("text").as_str().unwrap();
            let said = format!("{}:{said}", call.session().unwrap());
            respond(call, &said);
        })
        .on_tool("count", |mut call| {
            for step in 1..=3 {
                call.report_progress(json!({"progress": step, "total": 3}));
            }
            respond(call, "counted");
        })
        .on_tool("log", |mut call| {
            call.notify("notifications/message", &json!({"level": "warning", "data": "careful"}));
            respond(call, "logged");
        })
        .on_tool("ask", |mut call| {
            tokio::spawn(async move {
                let form = json!({
                    "message": call.argument("text"),
                    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
                });
                if let Some(result) = call.request("elicitation/create", form).await {
                    respond(call, &result.to_string());
                }
            });
        })
        .on_tool("stray", |mut call| {
            for id in [json!("nobody's"), json!(987_654)] {
                let result = json!({"content": [{"type": "text", "text": "wrong"}]});
                call.try_send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
            }
            respond(call, "right");
        })
        .on_tool("die", PendingRequest::end_session)
        .on_tool("silent", drop)
}

fn respond(call: PendingRequest, text: &str) {
    call.succeed(&json!({"content": [{"type": "text", "text": text}]}));
}
