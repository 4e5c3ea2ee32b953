//! Telemetry of requests to the gateway: one span and one measurement each, up to the end of the response body.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::metrics::ErrorType;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::ResponseBody;
use crate::recorder::Inner;
use crate::request_observer::RequestObserver;

/// Applies [`ServerTelemetry`] to requests. Created by [`Recorder::server_layer`](crate::Recorder::server_layer); see
/// the [crate docs](crate) for an example.
///
/// Reads `traceparent` and `tracestate`, the facts that inner layers record in the request's
/// [`RequestContext`](vmcp_core::RequestContext), and the [`Rejection`](vmcp_core::Rejection) in the response extensions.
/// Inserts an observed `RequestContext` into the request extensions. Rejects no requests.
#[derive(Clone, Debug)]
pub struct ServerTelemetryLayer {
    recorder: Arc<Inner>,
    is_mcp: bool,
}

/// Telemetry middleware for a server. See [`ServerTelemetryLayer`].
#[derive(Clone, Debug)]
pub struct ServerTelemetry<S> {
    inner: S,
    recorder: Arc<Inner>,
    is_mcp: bool,
}

pin_project! {
    /// Response future of [`ServerTelemetry`].
    #[derive(Debug)]
    pub struct ServerResponseFuture<F> {
        #[pin]
        inner: F,
        observer: Option<RequestObserver>,
    }
}

impl ServerTelemetryLayer {
    pub(crate) fn new(recorder: Arc<Inner>, is_mcp: bool) -> Self {
        Self { recorder, is_mcp }
    }
}

impl<S> Layer<S> for ServerTelemetryLayer {
    type Service = ServerTelemetry<S>;

    fn layer(&self, inner: S) -> ServerTelemetry<S> {
        ServerTelemetry { inner, recorder: Arc::clone(&self.recorder), is_mcp: self.is_mcp }
    }
}

impl<S, B, R> Service<Request<B>> for ServerTelemetry<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: http_body::Body,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ServerResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let observer = RequestObserver::server(&self.recorder, &mut request, self.is_mcp);
        ServerResponseFuture { inner: self.inner.call(request), observer }
    }
}

impl<F, R, E> Future for ServerResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: http_body::Body,
{
    type Output = Result<Response<ResponseBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let result = ready!(this.inner.poll(cx));
        let mut observer = this.observer.take();
        Poll::Ready(match result {
            Ok(response) => {
                if let Some(observer) = &mut observer {
                    observer.on_response(&response);
                }
                Ok(response.map(|body| ResponseBody::new(body, observer)))
            }
            Err(error) => {
                if let Some(observer) = &mut observer {
                    observer.end(ErrorType::BROKEN);
                }
                Err(error)
            }
        })
    }
}

#[cfg(test)]
mod tests;
