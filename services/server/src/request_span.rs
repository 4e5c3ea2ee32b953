//! Span of a request, so that each log line that the request causes shows the request, its trace and its caller.
//!
//! The span has the level DEBUG, because an enabled one costs 18 % more instructions for a plain call, and 25 % for a call
//! through all layers (`just instructions`): the subscriber stores and formats it. `logLevel: debug` enables it, and `RUST_LOG=info,vmcp_server::request_span=debug` does
//! without the other debug events. A disabled span costs two comparisons with the maximum level and no allocation.

use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::Either;
use http::{HeaderMap, HeaderName, Request, Response};
use http_body::{Frame, SizeHint};
use tower_layer::Layer;
use tower_service::Service;
use tracing::field::Empty;
use tracing::{Instrument, Level, Span};
use vmcp_auth_store::Digest;
use vmcp_core::{Body, BoxError, Identity, RequestContext};
use vmcp_telemetry::trace_context::TraceContext;

/// Header with the identifier that a reverse proxy or a client gave to the request. Audit events contain it, too.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of an identifier from a header, in bytes.
const MAX_REQUEST_ID: usize = 128;

/// Number of characters of a caller's digest, enough to tell callers apart.
const CALLER_DIGEST: usize = 16;

/// Layer that handles each request within a span with `request_id`, `trace_id` and `caller_hash`. Inner
/// [`SpanFieldsLayer`]s record the fields that are unknown before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestSpanLayer;

/// Middleware of [`RequestSpanLayer`].
#[derive(Clone, Debug)]
pub(crate) struct RequestSpan<S>(S);

/// Layer that records a field of the request's span.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SpanFieldsLayer {
    /// The digest of the caller. Behind authentication.
    Caller,
    /// The trace, if no header names one: that of the message or a new one. Behind the decoder.
    Trace,
}

/// Middleware of [`SpanFieldsLayer`].
#[derive(Clone, Debug)]
pub(crate) struct SpanFields<S> {
    inner: S,
    field: SpanFieldsLayer,
}

type SpannedFuture<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

/// Streaming body whose frames are read, and which is dropped, within the span.
struct SpannedBody {
    inner: Body,
    span: Span,
}

impl<S> Layer<S> for RequestSpanLayer {
    type Service = RequestSpan<S>;

    fn layer(&self, inner: S) -> RequestSpan<S> {
        RequestSpan(inner)
    }
}

impl<S, B> Service<Request<B>> for RequestSpan<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, SpannedFuture<S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let span = request_span(request.headers());
        if span.is_disabled() {
            return Either::Left(self.0.call(request));
        }
        let response = span.in_scope(|| self.0.call(request));
        let body_span = span.clone();
        let respond = async move { Ok(response.await?.map(|body| spanned(body, body_span))) };
        Either::Right(Box::pin(respond.instrument(span)))
    }
}

impl<S> Layer<S> for SpanFieldsLayer {
    type Service = SpanFields<S>;

    fn layer(&self, inner: S) -> SpanFields<S> {
        SpanFields { inner, field: *self }
    }
}

impl<S, B> Service<Request<B>> for SpanFields<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        if tracing::enabled!(Level::DEBUG) {
            match self.field {
                SpanFieldsLayer::Caller => record_caller(&request),
                SpanFieldsLayer::Trace => record_trace(&request),
            }
        }
        self.inner.call(request)
    }
}

/// Returns the span of a request. The fields are evaluated only if it is enabled.
fn request_span(headers: &HeaderMap) -> Span {
    tracing::debug_span!(
        "request",
        request_id = request_id(headers),
        trace_id = TraceContext::from_headers(headers).map(|context| trace_id(&context)),
        caller_hash = Empty,
    )
}

/// Returns the identifier in the header, or a new one: a number of this process and the number of the request.
fn request_id(headers: &HeaderMap) -> String {
    // Relaxed: each request takes another number, in any order.
    static LAST: AtomicU64 = AtomicU64::new(0);
    static PROCESS: OnceLock<u32> = OnceLock::new();
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    if let Some(given) = given.filter(|given| (1..=MAX_REQUEST_ID).contains(&given.len())) {
        return given.to_owned();
    }
    let process = PROCESS.get_or_init(|| {
        let mut bytes = [0; 4];
        // Identifiers of two processes may be equal without random numbers, which the log tolerates.
        _ = getrandom::fill(&mut bytes);
        u32::from_ne_bytes(bytes)
    });
    format!("{process:08x}-{}", LAST.fetch_add(1, Ordering::Relaxed) + 1)
}

fn trace_id(context: &TraceContext) -> String {
    format!("{:032x}", context.trace_id())
}

fn record_caller<B>(request: &Request<B>) {
    let caller = request.extensions().get::<Identity>();
    if let Some(subject) = caller.and_then(Identity::subject) {
        let issuer = caller.and_then(Identity::issuer).unwrap_or_default();
        Span::current().record("caller_hash", caller_hash(issuer, subject));
    }
}

fn record_trace<B>(request: &Request<B>) {
    if TraceContext::from_headers(request.headers()).is_none()
        && let Some(request_context) = request.extensions().get::<RequestContext>()
        && let Some(context) = vmcp_telemetry::trace_context_of(request_context)
    {
        Span::current().record("trace_id", trace_id(context));
    }
}

/// Returns a digest of the caller: lines with the same digest are of the same caller, on all replicas.
fn caller_hash(issuer: &str, subject: &str) -> String {
    let digest = Digest::of(["log\0", issuer, "\0", subject].concat()).to_text();
    digest.chars().take(CALLER_DIGEST).collect()
}

/// Returns the body within the span. Bytes that are available cause no log lines.
fn spanned(inner: Body, span: Span) -> Body {
    if http_body::Body::is_end_stream(&inner) || inner.bytes().is_some() {
        return inner;
    }
    Body::wrap(SpannedBody { inner, span })
}

impl http_body::Body for SpannedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let _entered = this.span.enter();
        Pin::new(&mut this.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for SpannedBody {
    fn drop(&mut self) {
        // The request log writes its line as the body is dropped.
        let _entered = self.span.enter();
        self.inner = Body::empty();
    }
}

#[cfg(test)]
mod tests;
