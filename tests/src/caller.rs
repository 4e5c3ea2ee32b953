//! An MCP client for tests at the level of bytes: it sends its input unchanged, valid or not.

mod events;
mod line;

pub use events::Events;
pub use line::Line;

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde_json::{Value, json};

use crate::backends::{SESSION, STATELESS, VERSION};
use crate::counterparts::{Reply, TestError};

/// A client of one generation with a persistent connection.
#[derive(Debug)]
pub struct Caller {
    line: Line,
    session: Option<String>,
    revision: String,
    capabilities: Value,
    bearer: Option<String>,
    serial: u64,
}

impl Caller {
    /// A client of the stateless generation.
    #[must_use]
    pub fn stateless(url: &str) -> Self {
        Self::stateless_with(url, json!({}))
    }

    /// A client of the stateless generation that declares these capabilities.
    #[must_use]
    pub fn stateless_with(url: &str, capabilities: Value) -> Self {
        let revision = STATELESS.to_owned();
        Self { line: Line::to(url), session: None, revision, capabilities, bearer: None, serial: 0 }
    }

    /// A client of the stateless generation with a token.
    #[must_use]
    pub fn stateless_as(url: &str, token: &str) -> Self {
        let mut caller = Self::stateless(url);
        caller.comes_with(token);
        caller
    }

    /// Connects a client of the stateful generation and opens a session.
    ///
    /// # Errors
    /// Returns an error if no session is opened.
    pub async fn stateful(url: &str) -> Result<Self, TestError> {
        Self::stateful_with(url, json!({})).await
    }

    /// Connects a client of the stateful generation with these capabilities and opens a session.
    ///
    /// # Errors
    /// Returns an error if no session is opened.
    pub async fn stateful_with(url: &str, capabilities: Value) -> Result<Self, TestError> {
        Self::open(url, capabilities, None).await
    }

    /// Connects a client of the stateful generation with a token and opens a session.
    ///
    /// # Errors
    /// Returns an error if no session is opened.
    pub async fn stateful_as(url: &str, token: &str) -> Result<Self, TestError> {
        Self::stateful_with_token(url, json!({}), token).await
    }

    /// As [`Caller::stateful_as`], with these capabilities.
    ///
    /// # Errors
    /// Returns an error if no session is opened.
    pub async fn stateful_with_token(
        url: &str,
        capabilities: Value,
        token: &str,
    ) -> Result<Self, TestError> {
        Self::open(url, capabilities, Some(token.to_owned())).await
    }

