//! The deprecated HTTP+SSE transport (MCP 2024-11-05, Transports), made to look like Streamable HTTP.
//!
//! A session there is one event stream, opened with GET. Its first event names the endpoint that
//! messages are posted to; every answer comes on the stream. [`Adapter`] stands in front of such a
//! backend as a service, so that the rest of the gateway speaks Streamable HTTP to it: `initialize`
//! opens the stream, and its response carries a [`Lease`] in its extensions. Requests with that lease
//! in theirs belong to the session, which ends with the last copy of it.

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
use vmcp_core::{Body, BoxError, NotSent, Operation, cause};
use vmcp_timeout::{TimeoutControl, TimeoutLayer};
use vmcp_wire::{Envelope, Key, Params, Span, scan};

use self::body::{Answer, Events, Standing};
use self::desk::{Desk, MOST_WAITING, NoPlace};
use self::outbox::Outbox;
use super::failure::Failure;
use crate::call::event_stream;
use crate::settings::BackendService;

/// The largest event, in bytes.
const LARGEST_EVENT: usize = 16 << 20;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    inner: BackendService,
}

/// A session. The stream ends with the last copy.
#[derive(Clone, Debug)]
pub(crate) struct Lease(Arc<Channel>);

#[derive(Debug)]
struct Channel {
    endpoint: Uri,
    desk: Arc<Desk>,
    reader: AbortHandle,
    /// One for each request that is under way.
    seats: Arc<Semaphore>,
}

/// A request in the session, as it came.
struct Asked<'a> {
    message: Bytes,
    id: Span,
    method: &'a str,
    params: Params,
}

/// What reaches an HTTP+SSE backend that `inner` reaches.
///
/// The layers of `inner` see the stream and the posts, not the answers: the wait for those is bounded
/// here, by `patience` for each message.
///
/// So does the `breaker`: a post that was accepted says nothing of the answer.
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

/// What came of a request, as far as the circuit is concerned. What this side keeps back or gives up says nothing.
fn classify(seen: CallResult<'_>) -> Outcome {
    let CallResult::Error(error) = seen else { return DefaultClassifier.classify(seen) };
    let gives_up = matches!(cause(error), Some(Failure::Busy | Failure::Cancelled));
    let keeps_back = cause::<NotSent>(error).is_some_and(|error| error.is_own_limit);
    if gives_up || keeps_back { Outcome::Neutral } else { DefaultClassifier.classify(seen) }
}

impl Service<Request<Full<Bytes>>> for Adapter {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each post waits for readiness by itself.
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
    // It is not that of each post, and not to be kept for as long as the session.
    parts.extensions.remove::<Operation>();
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
            Ok(Envelope::Answer { id, .. }) => {
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

    /// The backend's own refusal. One that doesn't know the session has ended it.
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
                // A backend may be done before it says that it has begun.
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
