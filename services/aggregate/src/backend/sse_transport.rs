//! Adapter from Streamable HTTP to the deprecated HTTP+SSE transport (MCP 2024-11-05, Transports).
//!
//! An HTTP+SSE session is one event stream, opened with GET. Its first event names the endpoint for posted messages; all
//! responses arrive on the stream. [`SseTransport`] is a service in front of such a backend, so the rest of the gateway uses
//! Streamable HTTP only: `initialize` opens the stream, and its response carries a [`ChannelHandle`] in its extensions. Requests with
//! that lease in their extensions belong to the session, which ends when the last copy of the lease is dropped.

mod demultiplexer;
mod event_body;
mod message_poster;
mod message_queue;
mod open;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tower::{Layer, ServiceBuilder};
use tower_service::Service;
use tracing::Instrument;
use vmcp_breaker::{
    CallResult, CircuitBreakerLayer, CircuitHandle, Classifier, DefaultClassifier, Outcome,
};
use vmcp_core::{Body, BoxError, McpOperation, NotSentError, cause_ref};
use vmcp_timeout::{TimeoutControl, TimeoutLayer};
use vmcp_wire::{Envelope, Key, Params, Span, scan};

use self::demultiplexer::{Demultiplexer, EnqueueError, MAX_PENDING_REQUESTS};
use self::event_body::{EventBody, ResponseMessages, UnsolicitedMessages};
use self::message_poster::MessagePoster;
use super::error::BackendError;
use crate::event_stream::event_stream;
use crate::settings::BackendService;

/// Maximum size of an event, in bytes.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// `Service` that calls an HTTP+SSE backend.
#[derive(Clone, Debug)]
pub(crate) struct SseTransport {
    inner: BackendService,
}

/// Shared handle of a session. The stream ends when the last copy is dropped.
#[derive(Clone, Debug)]
pub(crate) struct ChannelHandle(Arc<Channel>);

#[derive(Debug)]
struct Channel {
    endpoint: Uri,
    demultiplexer: Arc<Demultiplexer>,
    reader: AbortHandle,
    /// One permit for each request in flight.
    permits: Arc<Semaphore>,
}

/// Parsed request in the session.
struct ChannelRequest<'a> {
    message: Bytes,
    id: Span,
    method: &'a str,
    params: Params,
}

/// Wraps `inner`, which sends requests to an HTTP+SSE backend.
///
/// The layers of `inner` only observe the stream and the posts. Therefore `patience` bounds the wait for each message of a
/// response here, and `breaker` is applied here too: an accepted post does not show that the call succeeded.
pub(crate) fn adapt(
    inner: BackendService,
    patience: Duration,
    breaker: Option<CircuitHandle>,
) -> BackendService {
    let stack =
        ServiceBuilder::new().layer(TimeoutLayer::new(patience)).service(SseTransport { inner });
    match breaker {
        Some(breaker) => {
            BackendService::new(CircuitBreakerLayer::new(breaker).classify(classify).layer(stack))
        }
        None => BackendService::new(stack),
    }
}

/// Classifies the outcome of a request for the circuit breaker. Requests that the gateway withholds or cancels are neutral.
fn classify(seen: CallResult<'_>) -> Outcome {
    let CallResult::Error(error) = seen else { return DefaultClassifier.classify(seen) };
    let gives_up = matches!(cause_ref(error), Some(BackendError::Busy | BackendError::Cancelled));
    let keeps_back = cause_ref::<NotSentError>(error).is_some_and(|error| error.is_local_limit);
    if gives_up || keeps_back { Outcome::Neutral } else { DefaultClassifier.classify(seen) }
}

impl Service<Request<Full<Bytes>>> for SseTransport {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each post awaits the readiness of `inner`.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let inner = self.inner.clone();
        Box::pin(async move { answer(inner, request).await })
    }
}

async fn answer(
    inner: BackendService,
    request: Request<Full<Bytes>>,
) -> Result<Response<Body>, BoxError> {
    let (mut parts, body) = request.into_parts();
    let message = collect_request(body).await;
    // The operation describes this request only: it must not apply to each post or be retained with the session.
    parts.extensions.remove::<McpOperation>();
    let handle = match (parts.extensions.remove::<ChannelHandle>(), &parts.method) {
        (Some(ChannelHandle(channel)), _) if channel.demultiplexer.is_closed() => {
            return Ok(empty_response(StatusCode::NOT_FOUND));
        }
        (Some(ChannelHandle(channel)), &Method::GET) => {
            let standing = UnsolicitedMessages::new(&channel.demultiplexer);
            return Ok(event_stream(Body::wrap(EventBody::standing(standing))));
        }
        (Some(ChannelHandle(channel)), &Method::DELETE) => {
            channel.close();
            return Ok(empty_response(StatusCode::NO_CONTENT));
        }
        (Some(handle), _) => handle,
        (None, &Method::POST) if is_initialize(&message) => {
            ChannelHandle(Arc::new(open::open(&inner, &parts).await?))
        }
        (None, _) => return Ok(empty_response(StatusCode::METHOD_NOT_ALLOWED)),
    };
    let timeout_control = parts.extensions.get::<TimeoutControl>().cloned();
    let poster = MessagePoster::new(inner, handle.0.endpoint.clone(), parts);
    let mut response = handle.0.send(poster, timeout_control, message).await?;
    response.extensions_mut().insert(handle);
    Ok(response)
}

