//! A server that returns each request's headers and parameters, and records them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::state::lock;
use super::{
    BoxResponse, HttpListener, SESSION, STATELESS, VERSION, event, event_stream, json_answer, whole,
};
use crate::counterparts::TestError;

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

/// Protocol of a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// MCP 2025-11-25, with sessions.
    Stateful,
    /// MCP 2026-07-28.
    Stateless,
    /// The deprecated HTTP+SSE transport (MCP 2024-11-05).
    Sse,
}

/// A running mirror. Its lists, contents, results and notifications contain the request's headers, session and
/// parameters.
#[derive(Debug)]
pub struct EchoServer {
    state: Arc<State>,
    listening: HttpListener,
}

/// A recorded request.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// The path with the query.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: String,
}

#[derive(Debug)]
struct State {
    voice: Voice,
    shown: Mutex<Vec<RecordedRequest>>,
    /// Sessions, with the event sender for those of the deprecated transport.
    sessions: Mutex<HashMap<String, Option<mpsc::Sender<Bytes>>>>,
    serial: AtomicU64,
}

impl Voice {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Stateful, Self::Stateless, Self::Sse];

    /// Returns its backend name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stateful => "stateful",
            Self::Stateless => "stateless",
            Self::Sse => "sse",
        }
    }

    /// Returns the transport's name in a configuration.
    #[must_use]
    pub fn transport(self) -> &'static str {
        if self == Self::Sse { "sse" } else { "streamable-http" }
    }
}

impl EchoServer {
    /// Starts a mirror.
    ///
    /// # Errors
    /// Returns an error if no port is free.
    pub fn start(voice: Voice) -> Result<Self, TestError> {
        let state = Arc::new(State {
            voice,
            shown: Mutex::default(),
            sessions: Mutex::default(),
            serial: AtomicU64::new(0),
        });
        let behind = Arc::clone(&state);
        let listening =
            HttpListener::start(0, move |request| answer(Arc::clone(&behind), request))?;
        Ok(Self { state, listening })
    }

    /// Returns the URL of its endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        let url = self.listening.url();
        if self.state.voice == Voice::Sse { url.replace("/mcp", "/sse") } else { url }
    }

    /// Returns every request so far.
    #[must_use]
    pub fn shown(&self) -> Vec<RecordedRequest> {
        lock(&self.state.shown).clone()
    }
}

impl RecordedRequest {
    /// Returns the value of a header, or an empty text if it is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the whole request as one text.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}\n{:?}\n{}", self.path, self.headers, self.body)
    }
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> BoxResponse {
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return whole(StatusCode::BAD_REQUEST, "text/plain", "no body");
    };
    let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    let message: Value = serde_json::from_str(&body).unwrap_or_default();
    let path = parts.uri.to_string();
    lock(&state.shown).push(RecordedRequest {
        path: path.clone(),
        headers: parts.headers.clone(),
        body,
    });
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    if state.voice == Voice::Sse {
        return match path.split_once("?session=") {
            None if parts.method == Method::GET => state.open_stream(),
            Some((_, session)) => state.on_stream(session, &parts.headers, &message).await,
            None => whole(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "post to the endpoint"),
        };
    }
    if parts.method != Method::POST {
        return whole(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "no streams here");
    }
    let stateless = header(VERSION) == Some(STATELESS);
    if stateless != (state.voice == Voice::Stateless) {
        return whole(StatusCode::BAD_REQUEST, "text/plain", "not this generation");
    }
    if message["method"] == "initialize" {
        return state.welcome(&message);
    }
    let session = header(SESSION);
    if !stateless && !session.is_some_and(|id| lock(&state.sessions).contains_key(id)) {
        return whole(StatusCode::NOT_FOUND, "text/plain", "no such session");
    }
    if message.get("id").is_none() {
        return whole(StatusCode::ACCEPTED, "application/json", "");
    }
    match state.messages(session, &parts.headers, &message).as_slice() {
        [one] => json_answer(StatusCode::OK, one),
        several => whole(
            StatusCode::OK,
            "text/event-stream",
            several.iter().map(event).collect::<Vec<_>>().concat(),
        ),
    }
}

