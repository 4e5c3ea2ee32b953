//! Fake backends and clients of either generation.
//!
//! [`FakeBackend`] stands below HTTP, in the place of a backend's tower service, unlike the fake of `vmcp-test-support`: it
//! tells callers apart by the `Caller` in a request's extensions, and fails with the errors of a connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tower::ServiceExt;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::{
    BackendService, BackendSettings, Checks, CredentialAdvice, Limits, PartialFailure, Rules,
    ServiceWrapper, Settings, Sharing, Transport,
};
use vmcp_audit::Auditor;
use vmcp_core::{
    Backend, Body, BoxError, Caller, CallerPermissions, Generation, Identity, McpRequest,
    NotSentError, RequestContext,
};
use vmcp_seal::KeyRing;

use crate::responses::{body, event, respond, whole, whole_items};

/// Fake backend with offers by caller, each keyed by the member of the list's result.
pub(crate) struct FakeBackend {
    pub(crate) name: &'static str,
    pub(crate) generation: Mutex<Generation>,
    /// Offers by caller. `*` is the default for callers without an entry.
    pub(crate) offers: Mutex<BTreeMap<String, Value>>,
    /// Received requests: caller, method, and parameters.
    pub(crate) heard: Mutex<Vec<(String, String, Value)>>,
    /// Response behavior of the backend.
    pub(crate) behavior: Mutex<Behavior>,
    /// Behavior of its streams at their beginning.
    pub(crate) stream_start: Mutex<StreamStart>,
    /// Offer to clients of the stateless generation if it supports both; null makes the offer unavailable.
    pub(crate) stateless: Mutex<Option<Value>>,
    /// `true` to list both generations in discovery.
    pub(crate) lists_both: Mutex<bool>,
    /// `true` to declare list change notifications.
    pub(crate) tells: Mutex<bool>,
    /// Sessions with their owners, if the backend has any.
    pub(crate) sessions: Mutex<Option<Sessions>>,
    /// Revision negotiated by its handshakes.
    pub(crate) revision: Mutex<&'static str>,
    /// Open streams by owner.
    pub(crate) streams: Mutex<Vec<(String, UnboundedSender<Bytes>)>>,
}

/// Sessions by number.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    pub(crate) openers: Vec<String>,
    pub(crate) open: BTreeSet<usize>,
}

impl Sessions {
    fn open(&mut self, who: &str) -> String {
        self.openers.push(who.to_owned());
        self.open.insert(self.openers.len());
        format!("s{}", self.openers.len())
    }

    /// Returns the number of the request's session if it is open.
    fn of(&self, request: &Request<Full<Bytes>>) -> Option<usize> {
        let id = request.headers().get("mcp-session-id")?.to_str().ok()?;
        let number = id.strip_prefix('s')?.parse().ok()?;
        self.open.contains(&number).then_some(number)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    /// Responds normally.
    Normal,
    /// Unreachable.
    Unreachable,
    /// Never responds.
    Silent,
    /// Responds after this delay.
    Delayed(Duration),
}

/// Behavior of a notification stream at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamStart {
    Immediate,
    /// Never sends the head of the response.
    Never,
    /// Closes the connection.
    Broken,
    /// Responds with 404 because the route does not exist.
    Unrouted,
}

fn opens_stream(request: &Request<Full<Bytes>>) -> bool {
    let method = request.headers().get("mcp-method");
    request.method() == Method::GET || method.is_some_and(|name| name == "subscriptions/listen")
}

/// Returns the caller's name in recordings. An authenticated caller is named by its subject and token.
pub(crate) fn caller_name(caller: Option<&Caller>) -> String {
    match caller {
        Some(Caller::Gateway) => "gateway".to_owned(),
        Some(Caller::User(identity)) => {
            let subject = identity.subject().unwrap_or("nobody");
            let token = identity.token().map(|token| format!("#{}", token.expose_secret()));
            format!("{subject}{}", token.unwrap_or_default())
        }
        None => "nobody".to_owned(),
    }
}

impl FakeBackend {
    pub(crate) fn new(name: &'static str, generation: Generation) -> Arc<Self> {
        Arc::new(Self {
            name,
            generation: Mutex::new(generation),
            offers: Mutex::default(),
            heard: Mutex::default(),
            behavior: Mutex::new(Behavior::Normal),
            stateless: Mutex::default(),
            lists_both: Mutex::new(true),
            tells: Mutex::default(),
            sessions: Mutex::default(),
            revision: Mutex::new("2025-11-25"),
            stream_start: Mutex::new(StreamStart::Immediate),
            streams: Mutex::default(),
        })
    }

