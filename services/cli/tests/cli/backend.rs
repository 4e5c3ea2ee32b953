//! A backend of either generation that keeps every request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// It serves until the test ends.
#[derive(Debug, Clone)]
pub(crate) struct Backend {
    pub(crate) port: u16,
    stateful: bool,
    /// The tools for clients of the older generation, if it speaks both.
    older: Option<&'static [&'static str]>,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
    broken: Arc<AtomicBool>,
    refused: Arc<Mutex<Vec<String>>>,
    cut: Arc<Mutex<Option<(Cut, usize)>>>,
}

/// The way in which the response to a call is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
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
    pub(crate) const ALL: [Self; 5] =
        [Self::Json, Self::Length, Self::Chunks, Self::Event, Self::LaterEvent];

    /// The response up to where it breaks off, in the text of the result behind so many bytes.
    fn response(self, id: &Value, bytes: usize) -> String {
        let text = "x".repeat(bytes);
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","content":[{{"type":"text","text":"{text}"#
        );
        let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#;
        let (headers, body) = match self {
            Self::Json => ("application/json".to_owned(), body),
            Self::Length => {
                (format!("application/json\r\ncontent-length: {}", body.len() + 9), body)
            }
            Self::Chunks => (
                "application/json\r\ntransfer-encoding: chunked".to_owned(),
                format!("{:x}\r\n{body}\r\n", body.len()),
            ),
            Self::Event => ("text/event-stream".to_owned(), format!("data: {body}\n")),
            Self::LaterEvent => {
                ("text/event-stream".to_owned(), format!("data: {progress}\n\ndata: {body}"))
            }
        };
        format!("HTTP/1.1 200 OK\r\ncontent-type: {headers}\r\n\r\n{body}")
    }
}

impl Backend {
    /// A stateless backend with tools of these names.
    pub(crate) fn start(tools: &'static [&'static str]) -> Self {
        Self::of(false, tools)
    }

    /// A backend with tools of these names.
    pub(crate) fn of(stateful: bool, tools: &'static [&'static str]) -> Self {
        Self::serve(stateful, None, tools)
    }

    /// A backend of both generations, with tools of these names for the clients of each, the older one's first.
    pub(crate) fn of_both(older: &'static [&'static str], newer: &'static [&'static str]) -> Self {
        Self::serve(false, Some(older), newer)
    }

    fn serve(
        stateful: bool,
        older: Option<&'static [&'static str]>,
        tools: &'static [&'static str],
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::default();
        let (broken, refused, cut) = (Arc::default(), Arc::default(), Arc::default());
        let backend = Self { port, stateful, older, requests, broken, refused, cut };
        let serving = backend.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let serving = serving.clone();
                std::thread::spawn(move || serving.connection(stream, tools));
            }
        });
        backend
    }

    /// Returns `true` for a backend of the stateful generation.
    pub(crate) fn stateful(&self) -> bool {
        self.stateful
    }

    /// Makes the backend respond with 503, or normally again.
    pub(crate) fn breaks(&self, broken: bool) {
        self.broken.store(broken, Ordering::Relaxed);
    }

    /// From now on it answers 401 to requests with this bearer token.
    pub(crate) fn refuses(&self, token: &str) {
        self.refused.lock().unwrap().push(format!("authorization: bearer {token}\r\n"));
    }

    /// From now on answers to calls break off behind so many bytes of text, or come as usual.
    pub(crate) fn cuts(&self, cut: Option<(Cut, usize)>) {
        *self.cut.lock().unwrap() = cut;
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// The heads of the requests so far, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.requests().into_iter().map(|(head, _)| head).collect()
    }

    /// The same with the messages.
    pub(crate) fn requests(&self) -> Vec<(String, Value)> {
        self.requests.lock().unwrap().clone()
    }

    fn connection(&self, stream: TcpStream, tools: &[&str]) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while let Some((head, body)) = read(&mut reader) {
            let (stateful, tools) = match self.older {
                Some(older) if !head.contains("mcp-method: ") => (true, older),
                _ => (self.stateful, tools),
            };
            let cut = self.cut.lock().unwrap().filter(|_| body["method"] == "tools/call");
            if let Some((cut, bytes)) = cut {
                _ = stream.write_all(cut.response(&body["id"], bytes).as_bytes());
                // The reader's half is closed with it.
                _ = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
            let refused = self.refused.lock().unwrap().iter().any(|token| head.contains(token));
            let answer = match (stateful, body["id"].is_null()) {
                _ if refused => json!({"error": "invalid_token"}).to_string(),
                // Notifications and invalid messages get no response body.
                (true, true) => String::new(),
                (true, false) => answer_older(&body, tools).to_string(),
                (false, _) => answer(&body, tools).to_string(),
            };
            let length = answer.len();
            let broken = self.broken.load(Ordering::Relaxed);
            let status = match () {
                () if refused => "401 Unauthorized",
                () if broken => "503 Service Unavailable",
                () if length > 0 => "200 OK",
                () if head.starts_with("post ") => "202 Accepted",
                () => "405 Method Not Allowed",
            };
            self.requests.lock().unwrap().push((head, body));
            let session = if stateful { "\r\nmcp-session-id: s" } else { "" };
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json{session}");
            if write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{answer}").is_err() {
                return;
            }
        }
    }
}

/// The head, in lower case, and the message of the next request.
pub(crate) fn read(reader: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_ascii_lowercase();
    let length = head.split_once("content-length: ").and_then(|(_, rest)| rest.split_once('\r'));
    let length = length.map_or(0, |(length, _)| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, serde_json::from_slice(&body).unwrap_or_default()))
}

fn answer(message: &Value, tools: &[&str]) -> Value {
    let mut result = match message["method"].as_str() {
        Some("server/discover") => {
            json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        }
        Some("tools/list") => {
            let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
            json!({"tools": tools.iter().map(tool).collect::<Vec<_>>()})
        }
        _ => json!({"content": [{"type": "text", "text": "done"}]}),
    };
    result["resultType"] = "complete".into();
    result["ttlMs"] = 0.into();
    result["cacheScope"] = "private".into();
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result})
}

/// The same of MCP 2025-11-25.
fn answer_older(message: &Value, tools: &[&str]) -> Value {
    let mut answer = answer(message, tools);
    match message["method"].as_str() {
        Some("server/discover") => {
            return json!({
                "jsonrpc": "2.0",
                "id": message["id"],
                "error": {"code": -32601, "message": "method not found"},
            });
        }
        Some("initialize") => {
            answer["result"] = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "tests", "version": "1"},
            });
        }
        _ => {}
    }
    answer
}
