//! A stateless backend that keeps the head of every request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// It serves until the test ends.
#[derive(Debug, Clone)]
pub(crate) struct Backend {
    pub(crate) port: u16,
    heads: Arc<Mutex<Vec<String>>>,
    broken: Arc<AtomicBool>,
}

impl Backend {
    /// A backend with tools of these names.
    pub(crate) fn start(tools: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let backend = Self { port, heads: Arc::default(), broken: Arc::default() };
        let serving = backend.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let serving = serving.clone();
                std::thread::spawn(move || serving.connection(stream, tools));
            }
        });
        backend
    }

    /// From now on it answers 503, or as usual.
    pub(crate) fn breaks(&self, broken: bool) {
        self.broken.store(broken, Ordering::Relaxed);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// The heads of the requests so far, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    fn connection(&self, stream: TcpStream, tools: &[&str]) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        while let Some((head, body)) = read(&mut reader) {
            self.heads.lock().unwrap().push(head);
            let answer = answer(&body, tools).to_string();
            let length = answer.len();
            let broken = self.broken.load(Ordering::Relaxed);
            let status = if broken { "503 Service Unavailable" } else { "200 OK" };
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json");
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
