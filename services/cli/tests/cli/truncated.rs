//! Responses of backends that break off: no client takes what came of one for a whole.

use http::HeaderValue;
use http::header::CONTENT_LENGTH;
use serde_json::Value;
use vmcp_test_support::mcp_backend::{broken_response, unframed_response};
use vmcp_test_support::{BoxResponse, McpBackend};

use crate::http::request;
use crate::program::{Folder, ServerProcess};

const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");
const JSON: (&str, &str) = ("content-type", "application/json");
const META: &str = r#""_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// Truncation of the response to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// JSON that ends with the connection.
    Json,
    /// JSON of a certain length.
    Length,
    /// JSON in chunks, without the last one.
    Chunks,
    /// An event that has no end.
    Event,
    /// The same behind a notification.
    LaterEvent,
}

impl Cut {
    const ALL: [Self; 5] = [Self::Json, Self::Length, Self::Chunks, Self::Event, Self::LaterEvent];

    /// Returns a response that is cut off after `bytes` of the text of its result.
    fn response(self, id: &Value, bytes: usize) -> BoxResponse {
        let text = "x".repeat(bytes);
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","content":[{{"type":"text","text":"{text}"#
        );
        let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#;
        match self {
            Self::Json => unframed_response("application/json", body),
            Self::Length => {
                let length = HeaderValue::from(body.len() + 9);
                let mut response = broken_response("application/json", body);
                response.headers_mut().insert(CONTENT_LENGTH, length);
                response
            }
            Self::Chunks => broken_response("application/json", body),
            Self::Event => unframed_response("text/event-stream", format!("data: {body}\n")),
            Self::LaterEvent => {
                unframed_response("text/event-stream", format!("data: {progress}\n\ndata: {body}"))
            }
        }
    }
}

/// The body of the response to a call, as it came over the wire, and whether HTTP calls it whole.
fn call(port: u16, session: Option<&str>) -> (String, bool) {
    let meta = if session.is_some() { r#""_meta":{"progressToken":1}"# } else { META };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"a_x","arguments":{{}},{meta}}}}}"#
    );
    let mut headers = vec![JSON, ACCEPT];
    match session {
        Some(session) => headers.push(("mcp-session-id", session)),
        None => headers.extend([
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "a_x"),
        ]),
    }
    let answer = request(port, "POST", "/mcp", &headers, &body);
    let length = answer.header("content-length").map(|length| length.parse::<usize>().unwrap());
    let mut text = String::new();
    answer.read(&mut text);
    let whole = match length {
        Some(length) => text.len() == length,
        None => text.ends_with("0\r\n\r\n"),
    };
    (text, whole)
}

fn initialize(port: u16) -> String {
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let answer = request(port, "POST", "/mcp", &[JSON, ACCEPT], hello);
    answer.header("mcp-session-id").unwrap().to_owned()
}

/// The error in what came, if it is one: the JSON body, or the last event.
fn error(text: &str) -> Option<String> {
    let start = text.rfind(r#"{"jsonrpc""#)?;
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    let message = values.next()?.ok()?;
    Some(message["error"]["message"].as_str()?.to_owned())
}

#[test]
fn truncated_response_is_aborted_or_an_error() {
    for stateful in [false, true] {
        let backend = if stateful { McpBackend::stateful } else { McpBackend::stateless }(&["x"]);
        let folder = Folder::new();
        let text = format!(
            "name: x\nincomingAuth: {{type: anonymous}}\n\
             backends: [{{name: a, url: \"{}\", transport: streamable-http}}]\n",
            backend.url()
        );
        let (_server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &text), &[]);
        let session = initialize(port);
        for cut in Cut::ALL {
            for size in [10, 300_000] {
                backend.on("tools/call", move |request| {
                    let response = cut.response(&request.message()["id"], size);
                    request.respond(response);
                });
                for session in [None, Some(&*session)] {
                    let (text, whole) = call(port, session);
                    let what = format!(
                        "{cut:?} {size}, backend stateful: {stateful}, client: {}",
                        session.is_some()
                    );
                    match error(&text) {
                        Some(message) => {
                            assert!(message.contains("backend a "), "{what}: {message}");
                        }
                        None => assert!(!whole, "{what}: ends as if complete"),
                    }
                    assert_eq!(text.matches("\"result\"").count(), usize::from(!whole), "{what}");
                }
            }
        }
        backend.reset("tools/call");
        for session in [None, Some(&*session)] {
            let (text, whole) = call(port, session);
            assert!(whole && text.contains("done"), "{text}");
        }
    }
}
