//! Responses of a [`ConformingServer`](super::Good) server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::state::{Session, State, lock};
use super::{
    BoxResponse, SESSION, STATELESS, VERSION, broken, event, event_stream, json_answer, whole,
};
use crate::fixture::Generation;

/// A request in progress.
struct Exchange {
    state: Arc<State>,
    /// `None` for stateless requests.
    session: Option<Arc<Session>>,
    headers: HeaderMap,
    message: Value,
}

/// Handles one request.
pub(super) async fn answer(state: Arc<State>, request: Request<Incoming>) -> BoxResponse {
    sleep(state.manners.late).await;
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return whole(StatusCode::BAD_REQUEST, "text/plain", "no body");
    };
    let body = body.to_bytes();
    let message: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if message["method"] == "tools/call" {
        *lock(&state.last_call) = body;
    }
    let mut answer = by_method(state, parts.method, parts.headers, message).await;
    for (name, value) in [
        ("set-cookie", "backend=secret"),
        ("www-authenticate", "Bearer realm=\"backend\""),
        ("access-control-allow-origin", "https://backend.example"),
        ("x-backend", "secret"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

async fn by_method(
    state: Arc<State>,
    method: Method,
    headers: HeaderMap,
    message: Value,
) -> BoxResponse {
    let named = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let session = named(SESSION).and_then(|id| state.session(id));
    if method == Method::DELETE {
        let ended = session.is_some_and(|session| state.end(&session.id));
        return whole(
            if ended { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND },
            "text/plain",
            "",
        );
    }
    if method == Method::GET {
        return match session {
            Some(session) => standing(&state, &session),
            None if named(SESSION).is_some() => state.unknown_session(),
            None => whole(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "no stream here"),
        };
    }
    let called = message["method"].as_str().unwrap_or("answer").to_owned();
    state.count(&called);
    let stateless = named(VERSION) == Some(STATELESS);
    match state.manners.generation {
        Generation::Stateful if stateless => return state.unknown_session(),
        Generation::Stateless if !stateless => {
            let error = json!({ "code": -32022, "message": "unsupported protocol version",
                "data": { "supported": [STATELESS] } });
            let message = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
            return json_answer(StatusCode::BAD_REQUEST, &message);
        }
        _ => {}
    }
    if called == "initialize" {
        return welcome(&state, &message);
    }
    if !stateless && session.is_none() {
        return state.unknown_session();
    }
    let session = session.filter(|_| !stateless);
    let asked = Exchange { state, session, headers, message };
    match called.as_str() {
        "answer" => asked.answered(),
        _ if asked.message.get("id").is_none() => {
            whole(StatusCode::ACCEPTED, "application/json", "")
        }
        "subscriptions/listen" => asked.listen(),
        "tools/call" => asked.call().await,
        method => asked.simple(method),
    }
}

/// Returns the response to `initialize`.
fn welcome(state: &State, message: &Value) -> BoxResponse {
    let session = state.open();
    let result = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities(),
        "serverInfo": { "name": state.manners.name, "version": "1.0.0" },
        "instructions": state.manners.instructions,
    });
    let message = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    let mut answer = json_answer(StatusCode::OK, &message);
    if let Ok(id) = HeaderValue::from_str(&session.id) {
        answer.headers_mut().insert(SESSION, id);
    }
    answer
}

fn capabilities() -> Value {
    let changes = json!({ "listChanged": true });
    json!({ "tools": changes, "prompts": changes, "resources": { "listChanged": true, "subscribe": true },
        "completions": {}, "logging": {} })
}

/// Returns the notification stream of a session.
fn standing(state: &Arc<State>, session: &Arc<Session>) -> BoxResponse {
    let (answer, sender) = event_stream();
    let mut changes = state.changes.subscribe();
    let mut over = session.over.subscribe();
    tokio::spawn(async move {
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                _ = over.wait_for(|over| *over) => return,
                () = sender.closed() => return,
            };
            let Ok(method) = change else { return };
            _ = sender.send(event(&json!({ "jsonrpc": "2.0", "method": method }))).await;
        }
    });
    answer
}

