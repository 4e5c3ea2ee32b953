//! Scripted backend of any transport whose calls are answered by the test, and a client that chooses its request ids.
//!
//! [`ScriptedBackend`] stands below HTTP like [`FakeBackend`](crate::fake::FakeBackend). Its tests reach into its sessions and
//! streams, and measure on the paused clock when each message arrives and leaves.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tower::{Layer, ServiceExt};
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::{
    BackendService, BackendSettings, CredentialAdvice, ServiceWrapper, Sharing, Transport,
};
use vmcp_breaker::{CircuitBreakerLayer, CircuitHandle};
use vmcp_core::{
    Backend, Body, BoxError, Generation, Identity, McpRequest, NotSentError, RequestContext,
};
use vmcp_timeout::TimeoutLayer;

use crate::responses::{Frames, endless, event, respond, whole, whole_items};

/// Timeout of the gateway for a backend's next message.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Protocol and transport of a scripted backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wire {
    Stateful,
    Stateless,
    Sse,
}

/// Time of the response to a call.
type AnsweredAt = Arc<Mutex<Option<Instant>>>;

/// Backend that handles handshakes and lists by itself and hands calls to the test.
pub(crate) struct ScriptedBackend {
    pub(crate) name: &'static str,
    pub(crate) wire: Wire,
    pub(crate) offer: Mutex<Value>,
    pub(crate) received: Mutex<Vec<Value>>,
    /// Open sessions with their notification streams.
    pub(crate) sessions: Mutex<BTreeMap<String, Vec<UnboundedSender<Bytes>>>>,
    /// Methods in addition to `tools/call` that are handed to the test.
    pub(crate) by_hand: Mutex<Vec<&'static str>>,
    /// `true` to never end the responses to notifications and client responses.
    pub(crate) endless: Mutex<bool>,
    /// `true` if the backend is unreachable.
    pub(crate) is_away: AtomicBool,
    calls: UnboundedSender<PendingCall>,
    serial: AtomicU64,
    began: Instant,
    /// Calls by session and id, with the time of the response.
    record: Mutex<BTreeMap<(String, String), AnsweredAt>>,
    /// One clone for each request and open stream.
    in_flight: Arc<()>,
}

/// Request that waits for the test's response. Dropping it leaves the request without one.
pub(crate) struct PendingCall {
    pub(crate) session: String,
    pub(crate) message: Value,
    reply: Reply,
    in_flight: Weak<()>,
    /// Time of the response.
    answered: AnsweredAt,
}

enum Reply {
    Head(oneshot::Sender<Response<Body>>),
    Stream(UnboundedSender<Bytes>),
    Over,
}

impl PendingCall {
    /// Sends a message on the call's stream, opening it if necessary. Returns `true` if the stream is open.
    pub(crate) fn say(&mut self, message: &Value) -> bool {
        let event = event(message);
        match std::mem::replace(&mut self.reply, Reply::Over) {
            Reply::Head(head) => {
                let (sender, receiver) = unbounded_channel();
                _ = sender.send(event);
                let body = Body::wrap(Frames(receiver, self.in_flight.upgrade()));
                self.reply = Reply::Stream(sender);
                head.send(respond(200, "text/event-stream", body)).is_ok()
            }
            Reply::Stream(stream) => {
                let sent = stream.send(event).is_ok();
                self.reply = Reply::Stream(stream);
                sent
            }
            Reply::Over => false,
        }
    }

    /// Sends raw bytes on the call's stream, which must be open.
    pub(crate) fn say_raw(&mut self, text: &str) {
        let Reply::Stream(stream) = &self.reply else { panic!("no stream is open") };
        _ = stream.send(Bytes::copy_from_slice(text.as_bytes()));
    }

