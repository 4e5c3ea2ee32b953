//! A server that speaks HTTP+SSE, written over hyper alone.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream::poll_fn;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// A running one. It goes on until the test ends.
#[derive(Clone)]
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Data of the first event; `None` sends the correct one.
    endpoint: Option<String>,
    sessions: Mutex<HashMap<u64, UnboundedSender<Bytes>>>,
    /// Number of streams opened so far.
    opened: Mutex<u64>,
    /// By session: the calls that wait for the client's answer.
    asking: Mutex<HashMap<u64, Value>>,
    received: Mutex<Vec<Value>>,
    more_tools: Mutex<Vec<String>>,
}

impl Backend {
    pub(crate) async fn start(endpoint: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = State { endpoint: endpoint.map(str::to_owned), ..State::default() };
        let backend = Self { address, state: Arc::new(state) };
        let serving = backend.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let backend = serving.clone();
                let service = service_fn(move |request| backend.clone().answer(request));
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        });
        backend
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/sse", self.address)
    }

    /// Everything that was posted, in order.
    pub(crate) fn received(&self) -> Vec<Value> {
        self.state.received.lock().unwrap().clone()
    }

    /// Returns the number of open streams.
    pub(crate) fn streams(&self) -> usize {
        let mut sessions = self.state.sessions.lock().unwrap();
        sessions.retain(|_, stream| !stream.is_closed());
        sessions.len()
    }

    /// Says the same on every stream.
    pub(crate) fn say_to_all(&self, message: &Value) {
        for stream in self.state.sessions.lock().unwrap().values() {
            _ = stream.send(event("message", &message.to_string()));
        }
    }

    pub(crate) fn add_tool(&self, name: &str) {
        self.state.more_tools.lock().unwrap().push(name.to_owned());
        self.say_to_all(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    }

    /// Breaks every stream.
    pub(crate) fn break_all(&self) {
        self.state.sessions.lock().unwrap().clear();
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Answer, Infallible> {
        Ok(match *request.method() {
            Method::GET => self.open(),
            Method::POST => self.take(request).await,
            _ => status(StatusCode::METHOD_NOT_ALLOWED),
        })
    }

    fn open(&self) -> Answer {
        let mut opened = self.state.opened.lock().unwrap();
        *opened += 1;
        let session = *opened;
        let (sender, mut receiver) = unbounded_channel::<Bytes>();
        let endpoint = self.state.endpoint.clone();
        let endpoint = endpoint.unwrap_or_else(|| format!("/post?session={session}"));
        _ = sender.send(event("endpoint", &endpoint));
        self.state.sessions.lock().unwrap().insert(session, sender);
        let frames = poll_fn(move |cx| {
            receiver.poll_recv(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
        });
        let mut response = Response::new(StreamBody::new(frames).boxed());
        response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
        response
    }

    async fn take(&self, request: Request<Incoming>) -> Answer {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let session = query.strip_prefix("session=").and_then(|number| number.parse().ok());
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let message: Value = serde_json::from_slice(&body).unwrap();
        self.state.received.lock().unwrap().push(message.clone());
        let known = session
            .is_some_and(|session| self.state.sessions.lock().unwrap().contains_key(&session));
        let Some(session) = session.filter(|_| known) else {
            return status(StatusCode::NOT_FOUND);
        };
        let backend = self.clone();
        tokio::spawn(async move { backend.handle(session, &message) });
        status(StatusCode::ACCEPTED)
    }

    fn say(&self, session: u64, message: &Value) {
        if let Some(stream) = self.state.sessions.lock().unwrap().get(&session) {
            _ = stream.send(event("message", &message.to_string()));
        }
    }

    fn handle(&self, session: u64, message: &Value) {
        let id = &message["id"];
        let answer = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        match message["method"].as_str() {
            Some("initialize") => self.say(
                session,
                &answer(json!({
                    "protocolVersion": "2024-11-05",
                    "capabilities": {"tools": {"listChanged": true}, "logging": {}},
                    "serverInfo": {"name": "old", "version": "1"},
                })),
            ),
            Some("tools/list") => {
                let fixed = ["echo", "count", "ask", "stray", "die", "silent", "log"];
                let more = self.state.more_tools.lock().unwrap().clone();
                let tools: Vec<Value> = fixed
                    .iter()
                    .map(|name| (*name).to_owned())
                    .chain(more)
                    .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
                    .collect();
                self.say(session, &answer(json!({ "tools": tools })));
            }
            Some("tools/call") => self.call(session, message),
            Some("logging/setLevel" | "ping") => self.say(session, &answer(json!({}))),
            Some(_) if id.is_null() => {}
            Some(_) => self.say(
                session,
                &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}),
            ),
            // The client's answer to the question.
            None => {
                if let Some(call) = self.state.asking.lock().unwrap().remove(&session) {
                    self.say(session, &text(&call, &message["result"].to_string()));
                }
            }
        }
    }

    fn call(&self, session: u64, message: &Value) {
        let (id, params) = (&message["id"], &message["params"]);
        match params["name"].as_str().unwrap() {
            "echo" => {
                let said = format!("{session}:{}", params["arguments"]["text"].as_str().unwrap());
                self.say(session, &text(id, &said));
            }
            "count" => {
                for step in 1..=3 {
                    let token = &params["_meta"]["progressToken"];
                    let progress = json!({"progressToken": token, "progress": step, "total": 3});
                    self.say(session, &notification("notifications/progress", &progress));
                }
                self.say(session, &text(id, "counted"));
            }
            "log" => {
                let entry = json!({"level": "warning", "data": "careful"});
                self.say(session, &notification("notifications/message", &entry));
                self.say(session, &text(id, "logged"));
            }
            "ask" => {
                self.state.asking.lock().unwrap().insert(session, id.clone());
                let question = json!({
                    "message": params["arguments"]["text"],
                    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
                });
                self.say(
                    session,
                    &json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": question}),
                );
            }
            "stray" => {
                self.say(session, &text(&json!("nobody's"), "wrong"));
                self.say(session, &text(&json!(987_654), "wrong"));
                self.say(session, &text(id, "right"));
            }
            "die" => drop(self.state.sessions.lock().unwrap().remove(&session)),
            _ => {}
        }
    }
}

fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

fn text(id: &Value, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
}

fn event(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

fn status(status: StatusCode) -> Answer {
    let mut response = Response::new(Full::default().boxed());
    *response.status_mut() = status;
    response
}
