//! Adapter from Streamable HTTP to the deprecated HTTP+SSE transport (MCP 2024-11-05, Transports).
//!
//! An HTTP+SSE session is one event stream, opened with GET. Its first event names the endpoint for posted messages; all
//! responses arrive on the stream. [`Adapter`] is a service in front of such a backend, so the rest of the gateway uses
//! Streamable HTTP only: `initialize` opens the stream, and its response carries a [`Lease`] in its extensions. Requests with
//! that lease in their extensions belong to the session, which ends when the last copy of the lease is dropped.

mod body;
mod desk;
mod inbox;
mod open;
mod outbox;

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
use vmcp_breaker::{
    CallResult, CircuitBreakerLayer, CircuitHandle, Classifier, DefaultClassifier, Outcome,
};
use vmcp_core::{Body, BoxError, McpOperation, NotSentError, cause_ref};
use vmcp_timeout::{TimeoutControl, TimeoutLayer};
use vmcp_wire::{Envelope, Key, Params, Span, scan};

use self::body::{Answer, Events, Standing};
use self::desk::{Desk, MOST_WAITING, NoPlace};
use self::outbox::Outbox;
use super::failure::Failure;
use crate::call::event_stream;
use crate::settings::BackendService;

/// Maximum size of an event, in bytes.
const LARGEST_EVENT: usize = 16 << 20;

/// `Service` that calls an HTTP+SSE backend.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    inner: BackendService,
}

/// Shared handle of a session. The stream ends when the last copy is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Lease(Arc<Channel>);

#[derive(Debug)]
struct Channel {
    endpoint: Uri,
    desk: Arc<Desk>,
    reader: AbortHandle,
    /// One permit for each request in flight.
    seats: Arc<Semaphore>,
}

/// Parsed request in the session.
struct Asked<'a> {
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
    let stack = ServiceBuilder::new().layer(TimeoutLayer::new(patience)).service(Adapter { inner });
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
    let gives_up = matches!(cause_ref(error), Some(Failure::Busy | Failure::Cancelled));
    let keeps_back = cause_ref::<NotSentError>(error).is_some_and(|error| error.is_local_limit);
    if gives_up || keeps_back { Outcome::Neutral } else { DefaultClassifier.classify(seen) }
}

impl Service<Request<Full<Bytes>>> for Adapter {
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
    let message = whole(body).await;
    // The operation describes this request only: it must not apply to each post or be retained with the session.
    parts.extensions.remove::<McpOperation>();
    let lease = match (parts.extensions.remove::<Lease>(), &parts.method) {
        (Some(Lease(channel)), _) if channel.desk.is_over() => {
            return Ok(plain(StatusCode::NOT_FOUND));
        }
        (Some(Lease(channel)), &Method::GET) => {
            let standing = Standing::new(&channel.desk);
            return Ok(event_stream(Body::wrap(Events::standing(standing))));
        }
        (Some(Lease(channel)), &Method::DELETE) => {
            channel.close();
            return Ok(plain(StatusCode::NO_CONTENT));
        }
        (Some(lease), _) => lease,
        (None, &Method::POST) if opens(&message) => {
            Lease(Arc::new(open::open(&inner, &parts).await?))
        }
        (None, _) => return Ok(plain(StatusCode::METHOD_NOT_ALLOWED)),
    };
    let hold = parts.extensions.get::<TimeoutControl>().cloned();
    let outbox = Outbox::new(inner, lease.0.endpoint.clone(), parts);
    let mut response = lease.0.send(outbox, hold, message).await?;
    response.extensions_mut().insert(lease);
    Ok(response)
}

async fn whole(body: Full<Bytes>) -> Bytes {
    let collected: Result<_, Infallible> = body.collect().await;
    match collected {
        Ok(collected) => collected.to_bytes(),
        Err(never) => match never {},
    }
}

fn opens(message: &Bytes) -> bool {
    matches!(
        scan(message),
        Ok(Envelope::Request { method, .. }) if method.is(message, "initialize")
    )
}

fn plain(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

impl Channel {
    fn close(&self) {
        self.reader.abort();
        self.desk.close();
    }

    async fn send(
        &self,
        outbox: Outbox,
        hold: Option<TimeoutControl>,
        message: Bytes,
    ) -> Result<Response<Body>, BoxError> {
        match scan(&message) {
            Ok(Envelope::Request { id, method, params }) => {
                let method = method.read(&message).into_owned();
                let asked = Asked { message: message.clone(), id, method: &method, params };
                self.ask(outbox, hold, asked).await
            }
            Ok(Envelope::Notification { method, params }) => {
                let cancels = method.is(&message, "notifications/cancelled");
                let cancelled = params.get(Key::RequestId).filter(|_| cancels);
                let response = self.tell(outbox, message.clone()).await;
                if let Some(id) = cancelled {
                    self.desk.cancelled(id.of(&message));
                }
                response
            }
            Ok(Envelope::Response { id, .. }) => {
                if let Some(id) = id {
                    self.desk.answered(id.of(&message));
                }
                self.tell(outbox, message).await
            }
            Err(_) => Err(Failure::Malformed("nothing: what was to be sent is no message").into()),
        }
    }

    async fn tell(&self, outbox: Outbox, message: Bytes) -> Result<Response<Body>, BoxError> {
        let refusal = outbox.post(message).await?;
        Ok(refusal.map_or_else(|| plain(StatusCode::ACCEPTED), |refusal| self.refused(refusal)))
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
        outbox: Outbox,
        hold: Option<TimeoutControl>,
        asked: Asked<'_>,
    ) -> Result<Response<Body>, BoxError> {
        let Asked { message, id, method, params } = asked;
        let seat = Arc::clone(&self.seats).try_acquire_owned().map_err(|_| Failure::Busy)?;
        let inbox = match self.desk.enter(&message, id, method, &params, hold) {
            Ok(inbox) => inbox,
            Err(NoPlace::Over) => return Ok(plain(StatusCode::NOT_FOUND)),
            Err(NoPlace::Full) => return Err(Failure::Busy.into()),
        };
        let mut answer = Answer::new(Arc::clone(&self.desk), &inbox, id.slice(&message));
        let mut posting = Box::pin(async move {
            let posted = outbox.post(message).await;
            drop(seat);
            posted
        });
        let first = tokio::select! {
            biased;
            first = answer.next() => {
                // The response may arrive on the stream before the post is accepted.
                tokio::spawn(posting);
                first
            }
            posted = &mut posting => match posted? {
                None => answer.next().await,
                Some(response) => return Ok(self.refused(response)),
            }
        };
        match first {
            None if self.desk.is_over() => Err(Failure::Ended.into()),
            None => Err(Failure::Cancelled.into()),
            Some(item) if item.last => Ok(json(item.message)),
            Some(item) => Ok(event_stream(Body::wrap(Events::answering(item, answer)))),
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
    fn new(endpoint: Uri, desk: Arc<Desk>, reader: AbortHandle) -> Self {
        Self { endpoint, desk, reader, seats: Arc::new(Semaphore::new(MOST_WAITING)) }
    }
}

#[cfg(test)]
mod tests;