    fn outcome(&self, name: &str, value: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.message["id"], name: value})
    }

    /// Responds with a result, as JSON unless a stream is open.
    pub(crate) fn answer(mut self, result: &Value) -> bool {
        let message = self.outcome("result", result);
        let sent = match std::mem::replace(&mut self.reply, Reply::Over) {
            Reply::Head(head) => head.send(whole(&message)).is_ok(),
            Reply::Stream(stream) => stream.send(event(&message)).is_ok(),
            Reply::Over => false,
        };
        self.note_answer(sent);
        sent
    }

    fn note_answer(&self, sent: bool) {
        if sent {
            *self.answered.lock().unwrap() = Some(Instant::now());
        }
    }

    /// Responds with an error.
    pub(crate) fn refuse_with(mut self, code: i64) {
        let message = self.outcome("error", &json!({"code": code, "message": "no"}));
        let reply = std::mem::replace(&mut self.reply, Reply::Over);
        let Reply::Head(head) = reply else { panic!("the answer has begun") };
        self.note_answer(head.send(whole(&message)).is_ok());
    }

    /// Responds with an HTTP status and no body.
    pub(crate) fn refuse(mut self, code: u16) {
        let reply = std::mem::replace(&mut self.reply, Reply::Over);
        let Reply::Head(head) = reply else { panic!("the answer has begun") };
        self.note_answer(head.send(respond(code, "text/plain", Body::empty())).is_ok());
    }

    /// Responds with this body, without a content length.
    pub(crate) fn respond(self, code: u16, media: &'static str, body: Body) {
        let Reply::Head(head) = self.reply else { panic!("the answer has begun") };
        _ = head.send(respond(code, media, body));
    }

    /// Returns `true` if a stream is open or the response has been sent.
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(self.reply, Reply::Head(_))
    }

    /// Returns `true` if the gateway has dropped the request.
    pub(crate) fn is_gone(&self) -> bool {
        match &self.reply {
            Reply::Head(head) => head.is_closed(),
            Reply::Stream(stream) => stream.is_closed(),
            Reply::Over => true,
        }
    }
}

impl ScriptedBackend {
    pub(crate) fn new(
        name: &'static str,
        wire: Wire,
    ) -> (Arc<Self>, UnboundedReceiver<PendingCall>) {
        let (calls, pending) = unbounded_channel();
        let offer = json!({"tools": [{"name": "t"}, {"name": "look", "annotations":
            {"readOnlyHint": true}}], "resources": [{"uri": "x://r", "name": "r"},
            {"uri": format!("x://{name}"), "name": name}]});
        let backend = Self {
            name,
            wire,
            offer: Mutex::new(offer),
            received: Mutex::default(),
            sessions: Mutex::default(),
            by_hand: Mutex::default(),
            endless: Mutex::default(),
            is_away: AtomicBool::new(false),
            calls,
            serial: AtomicU64::new(1),
            began: Instant::now(),
            record: Mutex::default(),
            in_flight: Arc::default(),
        };
        (Arc::new(backend), pending)
    }