async fn collect_request(body: Full<Bytes>) -> Bytes {
    let collected: Result<_, Infallible> = body.collect().await;
    match collected {
        Ok(collected) => collected.to_bytes(),
        Err(never) => match never {},
    }
}

fn is_initialize(message: &Bytes) -> bool {
    matches!(
        scan(message),
        Ok(Envelope::Request { method, .. }) if method.is(message, "initialize")
    )
}

fn empty_response(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

impl Channel {
    fn close(&self) {
        self.reader.abort();
        self.demultiplexer.close();
    }

    async fn send(
        &self,
        poster: MessagePoster,
        timeout_control: Option<TimeoutControl>,
        message: Bytes,
    ) -> Result<Response<Body>, BoxError> {
        match scan(&message) {
            Ok(Envelope::Request { id, method, params }) => {
                let method = method.read(&message).into_owned();
                let request =
                    ChannelRequest { message: message.clone(), id, method: &method, params };
                self.ask(poster, timeout_control, request).await
            }
            Ok(Envelope::Notification { method, params }) => {
                let cancels = method.is(&message, "notifications/cancelled");
                let cancelled = params.get(Key::RequestId).filter(|_| cancels);
                let response = self.notify(poster, message.clone()).await;
                if let Some(id) = cancelled {
                    self.demultiplexer.cancel(id.of(&message));
                }
                response
            }
            Ok(Envelope::Response { id, .. }) => {
                if let Some(id) = id {
                    self.demultiplexer.complete_server_request(id.of(&message));
                }
                self.notify(poster, message).await
            }
            Err(_) => {
                Err(BackendError::Malformed("nothing: the outgoing message is not valid JSON-RPC")
                    .into())
            }
        }
    }

    async fn notify(
        &self,
        poster: MessagePoster,
        message: Bytes,
    ) -> Result<Response<Body>, BoxError> {
        let rejection = poster.post(message).await?;
        Ok(rejection.map_or_else(
            || empty_response(StatusCode::ACCEPTED),
            |rejection| self.refused(rejection),
        ))
    }

    /// Returns the backend's error response. A status for an unknown session ends the session.
    fn refused(&self, response: Response<Body>) -> Response<Body> {
        if response.status() == StatusCode::NOT_FOUND {
            self.close();
        }
        response
    }

    async fn ask(
        &self,
        poster: MessagePoster,
        timeout_control: Option<TimeoutControl>,
        request: ChannelRequest<'_>,
    ) -> Result<Response<Body>, BoxError> {
        let ChannelRequest { message, id, method, params } = request;
        let permit =
            Arc::clone(&self.permits).try_acquire_owned().map_err(|_| BackendError::Busy)?;
        let queue = match self.demultiplexer.enter(&message, id, method, &params, timeout_control) {
            Ok(queue) => queue,
            Err(EnqueueError::Closed) => return Ok(empty_response(StatusCode::NOT_FOUND)),
            Err(EnqueueError::Full) => return Err(BackendError::Busy.into()),
        };
        let mut answer =
            ResponseMessages::new(Arc::clone(&self.demultiplexer), &queue, id.slice(&message));
        let mut sending = Box::pin(async move {
            let rejected = poster.post(message).await;
            drop(permit);
            rejected
        });
        let first = tokio::select! {
            biased;
            first = answer.next() => {
                // The response may arrive on the stream before the post is accepted.
                tokio::spawn(sending.in_current_span());
                first
            }
            rejected = &mut sending => match rejected? {
                None => answer.next().await,
                Some(response) => return Ok(self.refused(response)),
            }
        };
        match first {
            None if self.demultiplexer.is_closed() => Err(BackendError::Ended.into()),
            None => Err(BackendError::Cancelled.into()),
            Some(item) if item.last => Ok(json(item.message)),
            Some(item) => Ok(event_stream(Body::wrap(EventBody::answering(item, answer)))),
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.close();
    }
}

fn json(message: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(message));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl Channel {
    fn new(endpoint: Uri, demultiplexer: Arc<Demultiplexer>, reader: AbortHandle) -> Self {
        Self {
            endpoint,
            demultiplexer,
            reader,
            permits: Arc::new(Semaphore::new(MAX_PENDING_REQUESTS)),
        }
    }
}

#[cfg(test)]
mod tests;
