//! A persistent connection.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::counterparts::{Reply, TestError};

/// Response timeout; exceeding it fails the test.
pub(super) const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// A connection to a server, opened on first use.
#[derive(Debug)]
pub struct Line {
    url: String,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Line {
    /// Creates a connection to the server of this URL.
    #[must_use]
    pub fn to(url: &str) -> Self {
        Self { url: url.to_owned(), sender: None }
    }

    /// Returns the URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Posts a message with the headers of MCP and these.
    ///
    /// # Errors
    /// Returns an error if no complete response arrives in time.
    pub async fn post(&mut self, headers: &HeaderMap, message: &Value) -> Result<Reply, TestError> {
        let headers = with_media(headers, &Method::POST);
        self.send(Method::POST, "/mcp", &headers, message.to_string()).await
    }

    /// Sends the request unchanged, with a `Host` if the headers lack one.
    ///
    /// # Errors
    /// Returns an error if no complete response arrives in time.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<Reply, TestError> {
        let request = request(&self.url, method, path, headers, body.into())?;
        let answer = async {
            let (parts, body) = self.exchange(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok::<_, TestError>(Reply { status: parts.status, headers: parts.headers, body })
        };
        let answered = timeout(WAIT_TIMEOUT, answer).await;
        answered.map_err(|_| format!("no answer from {} within {WAIT_TIMEOUT:?}", self.url))?
    }

    async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TestError> {
        let mut sender = match self.sender.take() {
            Some(sender) => sender,
            None => connect(&self.url).await?,
        };
        // The server may have closed the connection meanwhile, which shows while the client waits for readiness.
        if sender.ready().await.is_err() {
            sender = connect(&self.url).await?;
        }
        let response = sender.send_request(request).await?;
        self.sender = Some(sender);
        Ok(response)
    }
}

/// Adds the headers that MCP requires in every request to `headers`.
pub(super) fn with_media(headers: &HeaderMap, method: &Method) -> HeaderMap {
    let mut all = headers.clone();
    let mut set = |name: HeaderName, value| {
        all.entry(name).or_insert(HeaderValue::from_static(value));
    };
    if *method == Method::POST {
        set(header::CONTENT_TYPE, "application/json");
        set(header::ACCEPT, "application/json, text/event-stream");
    } else {
        set(header::ACCEPT, "text/event-stream");
    }
    all
}

pub(super) fn request(
    url: &str,
    method: Method,
    path: &str,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, TestError> {
    let uri: Uri = url.parse()?;
    let host = uri.authority().ok_or("the URL names no host")?.as_str();
    let mut request = Request::builder().method(method).uri(path).body(Full::new(body))?;
    *request.headers_mut() = headers.clone();
    request.headers_mut().entry(header::HOST).or_insert(HeaderValue::from_str(host)?);
    Ok(request)
}

pub(super) async fn connect(url: &str) -> Result<SendRequest<Full<Bytes>>, TestError> {
    let uri: Uri = url.parse()?;
    let stream =
        TcpStream::connect(uri.authority().ok_or("the URL names no host")?.as_str()).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends with the sender, or when the server closes.
    tokio::spawn(connection);
    Ok(sender)
}
