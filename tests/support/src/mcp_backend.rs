//! Fake MCP server of either generation and transport.

mod builder;
mod catalog;
mod defaults;
mod dispatch;
mod pending_request;
mod response;
mod state;

pub use self::builder::McpBackendBuilder;
pub use self::pending_request::PendingRequest;
pub use self::response::{broken_response, full_response, json_response, unframed_response};
pub use self::state::RecordedRequest;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;

use self::state::{State, lock};
use crate::http_listener::{BoxResponse, HttpListener};

/// Header with the id of a session.
const SESSION: &str = "mcp-session-id";

/// Header with the revision of MCP.
const VERSION: &str = "mcp-protocol-version";

/// Revision of the stateless generation.
const STATELESS: &str = "2026-07-28";

/// Fake MCP server, on loopback or without a socket. It handles handshakes, sessions and lists; handlers of methods and
/// tools define the rest. Dropping it breaks its connections.
#[derive(Debug)]
pub struct McpBackend {
    state: Arc<State>,
    /// `None` while the server is down, or without a socket.
    listener: Option<HttpListener>,
    address: SocketAddr,
}

/// Generation and transport of a fake server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// MCP 2025-11-25, with sessions.
    Stateful,
    /// MCP 2026-07-28.
    Stateless,
    /// Both of these.
    Both,
    /// The deprecated HTTP+SSE transport (MCP 2024-11-05).
    LegacySse,
}

/// Response behavior of a fake server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behavior {
    /// Requests get a normal response.
    Normal,
    /// Responses wait until the behavior changes.
    Hung,
    /// Responses are late.
    Delayed(Duration),
    /// Requests get this status.
    Status(StatusCode),
}

/// Rejection of an unknown session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionLoss {
    /// 404, as required by MCP 2025-11-25.
    NotFound,
    /// 400 with error -32000 and without an id, as sent by deployed servers.
    BadRequest,
}

impl Protocol {
    /// Returns a short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stateful => "stateful",
            Self::Stateless => "stateless",
            Self::Both => "both",
            Self::LegacySse => "sse",
        }
    }

    /// Returns the transport's name in a configuration of vmcp.
    #[must_use]
    pub fn transport(self) -> &'static str {
        if self == Self::LegacySse { "sse" } else { "streamable-http" }
    }
}

impl McpBackend {
    /// Returns a builder of a server with this protocol, without tools.
    pub fn builder(protocol: Protocol) -> McpBackendBuilder {
        McpBackendBuilder::new(protocol)
    }

    /// Starts a server of the stateful generation with tools of these names, each of which returns the text `done`.
    #[must_use]
    pub fn stateful(tools: &[&str]) -> Self {
        Self::builder(Protocol::Stateful).tools(tools).start()
    }

    /// Starts a server of the stateless generation with tools of these names, each of which returns the text `done`.
    #[must_use]
    pub fn stateless(tools: &[&str]) -> Self {
        Self::builder(Protocol::Stateless).tools(tools).start()
    }

    /// Starts a server of both generations with tools of these names for the clients of each.
    #[must_use]
    pub fn both(stateful_tools: &[&str], stateless_tools: &[&str]) -> Self {
        Self::builder(Protocol::Both).tools(stateless_tools).stateful_tools(stateful_tools).start()
    }