    /// Sets the offer to one caller, or to all with `*`.
    pub(crate) fn offer(self: Arc<Self>, to: &str, offer: Value) -> Arc<Self> {
        self.offers.lock().unwrap().insert(to.to_owned(), offer);
        self
    }

    /// Supports both generations, with this offer to clients of the stateless one.
    pub(crate) fn and_stateless(self: Arc<Self>, offer: Value) -> Arc<Self> {
        *self.stateless.lock().unwrap() = Some(offer);
        self
    }

    pub(crate) fn settings(self: &Arc<Self>) -> BackendSettings {
        let fake = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
            let fake = Arc::clone(&fake);
            async move { fake.answer(request).await }
        });
        BackendSettings {
            backend: Backend::new(self.name),
            uri: http::Uri::from_static("http://be.test/mcp"),
            transport: Transport::StreamableHttp,
            catalog: Sharing::Shared,
            service: BackendService::new(service),
            wrapper: ServiceWrapper::default(),
            breaker: None,
            credential_advice: CredentialAdvice::default(),
            message_timeout: Duration::from_secs(10),
            fingerprint: 0,
            service_revision: 0,
        }
    }

    /// Returns settings with per-caller offers.
    pub(crate) fn per_caller(self: &Arc<Self>) -> BackendSettings {
        BackendSettings { catalog: Sharing::PerCaller, ..self.settings() }
    }

    /// Returns the number of requests with this method by this caller.
    pub(crate) fn times(&self, method: &str, by: &str) -> usize {
        let heard = self.heard.lock().unwrap();
        heard.iter().filter(|(who, said, _)| said == method && who == by).count()
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> Result<Response<Body>, BoxError> {
        let who = caller_name(request.extensions().get());
        self.act_out().await?;
        let both = self.stateless.lock().unwrap().clone();
        let stateful = match both {
            None => *self.generation.lock().unwrap() == Generation::Stateful,
            Some(_) => !request.headers().contains_key("mcp-method"),
        };
        self.begin_stream(&request).await?;
        if let Some(refused) = self.refuse(&request, stateful) {
            return Ok(refused);
        }
        if request.method() == Method::GET && stateful {
            return Ok(self.open(who, &[]));
        }
        if request.method() != Method::POST {
            return Ok(status(StatusCode::METHOD_NOT_ALLOWED));
        }
        let message = request.into_body().collect().await?.to_bytes();
        self.respond(&serde_json::from_slice(&message)?, who, both.as_ref(), stateful)
    }

    /// Applies the failure mode before a request is processed.
    async fn act_out(&self) -> Result<(), BoxError> {
        let behavior = *self.behavior.lock().unwrap();
        match behavior {
            Behavior::Normal => {}
            Behavior::Unreachable => return Err(NotSentError::new("connection refused").into()),
            Behavior::Silent => std::future::pending().await,
            Behavior::Delayed(late) => tokio::time::sleep(late).await,
        }
        Ok(())
    }

    async fn begin_stream(&self, request: &Request<Full<Bytes>>) -> Result<(), BoxError> {
        let begins = *self.stream_start.lock().unwrap();
        match begins {
            StreamStart::Never if opens_stream(request) => std::future::pending().await,
            StreamStart::Broken if opens_stream(request) => Err("connection reset".into()),
            StreamStart::Immediate
            | StreamStart::Never
            | StreamStart::Broken
            | StreamStart::Unrouted => Ok(()),
        }
    }

    /// Returns the response to requests for a missing route or session, or that end a session.
    fn refuse(&self, request: &Request<Full<Bytes>>, stateful: bool) -> Option<Response<Body>> {
        if *self.stream_start.lock().unwrap() == StreamStart::Unrouted && opens_stream(request) {
            return Some(status(StatusCode::NOT_FOUND));
        }
        let mut sessions = self.sessions.lock().unwrap();
        let sessions = sessions.as_mut().filter(|_| stateful)?;
        match sessions.of(request) {
            Some(number) if request.method() == Method::DELETE => {
                sessions.open.remove(&number);
                Some(status(StatusCode::NO_CONTENT))
            }
            None if request.headers().contains_key("mcp-session-id") => {
                Some(status(StatusCode::NOT_FOUND))
            }
            Some(_) | None => None,
        }
    }

    fn respond(
        &self,
        message: &Value,
        who: String,
        both: Option<&Value>,
        stateful: bool,
    ) -> Result<Response<Body>, BoxError> {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        self.heard.lock().unwrap().push((who.clone(), method.clone(), message["params"].clone()));
        let Some(id) = message.get("id") else { return Ok(status(StatusCode::ACCEPTED)) };
        let offers = self.offers.lock().unwrap();
        let Some(offer) = offers.get(&who).or_else(|| offers.get("*")) else {
            let mut response = whole(&json!({"jsonrpc": "2.0", "id": id, "error":
                {"code": -32001, "message": "unauthorized"}}));
            *response.status_mut() = StatusCode::UNAUTHORIZED;
            return Ok(response);
        };
        let offer = both.filter(|_| !stateful).unwrap_or(offer);
        if offer.is_null() && method != "server/discover" {
            return Ok(status(StatusCode::INTERNAL_SERVER_ERROR));
        }
        if method == "tools/call" && message["params"]["name"] == "touch" {
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
            return Ok(telling(&answer));
        }
        let asks = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params":
            {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}});
        if method == "tools/call" && message["params"]["name"] == "ask" {
            return Ok(self.open(who, &[asks]));
        }
        if method == "subscriptions/listen" && !stateful {
            let known = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": {}}});
            return Ok(self.open(who, &[known]));
        }
        let answer = match self.result(&method, offer, &message["params"], (&who, !stateful)) {
            Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            None => json!({"jsonrpc": "2.0", "id": id, "error":
                {"code": -32601, "message": "method not found"}}),
        };
        let mut response = whole(&answer);
        if method == "initialize"
            && let Some(sessions) = &mut *self.sessions.lock().unwrap()
        {
            let session = sessions.open(&who);
            response.headers_mut().insert("mcp-session-id", session.parse()?);
        }
        Ok(response)
    }

    /// Opens a stream that begins with these messages.
    fn open(&self, who: String, first: &[Value]) -> Response<Body> {
        let (sender, body) = body();
        for message in first {
            sender.send(event(message)).unwrap();
        }
        self.streams.lock().unwrap().push((who, sender));
        respond(200, "text/event-stream", body)
    }

    /// Sends a message on all open streams of `who`.
    pub(crate) fn say(&self, who: &str, message: &Value) {
        let streams = self.streams.lock().unwrap();
        for (_, stream) in streams.iter().filter(|(opener, _)| opener == who) {
            _ = stream.send(event(message));
        }
    }

    /// Returns the number of open streams of `who`.
    pub(crate) fn open_streams(&self, who: &str) -> usize {
        let streams = self.streams.lock().unwrap();
        streams.iter().filter(|(opener, stream)| opener == who && !stream.is_closed()).count()
    }

    fn result(
        &self,
        method: &str,
        offer: &Value,
        params: &Value,
        (who, stateless): (&str, bool),
    ) -> Option<Value> {
        let both = self.stateless.lock().unwrap().is_some() && *self.lists_both.lock().unwrap();
        let versions = if both { &["2026-07-28", "2025-11-25"][..] } else { &["2026-07-28"] };
        let tools = json!({"listChanged": *self.tells.lock().unwrap()});
        let capabilities =
            json!({"tools": tools, "prompts": {}, "resources": {}, "completions": {}});
        let list = |member: &str| {
            json!({member: whole_items(member, offer.get(member).cloned().unwrap_or_else(|| json!([]))),
                   "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
        };
        let done = json!({"content": [{"type": "text", "text": format!("{}:{who}", self.name)}],
                          "asked": params, "resultType": "complete"});
        Some(match method {
            "server/discover" if stateless => json!({"supportedVersions": versions,
                "capabilities": capabilities, "resultType": "complete"}),
            "initialize" if !stateless => json!({"protocolVersion": *self.revision.lock().unwrap(),
                "capabilities": capabilities, "serverInfo": {"name": self.name, "version": "1"}}),
            "completion/complete" if params["ref"]["name"] == "mute" => return None,
            "tools/list" => list("tools"),
            "prompts/list" => list("prompts"),
            "resources/list" => list("resources"),
            "resources/templates/list" => list("resourceTemplates"),
            "tools/call"
            | "prompts/get"
            | "resources/read"
            | "completion/complete"
            | "resources/subscribe"
            | "resources/unsubscribe" => done,
            _ => return None,
        })
    }
}

/// Builds a response that is preceded by a tool list change notification.
fn telling(answer: &Value) -> Response<Body> {
    let news = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let events = format!("data: {news}\n\ndata: {answer}\n\n");
    respond(200, "text/event-stream", Body::from(Bytes::from(events)))
}

fn status(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

/// Creates a gateway with these backends.
pub(crate) async fn gateway(backends: &[Arc<FakeBackend>]) -> Gateway {
    with(backends.iter().map(FakeBackend::settings).collect(), PartialFailure::BestEffort).await
}

/// Creates a gateway with backends of these settings.
pub(crate) async fn with(
    backends: Vec<BackendSettings>,
    partial_failure: PartialFailure,
) -> Gateway {
    with_checks(backends, partial_failure, None).await
}

/// Builds the settings of a gateway with these backends.
pub(crate) fn settings(
    backends: Vec<BackendSettings>,
    partial_failure: PartialFailure,
    checks: Option<Checks>,
) -> Settings {
    Settings {
        name: "gw".to_owned(),
        version: "1".to_owned(),
        backends,
        rules: Rules::default(),
        partial_failure,
        checks,
        optimizer: None,
    }
}

/// Creates a gateway with health checks of these backends.
pub(crate) async fn with_checks(
    backends: Vec<BackendSettings>,
    partial_failure: PartialFailure,
    checks: Option<Checks>,
) -> Gateway {
    begin(settings(backends, partial_failure, checks), Limits::default()).await
}

/// Creates a gateway with these backends and limits.
pub(crate) async fn with_limits(backends: Vec<BackendSettings>, limits: Limits) -> Gateway {
    begin(settings(backends, PartialFailure::BestEffort, None), limits).await
}

pub(crate) async fn begin(settings: Settings, limits: Limits) -> Gateway {
    let ring = KeyRing::ephemeral(limits.clock.clone()).unwrap();
    begin_replica(settings, limits, ring).await
}

/// Creates a gateway that shares a key ring with others.
pub(crate) async fn begin_replica(settings: Settings, limits: Limits, ring: KeyRing) -> Gateway {
    let gateway = Gateway::new(settings, limits, ring);
    gateway.wait_ready().await;
    gateway
}

/// Client of either generation.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) gateway: Gateway,
    pub(crate) generation: Generation,
    pub(crate) identity: Identity,
    pub(crate) permissions: Option<CallerPermissions>,
    /// Capabilities sent in each request of a client without a session.
    pub(crate) capabilities: Value,
    /// Address of the client, if known.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) session: Option<http::HeaderValue>,
    /// Auditor of the requests, as the audit layer inserts it.
    pub(crate) auditor: Option<Auditor>,
}

/// Outcome of a request.
#[derive(Debug)]
pub(crate) struct ClientResponse {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
    pub(crate) response: http::response::Parts,
    pub(crate) request_context: RequestContext,
}

impl Client {
    pub(crate) async fn new(gateway: &Gateway, generation: Generation, subject: &str) -> Self {
        let capabilities = match generation {
            Generation::Stateful => json!({}),
            Generation::Stateless => json!({"elicitation": {}}),
        };
        Self::declaring(gateway, generation, subject, capabilities).await
    }

    /// Creates a client with these capabilities.
    pub(crate) async fn declaring(
        gateway: &Gateway,
        generation: Generation,
        subject: &str,
        capabilities: Value,
    ) -> Self {
        let identity = match subject {
            "" => Identity::anonymous(),
            subject => Identity::new("https://idp.test", subject),
        };
        let gateway = gateway.clone();
        let mut client = Self {
            gateway,
            generation,
            identity,
            permissions: None,
            capabilities,
            address: None,
            session: None,
            auditor: None,
        };
        if generation == Generation::Stateful {
            let hello = json!({"protocolVersion": "2025-11-25", "capabilities": client.capabilities,
                               "clientInfo": {"name": "c", "version": "1"}});
            let said = client.ask("initialize", hello).await;
            client.session = said.response.headers.get("mcp-session-id").cloned();
            assert!(client.session.is_some(), "{said:?}");
        }
        client
    }

    pub(crate) fn with(mut self, permissions: CallerPermissions) -> Self {
        self.permissions = Some(permissions);
        self
    }

    pub(crate) fn audited(mut self, auditor: Auditor) -> Self {
        self.auditor = Some(auditor);
        self
    }

    /// Sends the next requests to another replica.
    pub(crate) fn on(mut self, gateway: &Gateway) -> Self {
        self.gateway = gateway.clone();
        self
    }

    /// Sets the client's address.
    pub(crate) fn at(mut self, address: &str) -> Self {
        self.address = Some(SocketAddr::new(address.parse().unwrap(), 1));
        self
    }

    /// Sets the remaining lifetime of the token.
    pub(crate) fn until(mut self, left: Duration) -> Self {
        let known = Identity::builder("https://idp.test", self.identity.subject().unwrap());
        self.identity = known.expires_at(std::time::SystemTime::now() + left).build();
        self
    }

    /// Opens the notification stream of a session.
    pub(crate) async fn stand(&self) -> Body {
        let mut request = Request::get("/mcp").body(()).unwrap();
        request.headers_mut().insert("accept", "text/event-stream".parse().unwrap());
        request.headers_mut().insert("mcp-session-id", self.session.clone().unwrap());
        request.extensions_mut().insert(self.identity.clone());
        let Ok(response) = self.gateway.clone().oneshot(request).await;
        assert_eq!(response.status(), 200);
        response.into_body()
    }

    /// Sends a request and returns the open response with its record.
    pub(crate) async fn send(
        &self,
        method: &str,
        mut params: Value,
    ) -> (Response<Body>, RequestContext) {
        let mut request = Request::post("/mcp").body(()).unwrap();
        if self.generation == Generation::Stateless {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "c", "version": "1"});
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let bytes = Bytes::from(message.to_string());
        let envelope = vmcp_wire::scan(&bytes).unwrap();
        let extensions = request.extensions_mut();
        extensions.insert(McpRequest { bytes, envelope, generation: self.generation });
        let request_context = RequestContext::of(extensions);
        if !self.identity.is_anonymous() {
            extensions.insert(self.identity.clone());
        }
        if let Some(permissions) = &self.permissions {
            extensions.insert(permissions.clone());
        }
        if let Some(address) = self.address {
            extensions.insert(address);
        }
        if let Some(auditor) = &self.auditor {
            extensions.insert(auditor.clone());
        }
        if let Some(session) = &self.session {
            request.headers_mut().insert("mcp-session-id", session.clone());
        }
        let Ok(response) = self.gateway.clone().oneshot(request).await;
        (response, request_context)
    }

    pub(crate) async fn ask(&self, method: &str, params: Value) -> ClientResponse {
        let (response, request_context) = self.send(method, params).await;
        let (response, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        ClientResponse { status: response.status.as_u16(), body, response, request_context }
    }

    /// Returns the names in a list, or the error.
    pub(crate) async fn names(&self, method: &str) -> Vec<String> {
        let said = self.ask(method, json!({})).await;
        let result = &said.json()["result"];
        let lists = ["tools", "prompts", "resources", "resourceTemplates"];
        let list = lists.iter().find_map(|member| result[member].as_array());
        let list = list.unwrap_or_else(|| panic!("no list: {said:?}"));
        let key = |item: &Value| {
            ["uri", "uriTemplate", "name"]
                .iter()
                .find_map(|key| item[key].as_str())
                .map(str::to_owned)
        };
        list.iter().filter_map(key).collect()
    }

    /// Returns the text of a tool's result, if there is any.
    pub(crate) async fn call(&self, tool: &str) -> Option<String> {
        let said = self.ask("tools/call", json!({"name": tool, "arguments": {}})).await;
        said.json()["result"]["content"][0]["text"].as_str().map(str::to_owned)
    }
}

impl ClientResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Returns the text sent on a stream within a second.
pub(crate) async fn heard(stream: &mut Body) -> String {
    let mut said = String::new();
    let read = async {
        while let Some(frame) = stream.frame().await {
            said += &String::from_utf8_lossy(&frame.unwrap().into_data().unwrap());
        }
    };
    _ = tokio::time::timeout(Duration::from_secs(1), read).await;
    said
}
