//! Clients of the gateway: one that speaks HTTP+SSE, and one of streamable HTTP to compare with.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use vmcp_wire::sse::Reader;

/// Time limit for each message.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// One request on a connection of its own.
pub(crate) async fn send(
    address: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response<Incoming> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().unwrap();
    request.headers_mut().insert("host", address.to_string().parse().unwrap());
    for (name, value) in headers {
        let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    timeout(TIMEOUT, sender.send_request(request)).await.unwrap().unwrap()
}

pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");
const EVENTS: (&str, &str) = ("accept", "text/event-stream");

/// An old client with an open stream.
pub(crate) struct LegacyClient {
    pub(crate) gateway: SocketAddr,
    pub(crate) messages: String,
    events: UnboundedReceiver<Value>,
    reader: JoinHandle<()>,
    serial: u64,
    /// Messages that arrived while the test waited for another one.
    pub(crate) unasked: Vec<Value>,
}

async fn read(body: Incoming, said: UnboundedSender<(Option<Bytes>, Bytes)>) {
    let mut body = body;
    let mut reader = Reader::new(1 << 20);
    while let Some(Ok(frame)) = body.frame().await {
        reader.push(frame.into_data().unwrap());
        for event in reader.by_ref() {
            let event = event.unwrap();
            if said.send((event.event, event.data)).is_err() {
                return;
            }
        }
    }
}

impl LegacyClient {
    /// Opens a stream, without a handshake.
    pub(crate) async fn open(gateway: SocketAddr) -> Self {
        let response = send(gateway, Method::GET, "/sse", &[EVENTS], "").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let (said, mut heard) = unbounded_channel();
        let (tell, events) = unbounded_channel();
        let reading = tokio::spawn(read(response.into_body(), said));
        let (name, data) = timeout(TIMEOUT, heard.recv()).await.unwrap().unwrap();
        assert_eq!(name.as_deref(), Some(&b"endpoint"[..]));
        let messages = String::from_utf8(data.to_vec()).unwrap();
        let reader = tokio::spawn(async move {
            let _guard = Aborting(reading);
            while let Some((name, data)) = heard.recv().await {
                assert_eq!(name.as_deref(), Some(&b"message"[..]));
                if tell.send(serde_json::from_slice(&data).unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { gateway, messages, events, reader, serial: 0, unasked: Vec::new() }
    }

    /// Opens a stream and shakes hands.
    pub(crate) async fn connect(gateway: SocketAddr) -> Self {
        let mut old = Self::open(gateway).await;
        let hello = json!({
            "protocolVersion": "2024-11-05",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "old client", "version": "1"},
        });
        let answer = old.request("initialize", hello).await;
        assert_eq!(answer["result"]["protocolVersion"], "2024-11-05");
        old.notify("notifications/initialized", json!({})).await;
        old
    }

    pub(crate) async fn post(&self, message: &Value) -> StatusCode {
        self.post_text(&message.to_string()).await.status()
    }

    pub(crate) async fn post_text(&self, message: &str) -> Response<Incoming> {
        send(self.gateway, Method::POST, &self.messages, &[JSON], message).await
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        assert_eq!(self.post(&message).await, StatusCode::ACCEPTED);
    }

    /// Sends a request without waiting for its answer; its id.
    pub(crate) async fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.serial += 1;
        let id = self.serial;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        assert_eq!(self.post(&message).await, StatusCode::ACCEPTED);
        id
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.answer(id).await
    }

    /// The answer to a request.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        self.first(|message| message["id"] == id && message.get("method").is_none()).await
    }

    /// The next message with this method.
    pub(crate) async fn heard(&mut self, method: &str) -> Value {
        self.first(|message| message["method"] == method).await
    }

    /// The first such message; others are kept.
    async fn first(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(index) = self.unasked.iter().position(&is_it) {
                return self.unasked.remove(index);
            }
            let message = self.next().await;
            self.unasked.push(message);
        }
    }

    async fn next(&mut self) -> Value {
        timeout(TIMEOUT, self.events.recv()).await.expect("a message").expect("an open stream")
    }

    /// Waits until the gateway ends the stream.
    pub(crate) async fn ended(mut self) {
        timeout(TIMEOUT, async { while self.events.recv().await.is_some() {} }).await.unwrap();
    }

    pub(crate) async fn call(&mut self, tool: &str, text: &str) -> Value {
        self.request("tools/call", call(tool, text)).await
    }

    pub(crate) async fn reply(&self, question: &Value, result: Value) {
        let message = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
        assert_eq!(self.post(&message).await, StatusCode::ACCEPTED);
    }
}

impl Drop for LegacyClient {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

struct Aborting(JoinHandle<()>);

impl Drop for Aborting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn call(tool: &str, text: &str) -> Value {
    json!({"name": tool, "arguments": {"text": text}, "_meta": {"progressToken": text}})
}

/// The text of a tool's result.
pub(crate) fn said(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// One request of a client without sessions; all that is answered.
pub(crate) async fn stateless(gateway: SocketAddr, method: &str, mut params: Value) -> Vec<Value> {
    let meta = params["_meta"].as_object().cloned().unwrap_or_default();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "new client", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    params["_meta"].as_object_mut().unwrap().extend(meta);
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let headers = [
        JSON,
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
        ("mcp-name", &name),
    ];
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let response = send(gateway, Method::POST, "/mcp", &headers, &message.to_string()).await;
    let events = response.headers()["content-type"] == "text/event-stream";
    let body = timeout(TIMEOUT, response.into_body().collect()).await.unwrap().unwrap().to_bytes();
    if !events {
        return vec![serde_json::from_slice(&body).unwrap()];
    }
    let mut reader = Reader::new(1 << 20);
    reader.push(body);
    reader.map(|event| serde_json::from_slice(&event.unwrap().data).unwrap()).collect()
}
