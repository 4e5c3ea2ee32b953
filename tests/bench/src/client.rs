//! An MCP client over one connection that checks every response.

mod answer;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::{BoxError, Generation};

/// Response timeout.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum response size in bytes.
const LARGEST: usize = 64 << 20;

/// Maximum number of pages of one list.
const MOST_PAGES: usize = 100;

/// Client capabilities as a desktop client declares them.
const CAPABILITIES: &str =
    r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}"#;

const CLIENT: &str = r#"{"name":"bench-desktop","title":"Benchmark Desktop","version":"1.4.2"}"#;

/// Number of loopback source addresses.
const MACHINES: u8 = 250;

const SESSION: &str = "mcp-session-id";

/// MCP endpoint and protocol generation of the clients.
#[derive(Debug)]
pub struct Endpoint {
    address: String,
    path: Uri,
    host: HeaderValue,
    generation: Generation,
    /// Members of `params` in every request, with a leading comma.
    meta: String,
    /// Number of connections, modulo 256.
    dialed: AtomicU8,
}

/// A client with one connection and at most one session at a time.
#[derive(Debug)]
pub struct Client {
    endpoint: Arc<Endpoint>,
    sender: Option<SendRequest<Full<Bytes>>>,
    session: Option<HeaderValue>,
    bearer: Option<HeaderValue>,
    serial: u64,
}

