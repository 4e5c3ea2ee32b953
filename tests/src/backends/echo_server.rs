//! A server that returns each request's headers and parameters.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::{PendingRequest, Protocol};

use super::{SESSION, VERSION};

/// Headers of the transport. All others are credentials, or must not reach a backend.
const TRANSPORT: [&str; 9] = [
    "host",
    "accept",
    "content-type",
    "content-length",
    SESSION,
    VERSION,
    "mcp-method",
    "mcp-name",
    "connection",
];

/// Starts a server whose lists, contents, results and notifications contain the request's headers, session and
/// parameters.
#[must_use]
pub fn echo_server(protocol: Protocol) -> McpBackend {
    let name = protocol.name();
    McpBackend::builder(protocol)
        .name(name)
        .capabilities(json!({ "tools": {}, "prompts": {}, "resources": {} }))
        // Listed items contain the client's credential, so that each caller's catalog differs.
        .on("tools/list", |request| {
            let tool = |name: &str| {
                json!({ "name": name, "description": credential(request.headers()),
                    "inputSchema": { "type": "object" } })
            };
            let tools = json!({ "tools": [tool("echo"), tool("stream")] });
            request.succeed(&tools);
        })
        .on("prompts/list", |request| {
            let prompt = json!({ "name": "prompt", "description": credential(request.headers()) });
            request.succeed(&json!({ "prompts": [prompt] }));
        })
        .on("resources/list", move |request| {
            let resource = json!({ "uri": format!("mirror://{name}"), "name": "r",
                "description": credential(request.headers()) });
            request.succeed(&json!({ "resources": [resource] }));
        })
        .on("prompts/get", |request| {
            let seen = seen(&request);
            request.succeed(&json!({ "description": seen, "messages": [] }));
        })
        .on("resources/read", |request| {
            let contents = json!({ "uri": request.params()["uri"], "text": seen(&request) });
            request.succeed(&json!({ "contents": [contents] }));
        })
        .on("tools/call", |mut request| {
            let seen = seen(&request);
            if request.params()["name"] == "stream" {
                request.report_progress(json!({ "progress": 1, "message": seen }));
            }
            request.succeed(&json!({ "content": [{ "type": "text", "text": seen }] }));
        })
        .start()
}

/// Returns the headers outside of the transport as one text.
fn credential(headers: &HeaderMap) -> String {
    let others = headers.iter().filter(|(name, _)| !TRANSPORT.contains(&name.as_str()));
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes()))
    };
    others.map(line).collect::<Vec<_>>().concat()
}

/// Returns session, credential and arguments as one text.
fn seen(request: &PendingRequest) -> String {
    let session = request.session().unwrap_or("none");
    let arguments: &Value = &request.params()["arguments"];
    format!("session: {session}\n{}arguments: {arguments}", credential(request.headers()))
}
