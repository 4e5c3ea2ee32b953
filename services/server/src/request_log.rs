//! Middleware that logs each request that fails, and with `logLevel: debug` each request.

mod rate;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;
use vmcp_core::{
    Backend, Body, BoxError, Identity, McpRequest, MediaType, Rejection, RequestContext,
};
use vmcp_wire::Key;

use self::rate::LineRate;

/// The most characters of a name in a line.
const MAX_NAME: usize = 128;

/// Makes [`RequestLog`].
#[derive(Clone, Debug, Default)]
pub struct RequestLogLayer(Arc<LineRate>);

/// Logs the requests to `S` that fail: the caller, the tool, the backend, the status, the duration and the layer that
/// refused. At most 100 lines a second; the next line says how many were left out.
#[derive(Clone, Debug)]
pub struct RequestLog<S> {
    inner: S,
    rate: Arc<LineRate>,
}

/// Waits for the head of the response.
#[derive(Debug)]
pub struct ResponseFuture<F> {
    inner: F,
    entry: Option<LogEntry>,
}

/// A request under way.
#[derive(Debug)]
struct LogEntry {
    rate: Arc<LineRate>,
    request_context: RequestContext,
    method: Method,
    began: Instant,
}

impl<S> Layer<S> for RequestLogLayer {
    type Service = RequestLog<S>;

    fn layer(&self, inner: S) -> RequestLog<S> {
        RequestLog { inner, rate: Arc::clone(&self.0) }
    }
}

impl<S, B> Service<Request<B>> for RequestLog<S>
where
    S: Service<Request<B>, Response = Response<Body>, Future: Unpin>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let entry = LogEntry {
            rate: Arc::clone(&self.rate),
            request_context: RequestContext::of(request.extensions_mut()),
            method: request.method().clone(),
            began: Instant::now(),
        };
        ResponseFuture { inner: self.inner.call(request), entry: Some(entry) }
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<Body>, E>> + Unpin,
{
    type Output = Result<Response<Body>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(Pin::new(&mut self.inner).poll(cx))?;
        let Some(entry) = self.entry.take() else { return Poll::Ready(Ok(response)) };
        let status = response.status();
        let rejection = response.extensions().get::<Rejection>();
        let is_complete = rejection.is_some()
            || !status.is_success()
            || MediaType::of(response.headers()) != MediaType::EventStream;
        if is_complete || entry.method != Method::POST {
            entry.log(status, rejection);
            return Poll::Ready(Ok(response));
        }
        // The error of a call may come at the end of its stream.
        let entry = Some((entry, status));
        Poll::Ready(Ok(response.map(|inner| Body::wrap(LoggedBody { inner, entry }))))
    }
}

impl LogEntry {
    fn log(&self, status: StatusCode, rejection: Option<&Rejection>) {
        if rejection.is_some() || !status.is_success() || self.request_context.error().is_some() {
            if let Some(left_out) = self.rate.admit() {
                self.log_failure(status, rejection, left_out);
            }
        } else if tracing::enabled!(tracing::Level::DEBUG) {
            let (method, name) = self.operation();
            tracing::debug!(
                caller = self.caller(),
                method,
                name,
                backend = self.request_context.backend().map(Backend::name),
                status = status.as_u16(),
                duration_ms = self.milliseconds(),
                "request"
            );
        }
    }

    fn log_failure(&self, status: StatusCode, rejection: Option<&Rejection>, left_out: u64) {
        let (method, name) = self.operation();
        let error = rejection.map(Rejection::message);
        let code =
            rejection.map(|rejection| i64::from(rejection.code())).or(self.request_context.error());
        // A hidden name is answered like an unknown one; the log says which it was.
        let refused_by = match (self.request_context.denied(), rejection) {
            (Some(_), _) => "authorization",
            (None, Some(_)) if status == StatusCode::UNAUTHORIZED => "authentication",
            (None, Some(rejection)) => rejection.layer(),
            (None, None) => "backend",
        };
        tracing::warn!(
            caller = self.caller(),
            method,
            name,
            backend = self.request_context.backend().map(Backend::name),
            status = status.as_u16(),
            code,
            duration_ms = self.milliseconds(),
            refused_by,
            error,
            denied = self.request_context.denied(),
            left_out = (left_out > 0).then_some(left_out),
            "request failed"
        );
    }

    fn caller(&self) -> Option<&str> {
        self.request_context.identity().and_then(Identity::subject)
    }

    /// The method of MCP, or else of HTTP, and the name that a call is about.
    fn operation(&self) -> (String, Option<String>) {
        let Some(message) = self.request_context.message() else {
            return (self.method.to_string(), None);
        };
        let name = name(message).map(|name| name.chars().take(MAX_NAME).collect());
        (message.method().chars().take(MAX_NAME).collect(), name)
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

fn name(message: &McpRequest) -> Option<String> {
    let key = match &*message.method() {
        "tools/call" | "prompts/get" => Key::Name,
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => Key::Uri,
        _ => return None,
    };
    Some(message.text(key)?.read(&message.bytes).into_owned())
}

/// A body whose end is logged.
struct LoggedBody {
    inner: Body,
    entry: Option<(LogEntry, StatusCode)>,
}

impl http_body::Body for LoggedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for LoggedBody {
    fn drop(&mut self) {
        if let Some((entry, status)) = self.entry.take() {
            entry.log(status, None);
        }
    }
}

#[cfg(test)]
mod tests;
