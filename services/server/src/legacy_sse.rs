//! Deprecated HTTP+SSE transport (MCP 2024-11-05, Transports), served by the same stack as the MCP endpoint.
//!
//! `GET /sse` opens an event stream, whose first event names the URL for messages. Each message to that URL becomes a
//! request to `/mcp`, and its response is sent on the stream. The session ends with the stream.

mod client;
mod forward;
mod stream;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue,
    TRANSFER_ENCODING,
};
use http::{Method, Request, Response, StatusCode, Uri, request};
use http_body_util::Full;
use tower::ServiceExt;
use tower_service::Service;
use vmcp_core::{Body, BoxError, Identity, Rejection, code};
use vmcp_wire::{Envelope, scan};

pub(crate) use self::client::Clients;
use self::client::{Client, Seat};
use self::stream::Stream;

/// Path of the event stream.
pub(crate) const STREAM: &str = "/sse";

/// Path for messages of the client.
pub(crate) const MESSAGES: &str = "/messages";

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// Service of [`STREAM`] and [`MESSAGES`] in front of `S`, the service of `/mcp`.
///
/// The future is boxed, because a message is read before `S` is called.
#[derive(Clone, Debug)]
pub struct OldClients<S> {
    inner: S,
    clients: Arc<Clients>,
}

/// A service whose request bodies are complete messages.
pub(crate) trait Inner:
    Service<
        Request<Full<Bytes>>,
        Response = Response<Body>,
        Error = Infallible,
        Future: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> Inner for S where
    S: Service<
            Request<Full<Bytes>>,
            Response = Response<Body>,
            Error = Infallible,
            Future: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

impl<S> OldClients<S> {
    pub(crate) fn new(inner: S, clients: Arc<Clients>) -> Self {
        Self { inner, clients }
    }
}

impl<S: Inner, B> Service<Request<B>> for OldClients<S>
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { inner, clients } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let answered = match (parts.uri.path(), &parts.method) {
                (STREAM, &Method::GET) => open(inner, &clients, parts),
                (STREAM, _) => Ok(not_allowed("use GET", "GET")),
                (_, &Method::POST) => post(inner, &clients, parts, body).await,
                _ => Ok(not_allowed("use POST", "POST")),
            };
            Ok(answered.unwrap_or_else(|refusal| refusal.into_response(None)))
        })
    }
}

fn not_allowed(message: &'static str, allowed: &'static str) -> Response<Body> {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    let mut response =
        Rejection::new(status, code::INVALID_REQUEST, message).into_response::<Body>(None);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Returns the identity that authentication determined.
fn caller(parts: &request::Parts) -> Identity {
    parts.extensions.get::<Identity>().cloned().unwrap_or_else(Identity::anonymous)
}

fn open<S: Inner>(
    inner: S,
    clients: &Arc<Clients>,
    mut parts: request::Parts,
) -> Result<Response<Body>, Rejection> {
    if parts.headers.contains_key(ACCEPT) {
        vmcp_decode::require_event_stream(&parts.headers)?;
    }
    for header in [CONTENT_LENGTH, TRANSFER_ENCODING, CONTENT_TYPE, SESSION, LAST_EVENT] {
        parts.headers.remove(header);
    }
    let owner = caller(&parts);
    let (client, queue) = clients.open(owner, parts.headers, &parts.extensions)?;
    let ending = Arc::clone(&client);
    let leave = Box::new(move || {
        // Without a session there is none to end.
        if let Some(request) = ending.own(Method::DELETE, None)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(inner.oneshot(request));
        }
    });
    let stream = Stream::new(client, queue, Arc::clone(clients), leave);
    let mut response = Response::new(Body::wrap(stream));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, EVENTS);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