/// An event stream, read on its own connection until this is dropped.
#[derive(Debug)]
pub struct EventStream(JoinHandle<()>);

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Endpoint {
    /// Parses the URL of an MCP endpoint with address and port: `http://127.0.0.1:4483/mcp`.
    ///
    /// # Errors
    /// Returns an error if `url` is not of this form.
    pub fn new(url: &str, generation: Generation) -> Result<Self, BoxError> {
        let uri: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
        let authority = uri.authority().ok_or_else(|| format!("{url} has no host"))?.as_str();
        let meta = match generation {
            Generation::Stateful => String::new(),
            Generation::Stateless => format!(
                r#","_meta":{{"io.modelcontextprotocol/protocolVersion":"{}","io.modelcontextprotocol/clientInfo":{CLIENT},"io.modelcontextprotocol/clientCapabilities":{CAPABILITIES}}}"#,
                generation.revision()
            ),
        };
        Ok(Self {
            address: authority.to_owned(),
            path: uri.path().parse()?,
            host: authority.parse()?,
            generation,
            meta,
            dialed: AtomicU8::new(0),
        })
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, BoxError> {
        let stream = self.dial().await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // A connection error surfaces in the request that awaits its response.
        tokio::spawn(async move { _ = connection.await });
        Ok(sender)
    }

    /// Connects from the next of many loopback addresses, like clients on as many machines, because a gateway limits each
    /// address. Systems with a single loopback address use that one.
    async fn dial(&self) -> io::Result<TcpStream> {
        if let Ok(SocketAddr::V4(target)) = self.address.parse()
            && target.ip().is_loopback()
        {
            let last = self.dialed.fetch_add(1, Ordering::Relaxed) % MACHINES + 1;
            let socket = TcpSocket::new_v4()?;
            if socket.bind(([127, 0, 0, last], 0).into()).is_ok() {
                return socket.connect(target.into()).await;
            }
        }
        TcpStream::connect(&*self.address).await
    }
}

impl Client {
    /// Creates a client without a connection.
    #[must_use]
    pub fn new(endpoint: Arc<Endpoint>) -> Self {
        Self { endpoint, sender: None, session: None, bearer: None, serial: 0 }
    }

    /// Sends `bearer`, a token with its scheme, in subsequent requests.
    pub fn show(&mut self, bearer: Option<HeaderValue>) {
        self.bearer = bearer;
    }

    /// Performs the handshake of the generation: a new session for stateful clients, nothing for stateless ones.
    ///
    /// # Errors
    /// Returns an error if the connection fails, or the response is not an `initialize` result.
    pub async fn open(&mut self) -> Result<(), BoxError> {
        if self.endpoint.generation == Generation::Stateless {
            return Ok(());
        }
        self.session = None;
        let id = self.next();
        let revision = self.endpoint.generation.revision();
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{CAPABILITIES},"clientInfo":{CLIENT}}}}}"#
        );
        let reply = self.send(Method::POST, "initialize", None, body).await?;
        answer::welcome(&reply.message(id)?, id, revision)?;
        self.session = reply.headers.get(SESSION).cloned();
        let body = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
        let reply = self.send(Method::POST, "notifications/initialized", None, body).await?;
        if reply.status == StatusCode::ACCEPTED { Ok(()) } else { Err(reply.unexpected()) }
    }

    /// Calls a tool with `arguments`, a JSON object, and returns its response.
    ///
    /// # Errors
    /// Returns an error if the response is not the result of this call.
    pub async fn call(&mut self, tool: &str, arguments: &str) -> Result<Called, BoxError> {
        let id = self.next();
        let meta = &self.endpoint.meta;
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}{meta}}}}}"#
        );
        let reply = self.send(Method::POST, "tools/call", Some(tool), body).await?;
        Ok(Called { id, message: reply.message(id)? })
    }

    /// Lists all pages and returns the tool names.
    ///
    /// # Errors
    /// Returns an error if a page is not a result, a name is repeated, or the list has too many pages.
    pub async fn list(&mut self) -> Result<BTreeSet<String>, BoxError> {
        let mut names = BTreeSet::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let id = self.next();
            let meta = &self.endpoint.meta;
            let params = match cursor.take() {
                Some(cursor) => format!("\"cursor\":{}{meta}", serde_json::to_string(&cursor)?),
                None => meta.trim_start_matches(',').to_owned(),
            };
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{{params}}}}}"#
            );
            let reply = self.send(Method::POST, "tools/list", None, body).await?;
            cursor = answer::page(&reply.message(id)?, id, &mut names)?;
            if cursor.is_none() {
                return Ok(names);
            }
        }
        Err("the list has no end".into())
    }

    /// Opens the notification stream of the session on its own connection.
    ///
    /// # Errors
    /// Returns an error if the response is not an event stream.
    pub async fn listen(&self) -> Result<EventStream, BoxError> {
        let mut sender = self.endpoint.connect().await?;
        let mut request = self.request(Method::GET, "", None, String::new())?;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let response = timeout(WAIT_TIMEOUT, sender.send_request(request)).await??;
        if response.status() != StatusCode::OK || !is_stream(response.headers()) {
            return Err(format!("GET: {}", response.status()).into());
        }
        Ok(EventStream(tokio::spawn(drain(sender, response.into_body()))))
    }

    /// Takes the session out of the client, so that the caller can end it later.
    pub fn leave(&mut self) -> Option<HeaderValue> {
        self.session.take()
    }

    /// Ends a session.
    ///
    /// # Errors
    /// Returns an error if the server does not end the session.
    pub async fn end(&mut self, session: HeaderValue) -> Result<(), BoxError> {
        self.session = Some(session);
        let reply = self.send(Method::DELETE, "", None, String::new()).await;
        self.session = None;
        let reply = reply?;
        if reply.status.is_success() { Ok(()) } else { Err(reply.unexpected()) }
    }

    fn next(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    async fn send(
        &mut self,
        verb: Method,
        method: &str,
        name: Option<&str>,
        body: String,
    ) -> Result<Reply, BoxError> {
        let request = self.request(verb, method, name, body)?;
        let reply = timeout(WAIT_TIMEOUT, self.exchange(request)).await;
        let reply = reply.unwrap_or_else(|_| Err("no answer in time".into()));
        if reply.is_err() {
            self.sender = None;
        }
        reply
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Reply, BoxError> {
        let ready = match self.sender.as_mut() {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !ready {
            self.sender = Some(self.endpoint.connect().await?);
        }
        let sender = self.sender.as_mut().ok_or("no connection")?;
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, LARGEST).collect().await?.to_bytes();
        Ok(Reply { status: parts.status, headers: parts.headers, body })
    }

    fn request(
        &self,
        verb: Method,
        method: &str,
        name: Option<&str>,
        body: String,
    ) -> Result<Request<Full<Bytes>>, BoxError> {
        let endpoint = &self.endpoint;
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = verb;
        *request.uri_mut() = endpoint.path.clone();
        let headers = request.headers_mut();
        headers.insert(HOST, endpoint.host.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if method != "initialize" {
            let revision = HeaderValue::from_static(endpoint.generation.revision());
            headers.insert("mcp-protocol-version", revision);
        }
        if endpoint.generation == Generation::Stateless {
            headers.insert("mcp-method", method.parse()?);
            if let Some(name) = name {
                headers.insert("mcp-name", name.parse()?);
            }
        }
        if let Some(bearer) = &self.bearer {
            headers.insert(AUTHORIZATION, bearer.clone());
        }
        if let Some(session) = &self.session {
            headers.insert(SESSION, session.clone());
        }
        Ok(request)
    }
}

impl Reply {
    /// Returns the message that responds to `id`.
    fn message(&self, id: u64) -> Result<Bytes, BoxError> {
        if self.status != StatusCode::OK {
            return Err(self.unexpected());
        }
        if is_stream(&self.headers) {
            answer::in_stream(&self.body, id)
        } else {
            Ok(self.body.clone())
        }
    }

    fn unexpected(&self) -> BoxError {
        let body = String::from_utf8_lossy(&self.body);
        format!("{}: {}", self.status, body.chars().take(300).collect::<String>()).into()
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Reads the body to its end and keeps the connection open until then.
async fn drain(sender: SendRequest<Full<Bytes>>, mut body: Incoming) {
    while let Some(Ok(_)) = body.frame().await {}
    drop(sender);
}

/// Response to a call.
#[derive(Debug)]
pub struct Called {
    id: u64,
    message: Bytes,
}

impl Called {
    /// Checks that the result is the text in `expected`, a JSON string.
    ///
    /// # Errors
    /// Returns an error if the result differs.
    pub fn is(&self, expected: &str) -> Result<(), BoxError> {
        let text = answer::text(&self.message, self.id)?;
        if text.get() == expected { Ok(()) } else { Err("the text of another call".into()) }
    }

    /// Checks that the result is the output of a composite tool, an object whose only text is `expected`, a JSON string.
    ///
    /// # Errors
    /// Returns an error if the result differs.
    pub fn is_output(&self, expected: &str) -> Result<(), BoxError> {
        let text: String = serde_json::from_str(answer::text(&self.message, self.id)?.get())?;
        if text == format!("{{\"text\":{expected}}}") {
            Ok(())
        } else {
            Err("the output of another call".into())
        }
    }

    /// Checks that the result is a text of `length` bytes without escapes.
    ///
    /// # Errors
    /// Returns an error if the result differs.
    pub fn is_long(&self, length: usize) -> Result<(), BoxError> {
        let found = answer::text(&self.message, self.id)?.get().len();
        if found == length + 2 { Ok(()) } else { Err(format!("a text of {found} bytes").into()) }
    }
}
