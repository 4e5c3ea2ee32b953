//! Client with a session, and the stream on which the server notifies it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::pod::{HOST, Pod, initialize};

/// Time for a change to arrive on a machine under load.
const ARRIVAL: Duration = Duration::from_mins(1);

/// Client of MCP 2025-06-18 with an open session.
pub(super) struct Session {
    port: u16,
    id: String,
    /// Notifications of changed tools.
    changes: mpsc::UnboundedReceiver<()>,
}

impl Session {
    /// Opens a session, and its stream.
    pub(super) async fn open(pod: &Pod) -> Self {
        let port = pod.port();
        let response = post(port, None, &initialize()).await;
        let id = header(&response, "mcp-session-id").to_owned();
        let (sender, changes) = mpsc::unbounded_channel();
        let session = Self { port, id, changes };
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        session.listen(sender).await;
        session
    }

    /// Returns the id, which the server accepts as long as the session goes on.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Waits until the server notifies the client that its tools are others.
    pub(super) async fn wait_changed(&mut self) {
        let change = timeout(ARRIVAL, self.changes.recv()).await;
        assert_eq!(change.ok().flatten(), Some(()), "no notification of changed tools");
    }

    /// Waits for notifications until the tools are these.
    pub(super) async fn wait_tools(&mut self, expected: &[&str]) {
        loop {
            self.wait_changed().await;
            if self.tools().await == expected {
                return;
            }
        }
    }

    /// Returns the names of the tools, sorted.
    pub(super) async fn tools(&self) -> Vec<String> {
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
        let result = message_of(&self.send(&message).await);
        let tools = result["result"]["tools"].as_array().unwrap_or_else(|| panic!("{result}"));
        let mut names: Vec<_> =
            tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    /// Calls a tool, and expects a result.
    pub(super) async fn call(&self, tool: &str) {
        let params = json!({"name": tool, "arguments": {}});
        let message = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params});
        let answer = message_of(&self.send(&message).await);
        assert!(answer["result"]["content"].is_array(), "{answer}");
    }

    /// Calls a tool, whatever comes of it, for a second at most.
    pub(super) async fn try_call(&self, tool: &str) {
        let params = json!({"name": tool, "arguments": {}});
        let message = json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": params});
        _ = timeout(Duration::from_secs(1), exchange(self.port, Some(&self.id), &message)).await;
    }

    async fn send(&self, message: &Value) -> String {
        post(self.port, Some(&self.id), message).await
    }

    /// Opens the stream, and forwards what concerns tools.
    async fn listen(&self, sender: mpsc::UnboundedSender<()>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let request = format!(
            "GET /mcp HTTP/1.1\r\nhost: {HOST}\r\naccept: text/event-stream\r\nmcp-session-id: {}\r\n\r\n",
            self.id
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let first = lines.next_line().await.unwrap().unwrap();
        assert!(first.starts_with("HTTP/1.1 200 "), "{first}");
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if line.contains("notifications/tools/list_changed") {
                    _ = sender.send(());
                }
            }
        });
    }
}

async fn post(port: u16, session: Option<&str>, message: &Value) -> String {
    let response = exchange(port, session, message).await;
    assert!(response.starts_with("HTTP/1.1 20"), "{response}");
    response
}

async fn exchange(port: u16, session: Option<&str>, message: &Value) -> String {
    let body = message.to_string();
    let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.unwrap();
    String::from_utf8(response).unwrap()
}

fn header<'r>(response: &'r str, name: &str) -> &'r str {
    let line = response.lines().find_map(|line| line.split_once(": ").filter(|(n, _)| *n == name));
    line.unwrap_or_else(|| panic!("{response}")).1
}

/// Returns the message of a response, in whatever frame it came.
fn message_of(response: &str) -> Value {
    let body = response.split_once("\r\n\r\n").unwrap().1;
    let at = body.find('{').unwrap_or_else(|| panic!("{response}"));
    let mut values = serde_json::Deserializer::from_str(&body[at..]).into_iter::<Value>();
    values.next().unwrap().unwrap_or_else(|error| panic!("{error}: {response}"))
}