    async fn open(
        url: &str,
        capabilities: Value,
        bearer: Option<String>,
    ) -> Result<Self, TestError> {
        let revision = "2025-11-25".to_owned();
        let line = Line::to(url);
        let mut caller = Self { line, session: None, revision, capabilities, bearer, serial: 0 };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": caller.capabilities,
            "clientInfo": { "name": "vmcp-tests", "version": "1.0.0" },
        });
        let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
        let mut headers = HeaderMap::new();
        caller.show_token(&mut headers);
        let reply = caller.line.post(&headers, &message).await?;
        let session = reply.headers.get(SESSION).and_then(|id| id.to_str().ok());
        caller.session = Some(session.ok_or_else(|| format!("no session: {reply:?}"))?.to_owned());
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        caller.post(&ready).await?;
        Ok(caller)
    }

    /// Sends this token in subsequent requests.
    pub fn comes_with(&mut self, token: &str) {
        self.bearer = Some(token.to_owned());
    }

    /// Sends this session id in subsequent requests, possibly another client's.
    pub fn names_session(&mut self, session: &str) {
        self.session = Some(session.to_owned());
    }

    /// Returns the same client with a connection to another server, and without requests in flight.
    #[must_use]
    pub fn at(&self, url: &str) -> Self {
        Self {
            line: Line::to(url),
            session: self.session.clone(),
            revision: self.revision.clone(),
            capabilities: self.capabilities.clone(),
            bearer: self.bearer.clone(),
            serial: self.serial,
        }
    }

    /// Returns its session id, if it is stateful.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Returns its connection.
    pub fn line(&mut self) -> &mut Line {
        &mut self.line
    }

    fn show_token(&self, headers: &mut HeaderMap) {
        let bearer =
            self.bearer.as_ref().map(|token| HeaderValue::try_from(format!("Bearer {token}")));
        if let Some(Ok(bearer)) = bearer {
            headers.insert(header::AUTHORIZATION, bearer);
        }
    }

    /// Returns the headers for a message.
    #[must_use]
    pub fn headers(&self, message: &Value) -> HeaderMap {
        let mut headers = HeaderMap::new();
        self.show_token(&mut headers);
        let mut set = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        set(VERSION, &self.revision);
        if let Some(session) = &self.session {
            set(SESSION, session);
            return headers;
        }
        let method = message["method"].as_str().unwrap_or_default();
        set("mcp-method", method);
        let target = match method {
            "tools/call" | "prompts/get" => message["params"]["name"].as_str(),
            "resources/read" => message["params"]["uri"].as_str(),
            "tasks/get" | "tasks/update" | "tasks/cancel" => message["params"]["taskId"].as_str(),
            _ => None,
        };
        if let Some(target) = target {
            set("mcp-name", target);
        }
        headers
    }

    /// Creates a request with a new id.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        self.serial += 1;
        let mut params = params;
        if self.session.is_none() {
            let meta = params["_meta"].take();
            let mut meta = meta.as_object().cloned().unwrap_or_default();
            meta.insert("io.modelcontextprotocol/protocolVersion".to_owned(), json!(STATELESS));
            let capabilities = self.capabilities.clone();
            meta.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), capabilities);
            params["_meta"] = Value::Object(meta);
        }
        json!({ "jsonrpc": "2.0", "id": self.serial, "method": method, "params": params })
    }

    /// Posts a message as this client.
    ///
    /// # Errors
    /// Returns an error if no complete response arrives in time.
    pub async fn post(&mut self, message: &Value) -> Result<Reply, TestError> {
        let headers = self.headers(message);
        self.line.post(&headers, message).await
    }

    /// Sends a request and returns the HTTP response.
    ///
    /// # Errors
    /// Returns an error if no complete response arrives in time.
    pub async fn reply(&mut self, method: &str, params: Value) -> Result<Reply, TestError> {
        let message = self.request(method, params);
        self.post(&message).await
    }

    /// Sends a request and returns the JSON-RPC response.
    ///
    /// # Errors
    /// Returns an error if none arrives in time.
    pub async fn ask(&mut self, method: &str, params: Value) -> Result<Value, TestError> {
        self.reply(method, params).await?.message()
    }

    /// Sends a request that must succeed and returns its result.
    ///
    /// # Errors
    /// Returns an error with the response if the request fails.
    pub async fn result(&mut self, method: &str, params: Value) -> Result<Value, TestError> {
        let mut answer = self.ask(method, params).await?;
        match answer["result"].take() {
            Value::Null => Err(format!("{method}: {answer}").into()),
            result => Ok(result),
        }
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// Returns an error with the response if the call fails.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, TestError> {
        self.result("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Lists the names of all tools, over all pages.
    ///
    /// # Errors
    /// Returns an error if a list request fails.
    pub async fn tools(&mut self) -> Result<Vec<String>, TestError> {
        let mut names = Vec::new();
        let mut params = json!({});
        loop {
            let page = self.result("tools/list", params).await?;
            let tools = page["tools"].as_array().ok_or("no list of tools")?;
            names.extend(tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)));
            match &page["nextCursor"] {
                Value::Null => return Ok(names),
                cursor => params = json!({ "cursor": cursor }),
            }
        }
    }

    /// Posts a request on its own connection and reads the response as a stream.
    ///
    /// # Errors
    /// Returns an error if no stream is opened.
    pub async fn stream(&mut self, method: &str, params: Value) -> Result<Events, TestError> {
        let message = self.request(method, params);
        let headers = self.headers(&message);
        let body = message.to_string();
        Events::open(self.line.url(), Method::POST, &headers, body).await
    }

    /// Opens the notification stream: for a session by `GET`, otherwise by `subscriptions/listen`, whose acknowledgement
    /// is consumed.
    ///
    /// # Errors
    /// Returns an error if no stream is opened.
    pub async fn listen(&mut self) -> Result<Events, TestError> {
        if self.session.is_some() {
            let headers = self.headers(&Value::Null);
            return Events::open(self.line.url(), Method::GET, &headers, String::new()).await;
        }
        let wanted = json!({ "toolsListChanged": true });
        let mut events =
            self.stream("subscriptions/listen", json!({ "notifications": wanted })).await?;
        events.next().await?.ok_or("the stream ended before its acknowledgement")?;
        Ok(events)
    }

    /// Ends the session.
    ///
    /// # Errors
    /// Returns an error if no complete response arrives in time.
    pub async fn leave(&mut self) -> Result<Reply, TestError> {
        let headers = self.headers(&Value::Null);
        self.line.send(Method::DELETE, "/mcp", &headers, "").await
    }
}
