//! The service and its requests to the MCP endpoint.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, TRANSFER_ENCODING,
};
use http::{Method, Request, Response, StatusCode, Uri, request};
use http_body_util::Full;
use tower::ServiceExt;
use tower_service::Service;
use tracing::Instrument;
use vmcp_core::{Body, BoxError, Identity, Rejection, code};
use vmcp_wire::{Envelope, scan};

use crate::client::{Client, ClientTable, StreamPermit, stream_not_found};
use crate::forward::{self, MessageService};
use crate::stream::EventStream;
use crate::{EVENT_STREAM, LAST_EVENT_ID, SESSION_ID, STREAM_PATH};

const JSON_OR_EVENT_STREAM: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");

/// Service of [`STREAM_PATH`] and [`MESSAGES_PATH`](crate::MESSAGES_PATH) in front of `S`, the service of the MCP endpoint.
///
/// The future is boxed, because a message is read before `S` is called.
#[derive(Clone, Debug)]
pub struct LegacySse<S> {
    inner: S,
    clients: Arc<ClientTable>,
}

impl<S> LegacySse<S> {
    /// Creates the service. `clients` outlives it: a reload of the stack keeps the open streams.
    #[must_use]
    pub fn new(inner: S, clients: Arc<ClientTable>) -> Self {
        Self { inner, clients }
    }
}

impl<S: MessageService, B> Service<Request<B>> for LegacySse<S>
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
            let result = match (parts.uri.path(), &parts.method) {
                (STREAM_PATH, &Method::GET) => open(inner, &clients, parts),
                (STREAM_PATH, _) => Ok(method_not_allowed("use GET", "GET")),
                (_, &Method::POST) => post(inner, &clients, parts, body).await,
                _ => Ok(method_not_allowed("use POST", "POST")),
            };
            Ok(result.unwrap_or_else(|rejection| rejection.into_response(None)))
        })
    }
}

fn method_not_allowed(message: &'static str, allowed: &'static str) -> Response<Body> {
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

fn open<S: MessageService>(
    inner: S,
    clients: &Arc<ClientTable>,
    mut parts: request::Parts,
) -> Result<Response<Body>, Rejection> {
    if parts.headers.contains_key(ACCEPT) {
        vmcp_decode::require_event_stream(&parts.headers)?;
    }
    for header in [CONTENT_LENGTH, TRANSFER_ENCODING, CONTENT_TYPE, SESSION_ID, LAST_EVENT_ID] {
        parts.headers.remove(header);
    }
    let owner = caller(&parts);
    let (client, queue) = clients.open(owner, parts.headers, &parts.extensions)?;
    let ending = Arc::clone(&client);
    let on_disconnect = Box::new(move || {
        // Without a session there is none to end.
        if let Some(request) = ending.session_request(Method::DELETE, None)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(inner.oneshot(request));
        }
    });
    let stream = EventStream::new(client, queue, Arc::clone(clients), on_disconnect);
    let mut response = Response::new(Body::wrap(stream));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, EVENT_STREAM);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

async fn post<S: MessageService, B>(
    inner: S,
    clients: &ClientTable,
    parts: request::Parts,
    body: B,
) -> Result<Response<Body>, Rejection>
where
    B: http_body::Body + Send,
    B::Error: Into<BoxError>,
{
    let client = session_id(&parts.uri)
        .and_then(|id| clients.find(id, &caller(&parts)))
        .ok_or_else(stream_not_found)?;
    let permit = client.acquire_permit()?;
    let message = clients.decode().read_body(&parts, body).await?;
    let is_initialize = is_initialize_request(&message);
    if is_initialize && !client.begin_initialize() {
        let message = "this stream has a session already: open another one";
        return Err(Rejection::malformed(code::INVALID_REQUEST, message));
    }
    let request = to_mcp_request(&client, parts, message.clone());
    let forwarded =
        ForwardedMessage { inner: inner.clone(), client, permit, message, is_initialize };
    let mut response_future = Box::pin(inner.oneshot(request));
    // Rejections that are immediate and carry no request id go to the HTTP response: on the stream, the client could
    // not match them to a message.
    if let Some(Ok(response)) = (&mut response_future).now_or_never() {
        if !response.status().is_success() && !forward::is_response(&response) {
            forwarded.reset_if_initialize();
            return Ok(response);
        }
        let forwarding = forwarded.forward(std::future::ready(Ok(response)));
        tokio::spawn(forwarding.in_current_span());
    } else {
        tokio::spawn(forwarded.forward(response_future).in_current_span());
    }
    let mut accepted = Response::new(Body::empty());
    *accepted.status_mut() = StatusCode::ACCEPTED;
    Ok(accepted)
}

/// State of a message that is being forwarded.
struct ForwardedMessage<S> {
    inner: S,
    client: Arc<Client>,
    permit: StreamPermit,
    message: Bytes,
    is_initialize: bool,
}

impl<S: MessageService> ForwardedMessage<S> {
    /// Forwards the response to the client's stream while the stream is open.
    async fn forward(
        self,
        response_future: impl Future<Output = Result<Response<Body>, Infallible>> + Send,
    ) {
        let closed = self.permit.closed();
        tokio::select! {
            () = closed => {}
            () = self.forward_all(response_future) => {}
        }
    }

    async fn forward_all(
        &self,
        response_future: impl Future<Output = Result<Response<Body>, Infallible>> + Send,
    ) {
        let Ok(response) = response_future.await;
        let is_accepted = response.status() == StatusCode::ACCEPTED;
        if self.is_initialize {
            match response.headers().get(SESSION_ID) {
                Some(session) => self.client.set_session(session.clone()),
                None => self.reset_if_initialize(),
            }
        }
        forward::forward_response(&self.inner, &self.client, &self.permit, &self.message, response)
            .await;
        if is_accepted && is_initialized_notification(&self.message) {
            self.start_notifications();
        }
    }

    fn reset_if_initialize(&self) {
        if self.is_initialize {
            self.client.reset_initialize();
        }
    }

    /// Forwards the session's notification stream to the client.
    fn start_notifications(&self) {
        let (inner, client) = (self.inner.clone(), Arc::clone(&self.client));
        if let Some(permit) = client.notification_permit() {
            tokio::spawn(async move {
                let closed = permit.closed();
                tokio::select! {
                    () = closed => {}
                    () = forward::forward_notifications(&inner, &client, &permit) => {}
                }
            });
        }
    }
}

/// Builds the request to `/mcp` from the client's request.
fn to_mcp_request(
    client: &Client,
    mut parts: request::Parts,
    message: Bytes,
) -> Request<Full<Bytes>> {
    parts.uri = Uri::from_static("/mcp");
    let headers = &mut parts.headers;
    for header in [CONTENT_LENGTH, TRANSFER_ENCODING, SESSION_ID, LAST_EVENT_ID] {
        headers.remove(header);
    }
    headers.insert(ACCEPT, JSON_OR_EVENT_STREAM);
    if let Some(session) = client.session() {
        headers.insert(SESSION_ID, session);
    }
    Request::from_parts(parts, Full::new(message))
}

fn is_initialize_request(message: &[u8]) -> bool {
    matches!(
        scan(message),
        Ok(Envelope::Request { method, .. }) if method.is(message, "initialize")
    )
}

fn is_initialized_notification(message: &[u8]) -> bool {
    matches!(
        scan(message),
        Ok(Envelope::Notification { method, .. }) if method.is(message, "notifications/initialized")
    )
}

/// Returns the `sessionId` of a message URL.
fn session_id(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("sessionId="))
}

#[cfg(test)]
mod tests;