    fn new(state: State) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self { state: Arc::new(state), listener: None, address }
    }

    fn listen(&mut self, port: u16) -> io::Result<()> {
        let state = Arc::clone(&self.state);
        let listener = HttpListener::start(port, move |request: Request<_>| {
            let state = Arc::clone(&state);
            async move {
                let (parts, body) = request.into_parts();
                match BodyExt::collect(body).await {
                    Ok(body) => {
                        let request = Request::from_parts(parts, body.to_bytes());
                        dispatch::handle(state, request).await
                    }
                    Err(_) => full_response(StatusCode::BAD_REQUEST, "text/plain", "no body"),
                }
            }
        })?;
        self.address = listener.address();
        self.listener = Some(listener);
        Ok(())
    }

    /// Handles a request without a socket. A response that never comes is a pending future.
    pub async fn handle(&self, request: Request<Bytes>) -> BoxResponse {
        dispatch::handle(Arc::clone(&self.state), request).await
    }

    /// Returns the URL of the endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        let path = if self.state.settings.protocol == Protocol::LegacySse { "sse" } else { "mcp" };
        format!("http://{}/{path}", self.address)
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.settings.name
    }

    /// Returns the protocol.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.state.settings.protocol
    }

    /// Returns all requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        lock(&self.state.requests).clone()
    }

    /// Returns the messages received so far, in order.
    #[must_use]
    pub fn messages(&self) -> Vec<Value> {
        let requests = lock(&self.state.requests);
        requests.iter().map(RecordedRequest::message).filter(|message| !message.is_null()).collect()
    }

    /// Returns the number of messages with this method.
    #[must_use]
    pub fn count(&self, method: &str) -> usize {
        self.messages().iter().filter(|message| message["method"] == method).count()
    }

    /// Changes the response behavior.
    pub fn set_behavior(&self, behavior: Behavior) {
        self.state.behavior.send_replace(behavior);
    }

    /// Rejects requests with this bearer token with 401 from now on.
    pub fn reject_token(&self, token: &str) {
        lock(&self.state.rejected).push(format!("Bearer {token}"));
    }

    /// Handles requests with this method from now on.
    pub fn on(&self, method: &str, handler: impl Fn(PendingRequest) + Send + Sync + 'static) {
        lock(&self.state.methods).insert(method.to_owned(), Arc::new(handler));
    }

    /// Removes the handler of a method.
    pub fn reset(&self, method: &str) {
        lock(&self.state.methods).remove(method);
    }

    /// Replaces the items of a list, as [`McpBackendBuilder::items`] sets them, without a notification.
    pub fn set_items(&self, member: &str, items: Vec<String>) {
        lock(&self.state.catalog).set(member, items);
    }

    /// Adds a tool and notifies clients.
    pub fn add_tool(&self, name: &str) {
        lock(&self.state.catalog).add_tool(name);
        self.notify("notifications/tools/list_changed", &Value::Null);
    }

    /// Sends a notification on all open notification streams. Null `params` are omitted.
    pub fn notify(&self, method: &str, params: &Value) {
        for stream in lock(&self.state.streams).iter() {
            self.state.notify(stream, method, params);
        }
    }

    /// Returns the number of open notification streams.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        let mut streams = lock(&self.state.streams);
        streams.retain(|stream| !stream.sender.is_closed());
        streams.len()
    }

    /// Closes all notification streams. HTTP+SSE sessions end with theirs.
    pub fn close_streams(&self) {
        lock(&self.state.streams).clear();
        if self.protocol() == Protocol::LegacySse {
            self.state.lose_sessions();
        }
    }

    /// Returns the number of open sessions.
    #[must_use]
    pub fn open_sessions(&self) -> usize {
        lock(&self.state.sessions).len()
    }

    /// Returns the number of sessions that were ever opened.
    #[must_use]
    pub fn all_sessions(&self) -> u64 {
        self.state.serial.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns the sessions that clients have ended with `DELETE`.
    #[must_use]
    pub fn ended_sessions(&self) -> Vec<String> {
        lock(&self.state.ended).clone()
    }

    /// Loses all sessions, as a restart does, and rejects unknown sessions in this way.
    pub fn lose_sessions(&self, loss: SessionLoss) {
        *lock(&self.state.loss) = loss;
        self.state.lose_sessions();
    }

    /// Returns the number of connections accepted since the last start.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.listener.as_ref().map_or(0, HttpListener::connections)
    }

    /// Closes the listener and all connections, and loses all sessions.
    pub fn stop(&mut self) {
        self.listener = None;
        self.state.lose_sessions();
    }

    /// Listens again at the port of before.
    ///
    /// # Panics
    /// Panics if the port is in use.
    pub fn restart(&mut self) {
        self.listen(self.address.port()).expect("the port is free again");
    }
}