impl Exchange {
    /// Returns a result in the format of the request's generation. `members` are the members of a JSON object.
    fn result(&self, members: &str) -> String {
        let id = &self.message["id"];
        let extra = if self.session.is_none() {
            r#""resultType":"complete","ttlMs":0,"cacheScope":"private","#
        } else {
            ""
        };
        // Formatted by hand, so that offered definitions are sent unchanged.
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{extra}{members}}}}}"#)
    }

    fn respond(&self, members: &str) -> BoxResponse {
        let text = self.result(members);
        if self.state.manners.breaking_off {
            return broken(&text[..text.len() / 2]);
        }
        whole(StatusCode::OK, "application/json", text)
    }

    fn refuse(&self, code: i64, message: &str) -> BoxResponse {
        let error = json!({ "code": code, "message": message });
        let message = json!({ "jsonrpc": "2.0", "id": self.message["id"], "error": error });
        let missing = self.session.is_none() && code == -32601;
        let status = if missing { StatusCode::NOT_FOUND } else { StatusCode::OK };
        json_answer(status, &message)
    }

    fn simple(&self, method: &str) -> BoxResponse {
        let params = &self.message["params"];
        let backend = json!(self.state.manners.name);
        let offer = lock(&self.state.offer).clone();
        match method {
            "server/discover" => self.discover(),
            "tools/list" => self.list("tools", &offer.tools),
            "prompts/list" => self.list("prompts", &offer.prompts),
            "resources/list" => self.list("resources", &offer.resources),
            "resources/templates/list" => self.list("resourceTemplates", &offer.templates),
            "prompts/get" => self.respond(&format!(r#""description":{backend},"messages":[]"#)),
            "resources/read" => {
                let uri = &params["uri"];
                self.respond(&format!(r#""contents":[{{"uri":{uri},"text":{backend}}}]"#))
            }
            "completion/complete" => {
                let name = &params["ref"];
                let values = json!([self.state.manners.name, name.to_string()]);
                self.respond(&format!(r#""completion":{{"values":{values}}}"#))
            }
            "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
                self.respond("")
            }
            _ => self.refuse(-32601, "method not found"),
        }
    }

    fn discover(&self) -> BoxResponse {
        let versions = match self.state.manners.generation {
            Generation::Both => json!([STATELESS, "2025-11-25"]),
            _ => json!([STATELESS]),
        };
        let instructions = json!(self.state.manners.instructions);
        // The server still announces its revisions, even if it breaks off its lists.
        whole(
            StatusCode::OK,
            "application/json",
            self.result(&format!(
                r#""supportedVersions":{versions},"capabilities":{},"instructions":{instructions}"#,
                capabilities()
            )),
        )
    }

    fn list(&self, member: &str, all: &[String]) -> BoxResponse {
        let cursor = self.message["params"]["cursor"].as_str();
        let start: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        let end = all.len().min(start.saturating_add(self.state.manners.page));
        let items = all.get(start..end).unwrap_or_default().join(",");
        let next =
            if end < all.len() { format!(r#","nextCursor":"{end}""#) } else { String::new() };
        self.respond(&format!(r#""{member}":[{items}]{next}"#))
    }

    /// Returns the received request as the result of a tool.
    fn seen(&self) -> String {
        let headers: serde_json::Map<String, Value> = self
            .headers
            .iter()
            .map(|(name, value)| {
                (name.to_string(), json!(String::from_utf8_lossy(value.as_bytes())))
            })
            .collect();
        let seen = json!({
            "backend": self.state.manners.name,
            "session": self.session.as_ref().map(|session| &session.id),
            "headers": headers,
            "params": self.message["params"],
        });
        format!(r#""content":[],"structuredContent":{seen}"#)
    }

    async fn call(self) -> BoxResponse {
        let params = &self.message["params"];
        let wait = Duration::from_millis(params["arguments"]["ms"].as_u64().unwrap_or(0));
        match params["name"].as_str().unwrap_or_default() {
            "slow" => {
                if self.lasts(wait).await {
                    self.respond(&self.seen())
                } else {
                    broken("")
                }
            }
            "stream" => self.stream(wait),
            "ask" => self.ask(),
            _ => self.respond(&self.seen()),
        }
    }

    /// Waits, then returns `true` if the session still exists.
    async fn lasts(&self, wait: Duration) -> bool {
        let Some(session) = &self.session else {
            sleep(wait).await;
            return true;
        };
        let mut over = session.over.subscribe();
        tokio::select! {
            () = sleep(wait) => true,
            _ = over.wait_for(|over| *over) => false,
        }
    }

    /// Sends progress, and the result after a delay.
    fn stream(self, wait: Duration) -> BoxResponse {
        let (answer, sender) = event_stream();
        tokio::spawn(async move {
            let params = json!({ "progressToken": self.message["params"]["_meta"]["progressToken"],
                "progress": 1 });
            let progress =
                json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
            _ = sender.send(event(&progress)).await;
            self.flood(&sender).await;
            if self.lasts(wait).await {
                let result = self.result(&self.seen());
                _ = sender.send(format!("data: {result}\n\n").into()).await;
            }
        });
        answer
    }

    /// Sends the requested number of 1 KiB log messages as fast as the client reads.
    async fn flood(&self, sender: &mpsc::Sender<Bytes>) {
        let count = self.message["params"]["arguments"]["flood"].as_u64().unwrap_or(0);
        for number in 0..count {
            let params = json!({ "level": "info", "data": [number, "x".repeat(1024)] });
            let said =
                json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params });
            if sender.send(event(&said)).await.is_err() {
                return;
            }
        }
    }

    /// Sends a server request, with an id that every server uses.
    fn ask(self) -> BoxResponse {
        let arguments = &self.message["params"]["arguments"];
        let question = json!({
            "mode": "form",
            "message": arguments["question"],
            "requestedSchema": { "type": "object", "properties": { "word": { "type": "string" } } },
        });
        let Some(session) = self.session.clone() else { return self.ask_by_result(&question) };
        let (answered, answer) = oneshot::channel();
        *lock(&session.question) = Some(answered);
        let (response, sender) = event_stream();
        tokio::spawn(async move {
            let question = json!({ "jsonrpc": "2.0", "id": 1, "method": "elicitation/create",
                "params": question });
            _ = sender.send(event(&question)).await;
            self.told(answer, &sender).await;
        });
        response
    }

    async fn told(&self, answer: oneshot::Receiver<Value>, sender: &mpsc::Sender<Bytes>) {
        let Ok(answer) = answer.await else { return };
        let content = json!({ "answer": answer, "backend": self.state.manners.name });
        let result = self.result(&format!(r#""content":[],"structuredContent":{content}"#));
        _ = sender.send(format!("data: {result}\n\n").into()).await;
    }

    fn ask_by_result(&self, question: &Value) -> BoxResponse {
        let params = &self.message["params"];
        if let Some(answers) = params.get("inputResponses") {
            let content = json!({ "answer": answers["1"], "state": params["requestState"],
                "backend": self.state.manners.name });
            return self.respond(&format!(r#""content":[],"structuredContent":{content}"#));
        }
        let result = json!({
            "resultType": "input_required",
            "inputRequests": { "1": { "method": "elicitation/create", "params": question } },
            "requestState": format!("state of {}", self.state.manners.name),
        });
        let message = json!({ "jsonrpc": "2.0", "id": self.message["id"], "result": result });
        json_answer(StatusCode::OK, &message)
    }

    /// Handles the response to the session's server request.
    fn answered(self) -> BoxResponse {
        let waiting = self.session.as_ref().and_then(|session| lock(&session.question).take());
        match waiting.filter(|_| self.message["id"] == 1) {
            Some(waiting) => {
                _ = waiting.send(self.message["result"].clone());
                whole(StatusCode::ACCEPTED, "application/json", "")
            }
            None => whole(StatusCode::BAD_REQUEST, "text/plain", "nobody asked"),
        }
    }

    /// Opens the `subscriptions/listen` stream of a stateless client.
    fn listen(self) -> BoxResponse {
        let (answer, sender) = event_stream();
        let mut changes = self.state.changes.subscribe();
        tokio::spawn(async move {
            let tag = json!({ "io.modelcontextprotocol/subscriptionId": self.message["id"] });
            let wanted = &self.message["params"]["notifications"];
            let said = json!({ "jsonrpc": "2.0",
                "method": "notifications/subscriptions/acknowledged",
                "params": { "_meta": tag, "notifications": wanted } });
            _ = sender.send(event(&said)).await;
            loop {
                let change = tokio::select! {
                    change = changes.recv() => change,
                    () = sender.closed() => return,
                };
                let Ok(method) = change else { return };
                let said =
                    json!({ "jsonrpc": "2.0", "method": method, "params": { "_meta": tag } });
                _ = sender.send(event(&said)).await;
            }
        });
        answer
    }
}