    pub(crate) fn settings(self: &Arc<Self>, breaker: Option<CircuitHandle>) -> BackendSettings {
        let backend = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
            let backend = Arc::clone(&backend);
            async move { backend.serve(request).await }
        });
        let stack = TimeoutLayer::new(LIMIT).layer(service);
        let inner = breaker.clone().filter(|_| self.wire != Wire::Sse);
        let service = match inner {
            Some(breaker) => BackendService::new(CircuitBreakerLayer::new(breaker).layer(stack)),
            None => BackendService::new(stack),
        };
        BackendSettings {
            backend: Backend::new(self.name),
            uri: http::Uri::from_static("http://be.test/mcp"),
            transport: match self.wire {
                Wire::Sse => Transport::Sse,
                Wire::Stateful | Wire::Stateless => Transport::StreamableHttp,
            },
            catalog: Sharing::Shared,
            service,
            wrapper: ServiceWrapper::default(),
            breaker,
            credential_advice: CredentialAdvice::default(),
            message_timeout: LIMIT,
            fingerprint: 0,
            service_revision: 0,
        }
    }

    /// Returns the messages with this method; responses have none.
    pub(crate) fn messages(&self, method: &str) -> Vec<Value> {
        let received = self.received.lock().unwrap();
        let is = |message: &Value| message["method"].as_str().unwrap_or_default() == method;
        received.iter().filter(|it| is(it)).cloned().collect()
    }

    /// Returns the reasons of the cancellations.
    pub(crate) fn cancellations(&self) -> Vec<String> {
        let reason = |it: &Value| it["params"]["reason"].as_str().unwrap_or("none").to_owned();
        self.messages("notifications/cancelled").iter().map(reason).collect()
    }

    /// Returns the number of open notification streams.
    pub(crate) fn standing(&self) -> usize {
        let sessions = self.sessions.lock().unwrap();
        sessions.values().flatten().filter(|stream| !stream.is_closed()).count()
    }

    /// Returns the messages sent in open sessions.
    pub(crate) fn said_in_open_sessions(&self) -> String {
        let sessions = self.sessions.lock().unwrap();
        let received = self.received.lock().unwrap();
        let of_open = |it: &&Value| {
            it["session"].as_str().is_some_and(|session| sessions.contains_key(session))
        };
        let said = received.iter().filter(of_open);
        let said = said.filter(|it| !matches!(it["method"].as_str(), Some("ping" | "tools/list")));
        said.map(Value::to_string).collect::<Vec<_>>().join("\n")
    }

    /// Returns the number of open sessions. An HTTP+SSE session ends with its stream.
    pub(crate) fn open_sessions(&self) -> usize {
        let sessions = self.sessions.lock().unwrap();
        let open = |streams: &&Vec<UnboundedSender<Bytes>>| {
            self.wire != Wire::Sse || streams.iter().any(|stream| !stream.is_closed())
        };
        sessions.values().filter(open).count()
    }

    /// Returns the number of open requests and streams.
    pub(crate) fn in_flight(&self) -> usize {
        Arc::strong_count(&self.in_flight) - 1
    }

    /// Returns the calls with the times of their cancellations and of their response.
    pub(crate) fn outcomes(&self) -> Vec<(String, Vec<Duration>, Option<Duration>)> {
        let cancelled = self.messages("notifications/cancelled");
        let record = self.record.lock().unwrap();
        let outcome = |((session, id), answered): (&(String, String), &AnsweredAt)| {
            let cancels = cancelled.iter().filter(|it| {
                let cancelled = it["params"]["requestId"].to_string();
                it["session"] == **session && cancelled == *id
            });
            let at = |it: &Value| Duration::from_millis(it["at"].as_u64().unwrap());
            let answered = answered.lock().unwrap().map(|at| at - self.began);
            (format!("{session} {id}"), cancels.map(at).collect(), answered)
        };
        record.iter().map(outcome).collect()
    }

    /// Returns `true` if the server request with this id has a response.
    pub(crate) fn has_answer(&self, id: &str) -> bool {
        self.received.lock().unwrap().iter().any(|it| it["method"].is_null() && it["id"] == id)
    }

    /// Removes all sessions and closes their streams.
    pub(crate) fn forget_sessions(&self) {
        self.sessions.lock().unwrap().clear();
    }

    /// Closes all notification streams. An HTTP+SSE session ends with its stream.
    pub(crate) fn cut_streams(&self) {
        if self.wire == Wire::Sse {
            return self.forget_sessions();
        }
        self.sessions.lock().unwrap().values_mut().for_each(Vec::clear);
    }

    /// Sends a message on all notification streams.
    pub(crate) fn announce(&self, message: &Value) {
        let sessions = self.sessions.lock().unwrap();
        for stream in sessions.values().flatten() {
            _ = stream.send(event(message));
        }
    }

    /// Sends a message on the latest notification stream of a session.
    pub(crate) fn announce_in(&self, session: &str, message: &Value) {
        let sessions = self.sessions.lock().unwrap();
        _ = sessions[session].last().unwrap().send(event(message));
    }

    async fn serve(&self, request: Request<Full<Bytes>>) -> Result<Response<Body>, BoxError> {
        let _in_flight = Arc::clone(&self.in_flight);
        let header = request.headers().get("mcp-session-id");
        let header = header.map(|id| id.to_str().unwrap().to_owned());
        let posted = request.uri().query().and_then(|query| query.strip_prefix("s="));
        let session = posted.map(str::to_owned).or(header).unwrap_or_default();
        if self.is_away.load(Ordering::Relaxed) {
            if request.method() == Method::DELETE {
                // The client has fulfilled its duty to end the session.
                self.sessions.lock().unwrap().remove(&session);
            }
            return Err(NotSentError::new("connection refused").into());
        }
        match *request.method() {
            Method::GET => {
                let last = request.headers().get("last-event-id");
                let last = last.map(|last| last.to_str().unwrap().to_owned());
                self.received.lock().unwrap().push(json!({"method": "GET", "last": last}));
                return Ok(self.stand(session));
            }
            Method::DELETE => {
                let message = json!({"method": "DELETE"});
                self.received.lock().unwrap().push(message);
                self.sessions.lock().unwrap().remove(&session);
                return Ok(respond(204, "text/plain", Body::empty()));
            }
            _ => {}
        }
        let bytes = request.into_body().collect().await?.to_bytes();
        let mut message: Value = serde_json::from_slice(&bytes).unwrap();
        message["session"] = json!(session);
        message["at"] = json!(u64::try_from(self.began.elapsed().as_millis()).unwrap());
        self.received.lock().unwrap().push(message.clone());
        let opens = message["method"] == "initialize";
        let known = self.sessions.lock().unwrap().contains_key(&session);
        if self.wire != Wire::Stateless && !known && !opens {
            let stateless = message["method"] == "server/discover";
            return Ok(respond(if stateless { 400 } else { 404 }, "text/plain", Body::empty()));
        }
        let response = self.reply(&session, message).await?;
        Ok(response)
    }

    fn stand(&self, mut session: String) -> Response<Body> {
        if self.wire == Wire::Stateless {
            return respond(405, "text/plain", Body::empty());
        }
        let known = self.sessions.lock().unwrap().contains_key(&session);
        if self.wire == Wire::Stateful && !known {
            return respond(
                if session.is_empty() { 400 } else { 404 },
                "text/plain",
                Body::empty(),
            );
        }
        let (sender, receiver) = unbounded_channel();
        if self.wire == Wire::Sse {
            session = format!("s{}", self.serial.fetch_add(1, Ordering::Relaxed));
            _ = sender.send(format!("event: endpoint\ndata: /post?s={session}\n\n").into());
        }
        self.sessions.lock().unwrap().entry(session).or_default().push(sender);
        respond(
            200,
            "text/event-stream",
            Body::wrap(Frames(receiver, Some(Arc::clone(&self.in_flight)))),
        )
    }

    /// Returns the response stream of an HTTP+SSE session.
    fn answers_on(&self, session: &str) -> Option<UnboundedSender<Bytes>> {
        if self.wire != Wire::Sse {
            return None;
        }
        self.sessions.lock().unwrap().get(session)?.first().cloned()
    }

    async fn reply(&self, session: &str, message: Value) -> Result<Response<Body>, BoxError> {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        if method.is_empty() || message.get("id").is_none() {
            if *self.endless.lock().unwrap() {
                return Ok(respond(200, "text/event-stream", endless()));
            }
            return Ok(respond(202, "text/plain", Body::empty()));
        }
        let stream = self.answers_on(session);
        let by_hand = self.by_hand.lock().unwrap().iter().any(|it| *it == method);
        if method == "tools/call" || by_hand {
            let (head, responded) = oneshot::channel();
            let (reply, over) = match stream {
                Some(stream) => (Reply::Stream(stream), true),
                None => (Reply::Head(head), false),
            };
            let session = session.to_owned();
            let answered = AnsweredAt::default();
            let key = (session.clone(), message["id"].to_string());
            self.record.lock().unwrap().insert(key, Arc::clone(&answered));
            _ = self.calls.send(PendingCall {
                session,
                message,
                reply,
                answered,
                in_flight: Arc::downgrade(&self.in_flight),
            });
            if over {
                return Ok(respond(202, "text/plain", Body::empty()));
            }
            // A call that the test drops has no response.
            return match responded.await {
                Ok(response) => Ok(response),
                Err(_) => std::future::pending().await,
            };
        }
        let mut opened = None;
        if method == "initialize" && self.wire == Wire::Stateful {
            let id = format!("s{}", self.serial.fetch_add(1, Ordering::Relaxed));
            self.sessions.lock().unwrap().insert(id.clone(), Vec::new());
            opened = HeaderValue::from_str(&id).ok();
        }
        let answer = match self.result(&method) {
            Some(result) => json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
            None => json!({"jsonrpc": "2.0", "id": message["id"], "error":
                {"code": -32601, "message": "method not found"}}),
        };
        if let Some(stream) = stream {
            _ = stream.send(event(&answer));
            return Ok(respond(202, "text/plain", Body::empty()));
        }
        let mut response = whole(&answer);
        if let Some(id) = opened {
            response.headers_mut().insert("mcp-session-id", id);
        }
        Ok(response)
    }

    fn result(&self, method: &str) -> Option<Value> {
        let stateless = self.wire == Wire::Stateless;
        let capabilities = json!({"tools": {"listChanged": true}, "logging": {},
            "resources": {"subscribe": true}});
        let list = |member: &str| {
            let offer = self.offer.lock().unwrap();
            json!({member: whole_items(member, offer.get(member).cloned().unwrap_or_else(|| json!([]))),
                   "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
        };
        Some(match method {
            "server/discover" if stateless => json!({"supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "resources": {}}, "resultType": "complete"}),
            "initialize" if !stateless => json!({"protocolVersion": "2025-11-25",
                "capabilities": capabilities, "serverInfo": {"name": self.name, "version": "1"}}),
            "tools/list" => list("tools"),
            "prompts/list" => list("prompts"),
            "resources/list" => list("resources"),
            "resources/templates/list" => list("resourceTemplates"),
            "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe"
                if !stateless =>
            {
                json!({})
            }
            _ => return None,
        })
    }
}

/// Client that chooses its request ids.
#[derive(Clone)]
pub(crate) struct ScriptedClient {
    gateway: Gateway,
    pub(crate) generation: Generation,
    pub(crate) identity: Identity,
    pub(crate) session: Option<HeaderValue>,
    /// Record attached to its requests.
    pub(crate) request_context: Option<RequestContext>,
}

impl ScriptedClient {
    pub(crate) async fn new(gateway: &Gateway, generation: Generation, subject: &str) -> Self {
        let identity = Identity::new("https://idp.test", subject);
        let mut client = Self {
            gateway: gateway.clone(),
            generation,
            identity,
            session: None,
            request_context: None,
        };
        if generation == Generation::Stateful {
            let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
                               "clientInfo": {"name": "c", "version": "1"}});
            let response = client.request(&json!(0), "initialize", hello).await;
            client.session = response.headers().get("mcp-session-id").cloned();
            assert!(client.session.is_some());
        }
        client
    }

    /// Sends the next requests to another replica.
    pub(crate) fn on(mut self, gateway: &Gateway) -> Self {
        self.gateway = gateway.clone();
        self
    }

    pub(crate) async fn request(
        &self,
        id: &Value,
        method: &str,
        mut params: Value,
    ) -> Response<Body> {
        if self.generation == Generation::Stateless {
            let mut meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
            });
            if let Some(token) = params["_meta"].get("progressToken") {
                meta["progressToken"] = token.clone();
            }
            params["_meta"] = meta;
        }
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.post(&message).await
    }

    /// Calls a tool of the backend `be`.
    pub(crate) async fn call(&self, id: u64, tool: &str) -> Response<Body> {
        let params =
            json!({"name": format!("be_{tool}"), "arguments": {}, "_meta": {"progressToken": id}});
        self.request(&json!(id), "tools/call", params).await
    }

    /// Calls a tool, and reads the response to its end.
    pub(crate) fn begin(&self, id: u64, tool: &'static str) -> tokio::task::JoinHandle<String> {
        let client = self.clone();
        tokio::spawn(async move { text(client.call(id, tool).await.into_body()).await })
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) -> Response<Body> {
        self.post(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await
    }

    /// Responds to a server request.
    pub(crate) async fn reply(&self, id: &Value, result: Value) -> Response<Body> {
        self.post(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await
    }

    pub(crate) async fn post(&self, message: &Value) -> Response<Body> {
        self.post_text(message.to_string()).await
    }

    /// Sends a message that may have numbers beyond those of [`Value`].
    pub(crate) async fn post_text(&self, message: String) -> Response<Body> {
        let mut request = Request::post("/mcp").body(()).unwrap();
        let bytes = Bytes::from(message);
        let envelope = vmcp_wire::scan(&bytes).unwrap();
        let message = McpRequest { bytes, envelope, generation: self.generation };
        request.extensions_mut().insert(message);
        self.send(request).await
    }

    /// Opens the notification stream, or resumes it after `last`.
    pub(crate) async fn stand(&self, last: Option<&str>) -> Response<Body> {
        let mut request = Request::get("/mcp").body(()).unwrap();
        request.headers_mut().insert("accept", HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last {
            request.headers_mut().insert("last-event-id", last.parse().unwrap());
        }
        self.send(request).await
    }

    pub(crate) async fn leave(&self) -> u16 {
        self.send(Request::delete("/mcp").body(()).unwrap()).await.status().as_u16()
    }

    async fn send(&self, mut request: Request<()>) -> Response<Body> {
        request.extensions_mut().insert(self.identity.clone());
        if let Some(request_context) = &self.request_context {
            request.extensions_mut().insert(request_context.clone());
        }
        if let Some(session) = &self.session {
            request.headers_mut().insert("mcp-session-id", session.clone());
        }
        let Ok(response) = self.gateway.clone().oneshot(request).await;
        response
    }
}

/// Reads a body to its end.
pub(crate) async fn text(body: Body) -> String {
    String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Parses the messages in a body, either JSON or events.
pub(crate) fn messages(text: &str) -> Vec<Value> {
    if text.starts_with('{') {
        return vec![serde_json::from_str(text).unwrap()];
    }
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect()
}
