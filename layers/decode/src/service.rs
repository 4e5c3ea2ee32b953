//! Service that rejects invalid messages and passes valid ones on.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Full;
use tower_service::Service;
use vmcp_core::{BoxError, McpRequest, Rejection, RequestContext};
use vmcp_wire::scan;

use crate::{DecodeLayer, classify, content_negotiation};

/// Service that decodes messages before it calls `S`. See the [crate docs](crate) for an example.
///
/// The future is boxed: the body is awaited before the inner service is called.
#[derive(Clone, Debug)]
pub struct Decode<S> {
    inner: S,
    layer: DecodeLayer,
}

impl<S> Decode<S> {
    pub(crate) fn new(inner: S, layer: DecodeLayer) -> Self {
        Self { inner, layer }
    }

    /// Returns the wrapped service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Unwraps the service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, R> Service<Request<B>> for Decode<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let layer = self.layer.clone();
        Box::pin(async move {
            if request.method() != Method::POST {
                return inner.call(request.map(|_| Full::default())).await;
            }
            let (mut parts, body) = request.into_parts();
            let message = match content_negotiation::check_headers(&parts.headers) {
                Ok(()) => match layer.read_body(&parts, body).await {
                    Ok(bytes) => decode(&parts.headers, bytes),
                    Err(rejection) => Err(Box::new((rejection, None))),
                },
                Err(rejection) => Err(Box::new((rejection, None))),
            };
            match message {
                Ok(message) => {
                    let body = Full::new(message.bytes.clone());
                    if let Some(request_context) = parts.extensions.get::<RequestContext>() {
                        request_context.record_message(&message);
                    }
                    parts.extensions.insert(message);
                    inner.call(Request::from_parts(parts, body)).await
                }
                Err(rejected) => {
                    let (rejection, id) = *rejected;
                    Ok(rejection.into_response(id.as_deref()))
                }
            }
        })
    }
}

/// Rejection with the id of the rejected request. Boxed, so that results with messages stay small.
type RejectionWithId = Box<(Rejection, Option<Bytes>)>;

/// Decodes the message in `bytes`. An error has the id of the message, if it has a valid one.
fn decode(headers: &http::HeaderMap, bytes: Bytes) -> Result<McpRequest, RejectionWithId> {
    match scan(&bytes) {
        Ok(envelope) => match classify::classify(headers, &bytes, &envelope) {
            Ok(generation) => Ok(McpRequest { bytes, envelope, generation }),
            Err(rejection) => {
                let id = classify::request_id(&envelope).map(|span| span.slice(&bytes));
                Err(Box::new((rejection, id)))
            }
        },
        Err(error) => {
            let rejection = Rejection::malformed(error.kind.code(), error.kind.to_string());
            Err(Box::new((rejection, error.id.map(|span| span.slice(&bytes)))))
        }
    }
}

#[cfg(test)]
mod tests;
