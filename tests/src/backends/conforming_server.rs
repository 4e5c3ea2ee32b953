//! A conforming server with scripted behavior.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::sleep;
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::{
    McpBackendBuilder, PendingRequest, Protocol, broken_response,
};

/// Tools of every server.
const TOOLS: [&str; 4] = ["echo", "slow", "stream", "ask"];

/// Returns a builder of a server with both generations and four tools: `echo` returns the request, `slow` responds after
/// `ms`, `stream` also sends progress and, before it, `flood` log messages, `ask` sends a request to the client.
///
/// Its responses have headers that must not reach a client.
pub fn conforming_server(name: &str) -> McpBackendBuilder {
    let changes = json!({ "listChanged": true });
    let capabilities = json!({
        "tools": changes, "prompts": changes,
        "resources": { "listChanged": true, "subscribe": true }, "completions": {}, "logging": {},
    });
    let own = name.to_owned();
    let described = move |request: PendingRequest| {
        request.succeed(&json!({ "description": own, "messages": [] }));
    };
    let own = name.to_owned();
    let read = move |request: PendingRequest| {
        let contents = json!({ "uri": request.params()["uri"], "text": own });
        request.succeed(&json!({ "contents": [contents] }));
    };
    let own = name.to_owned();
    let complete = move |request: PendingRequest| {
        let values = json!([own, request.params()["ref"].to_string()]);
        request.succeed(&json!({ "completion": { "values": values } }));
    };
    let [own, slow, streaming, asking] = std::array::from_fn(|_| name.to_owned());
    McpBackend::builder(Protocol::Both)
        .name(name)
        .tools(&TOOLS)
        .capabilities(capabilities)
        .notification_streams()
        .response_header("set-cookie", "backend=secret")
        .response_header("www-authenticate", "Bearer realm=\"backend\"")
        .response_header("access-control-allow-origin", "https://backend.example")
        .response_header("x-backend", "secret")
        .on("prompts/get", described)
        .on("resources/read", read)
        .on("completion/complete", complete)
        .on("tools/call", move |call| echo(call, &own))
        .on_tool("slow", move |call| {
            let name = slow.clone();
            tokio::spawn(async move {
                if lasts(&call).await {
                    echo(call, &name);
                } else {
                    call.respond(broken_response("application/json", ""));
                }
            });
        })
        .on_tool("stream", move |call| {
            let name = streaming.clone();
            tokio::spawn(async move { stream(call, &name).await });
        })
        .on_tool("ask", move |call| {
            let name = asking.clone();
            tokio::spawn(async move { ask(call, &name).await });
        })
}

/// Returns the last `tools/call`, unchanged.
#[must_use]
pub fn last_call(backend: &McpBackend) -> String {
    let mut requests = backend.requests().into_iter();
    let last = requests.rfind(|request| request.message()["method"] == "tools/call");
    last.map_or_else(String::new, |call| String::from_utf8_lossy(&call.body).into_owned())
}

/// Responds with the received request.
fn echo(call: PendingRequest, name: &str) {
    let headers: Map<String, Value> = call
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), json!(String::from_utf8_lossy(value.as_bytes()))))
        .collect();
    let seen = json!({
        "backend": name, "session": call.session(), "headers": headers, "params": call.params(),
    });
    call.succeed(&json!({ "content": [], "structuredContent": seen }));
}

/// Waits for the requested time. Returns `false` if the session ends before.
async fn lasts(call: &PendingRequest) -> bool {
    let wait = Duration::from_millis(call.argument("ms").as_u64().unwrap_or(0));
    tokio::select! {
        () = sleep(wait) => true,
        () = call.session_ended() => false,
    }
}

/// Sends progress, the requested number of 1 KiB log messages as fast as the client reads, and the result after a delay.
async fn stream(mut call: PendingRequest, name: &str) {
    // Also without a token: the event is the first one of the stream.
    let token = call.params()["_meta"]["progressToken"].clone();
    call.notify("notifications/progress", &json!({ "progressToken": token, "progress": 1 }));
    let count = call.argument("flood").as_u64().unwrap_or(0);
    for number in 0..count {
        let params = json!({ "level": "info", "data": [number, "x".repeat(1024)] });
        let entry =
            json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params });
        if !call.send(&entry).await {
            return;
        }
    }
    if lasts(&call).await {
        echo(call, name);
    }
}

/// Asks the client: with a server request, or with the result for a stateless client.
async fn ask(mut call: PendingRequest, name: &str) {
    let question = json!({
        "mode": "form",
        "message": call.argument("question"),
        "requestedSchema": { "type": "object", "properties": { "word": { "type": "string" } } },
    });
    let params = call.params();
    if !call.is_stateless() {
        let Some(answer) = call.request("elicitation/create", question).await else { return };
        let content = json!({ "answer": answer, "backend": name });
        call.succeed(&json!({ "content": [], "structuredContent": content }));
    } else if let Some(answers) = params.get("inputResponses") {
        let content = json!({
            "answer": answers["1"], "state": params["requestState"], "backend": name,
        });
        call.succeed(&json!({ "content": [], "structuredContent": content }));
    } else {
        call.succeed(&json!({
            "resultType": "input_required",
            "inputRequests": { "1": { "method": "elicitation/create", "params": question } },
            "requestState": format!("state of {name}"),
        }));
    }
}