async fn post<S: Inner, B>(
    inner: S,
    clients: &Clients,
    parts: request::Parts,
    body: B,
) -> Result<Response<Body>, Rejection>
where
    B: http_body::Body + Send,
    B::Error: Into<BoxError>,
{
    let client = session_of(&parts.uri)
        .and_then(|id| clients.find(id, &caller(&parts)))
        .ok_or_else(no_stream)?;
    let seat = client.seat()?;
    let message = clients.decode().read_body(&parts, body).await?;
    let handshake = is_handshake(&message);
    if handshake && !client.begin() {
        let message = "this stream has a session already: open another one";
        return Err(Rejection::malformed(code::INVALID_REQUEST, message));
    }
    let request = carry(&client, parts, message.clone());
    let asked = Asked { inner: inner.clone(), client, seat, message, handshake };
    let mut answering = Box::pin(inner.oneshot(request));
    // Rejections that are immediate and carry no request id go to the HTTP response: on the stream, the client could
    // not match them to a message.
    if let Some(Ok(response)) = (&mut answering).now_or_never() {
        if !response.status().is_success() && !forward::is_answer(&response) {
            asked.failed();
            return Ok(response);
        }
        tokio::spawn(asked.forward(std::future::ready(Ok(response))));
    } else {
        tokio::spawn(asked.forward(answering));
    }
    let mut accepted = Response::new(Body::empty());
    *accepted.status_mut() = StatusCode::ACCEPTED;
    Ok(accepted)
}

/// State of a message that is being forwarded.
struct Asked<S> {
    inner: S,
    client: Arc<Client>,
    seat: Seat,
    message: Bytes,
    handshake: bool,
}

impl<S: Inner> Asked<S> {
    /// Forwards the response to the client's stream while the stream is open.
    async fn forward(
        self,
        answering: impl Future<Output = Result<Response<Body>, Infallible>> + Send,
    ) {
        let closed = self.seat.closed();
        tokio::select! {
            () = closed => {}
            () = self.forward_all(answering) => {}
        }
    }

    async fn forward_all(
        &self,
        answering: impl Future<Output = Result<Response<Body>, Infallible>> + Send,
    ) {
        let Ok(response) = answering.await;
        let taken = response.status() == StatusCode::ACCEPTED;
        if self.handshake {
            match response.headers().get(SESSION) {
                Some(session) => self.client.set_session(session.clone()),
                None => self.failed(),
            }
        }
        forward::answer(&self.inner, &self.client, &self.seat, &self.message, response).await;
        if taken && is_initialized(&self.message) {
            self.follow();
        }
    }

    fn failed(&self) {
        if self.handshake {
            self.client.begin_again();
        }
    }

    /// Forwards the session's notification stream to the client.
    fn follow(&self) {
        let (inner, client) = (self.inner.clone(), Arc::clone(&self.client));
        if let Some(seat) = client.standing() {
            tokio::spawn(async move {
                let closed = seat.closed();
                tokio::select! {
                    () = closed => {}
                    () = forward::standing(&inner, &client, &seat) => {}
                }
            });
        }
    }
}

/// Builds the request to `/mcp` from the client's request.
fn carry(client: &Client, mut parts: request::Parts, message: Bytes) -> Request<Full<Bytes>> {
    parts.uri = Uri::from_static("/mcp");
    let headers = &mut parts.headers;
    for header in [CONTENT_LENGTH, TRANSFER_ENCODING, SESSION, LAST_EVENT] {
        headers.remove(header);
    }
    headers.insert(ACCEPT, EITHER);
    if let Some(session) = client.session() {
        headers.insert(SESSION, session);
    }
    Request::from_parts(parts, Full::new(message))
}

fn is_handshake(message: &[u8]) -> bool {
    matches!(
        scan(message),
        Ok(Envelope::Request { method, .. }) if method.is(message, "initialize")
    )
}

fn is_initialized(message: &[u8]) -> bool {
    matches!(
        scan(message),
        Ok(Envelope::Notification { method, .. }) if method.is(message, "notifications/initialized")
    )
}

/// Returns the `sessionId` of a message URL.
fn session_of(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("sessionId="))
}

fn no_stream() -> Rejection {
    let message = "no stream with this sessionId is open: GET /sse opens one";
    Rejection::new(StatusCode::NOT_FOUND, code::INVALID_REQUEST, message)
}

#[cfg(test)]
mod tests;