impl State {
    fn open(&self, stream: Option<mpsc::Sender<Bytes>>) -> String {
        let number = self.serial.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-session-{number}", self.voice.name());
        lock(&self.sessions).insert(id.clone(), stream);
        id
    }

    fn welcome(&self, message: &Value) -> BoxResponse {
        let session = self.open(None);
        let result = hello("2025-11-25", self.voice);
        let mut answer = json_answer(
            StatusCode::OK,
            &json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }),
        );
        if let Ok(id) = HeaderValue::from_str(&session) {
            answer.headers_mut().insert(SESSION, id);
        }
        answer
    }

    /// Opens the stream of the deprecated transport; its first event names the endpoint for messages.
    fn open_stream(&self) -> BoxResponse {
        let (answer, sender) = event_stream();
        let session = self.open(Some(sender.clone()));
        let first = format!("event: endpoint\ndata: /messages?session={session}\n\n");
        // The queue of a new stream has room.
        _ = sender.try_send(first.into());
        answer
    }

    /// Handles a message of the deprecated transport and sends the response to its stream.
    async fn on_stream(&self, session: &str, headers: &HeaderMap, message: &Value) -> BoxResponse {
        let stream = lock(&self.sessions).get(session).cloned().flatten();
        let Some(stream) = stream else {
            return whole(StatusCode::NOT_FOUND, "text/plain", "no such session");
        };
        if message.get("id").is_some() {
            for said in self.messages(Some(session), headers, message) {
                // A client that has closed its stream receives no response.
                _ = stream.send(event(&said)).await;
            }
        }
        whole(StatusCode::ACCEPTED, "text/plain", "Accepted")
    }

    /// Returns the messages for a request: the result, and before that of `stream` its progress.
    fn messages(&self, session: Option<&str>, headers: &HeaderMap, message: &Value) -> Vec<Value> {
        let params = &message["params"];
        let seen = seen(session, headers, params);
        let mut said = Vec::new();
        let token = &params["_meta"]["progressToken"];
        if params["name"] == "stream" && !token.is_null() {
            let params = json!({ "progressToken": token, "progress": 1, "message": seen });
            said.push(
                json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }),
            );
        }
        let mut result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => hello("2024-11-05", self.voice),
            "server/discover" => {
                let mut said = hello(STATELESS, self.voice);
                said["supportedVersions"] = json!([STATELESS]);
                said
            }
            // Listed names contain the client's credential, so that each caller's catalog differs.
            "tools/list" => {
                let tool = |name: &str| {
                    json!({ "name": name, "description": credential(headers),
                    "inputSchema": { "type": "object" } })
                };
                json!({ "tools": [tool("echo"), tool("stream")] })
            }
            "prompts/list" => {
                json!({ "prompts": [{ "name": "prompt", "description": credential(headers) }] })
            }
            "resources/list" => {
                let uri = format!("mirror://{}", self.voice.name());
                json!({ "resources": [{ "uri": uri, "name": "r", "description": credential(headers) }] })
            }
            "resources/templates/list" => json!({ "resourceTemplates": [] }),
            "prompts/get" => json!({ "description": seen, "messages": [] }),
            "resources/read" => json!({ "contents": [{ "uri": params["uri"], "text": seen }] }),
            "tools/call" => json!({ "content": [{ "type": "text", "text": seen }] }),
            _ => json!({}),
        };
        if self.voice == Voice::Stateless {
            result["resultType"] = "complete".into();
            result["ttlMs"] = 0.into();
            result["cacheScope"] = "private".into();
        }
        said.push(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }));
        said
    }
}

fn hello(revision: &str, voice: Voice) -> Value {
    json!({
        "protocolVersion": revision,
        "capabilities": { "tools": {}, "prompts": {}, "resources": {} },
        "serverInfo": { "name": voice.name(), "version": "1.0.0" },
    })
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
fn seen(session: Option<&str>, headers: &HeaderMap, params: &Value) -> String {
    let session = session.unwrap_or("none");
    format!("session: {session}\n{}arguments: {}", credential(headers), params["arguments"])
}
