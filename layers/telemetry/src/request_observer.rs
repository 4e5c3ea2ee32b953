//! Observation of one request, as a server or a client, until it is recorded.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::metrics::{
    BackendMetrics, BoundInstruments, ClientSeries, ErrorType, Outcome, legacy_action,
};
use crate::trace_context::TraceContext;
use http::{HeaderMap, HeaderName, Request, Response};
use opentelemetry::trace::{SpanKind, Status};
use tokio::time::Instant;
use vmcp_core::{
    Caller, Generation, McpOperation, McpRequest, MediaType, Rejection, RequestContext, STATEFUL,
    STATELESS,
};
use vmcp_wire::Key;

use crate::EndedSpan;
use crate::attributes::{Attributes, RequestHead, Route};
use crate::recorder::Inner;
use crate::response_error::{frame_error, response_error};
use crate::trace_link::{SpanPosition, TraceLink};

const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Observer of one request. Records it at the end of the response body, or on drop: as cancelled, unless it is a
/// backend's response that has begun. A client that has read its response may leave the rest of a stream.
pub(crate) struct RequestObserver {
    recorder: Arc<Inner>,
    side: Side,
    start: Instant,
    outcome: Outcome,
    media: MediaType,
    size: u64,
    is_ended: bool,
}

enum Side {
    Server(ServerRequest),
    Client(ClientRequest),
}

/// Request to the gateway.
struct ServerRequest {
    request_context: RequestContext,
    trace_link: Option<Arc<TraceLink>>,
    /// Kept if spans are recorded.
    head: Option<Box<RequestHead>>,
    /// Set if the gateway itself rejected the request.
    rejected: bool,
    is_mcp: bool,
    route: Option<Route>,
}

/// Request to a backend.
struct ClientRequest {
    metrics: Arc<BackendMetrics>,
    bound: Arc<BoundInstruments<ClientSeries>>,
    /// Kept if the span is recorded.
    position: Option<Box<SpanPosition>>,
}

impl RequestObserver {
    /// Observes a request to the gateway; `None` without metrics and spans.
    pub(crate) fn server<B>(
        recorder: &Arc<Inner>,
        request: &mut Request<B>,
        is_mcp: bool,
    ) -> Option<Self> {
        let header = TraceContext::from_headers(request.headers());
        let (has_meter, is_tracing) = (recorder.has_meter, recorder.spans.is_some());
        if !has_meter && !is_tracing && header.is_none() {
            return None;
        }
        let request_context = RequestContext::of(request.extensions_mut());
        let trace_link =
            (is_tracing || header.is_some()).then(|| Arc::new(TraceLink::new(recorder, header)));
        match &trace_link {
            Some(trace_link) => request_context.set_extension(Arc::clone(trace_link)),
            // Marks the request context as observed, for metrics only.
            None => request_context.set_extension(Arc::clone(recorder)),
        }
        if !has_meter && !is_tracing {
            return None;
        }
        if is_mcp {
            recorder.server.request_started();
        }
        let headers = request.headers();
        let head = || Box::new(RequestHead::new(request.method(), request.uri(), headers));
        let head = is_tracing.then(head);
        let protocol_version = headers.get(REVISION).and_then(|protocol_version| {
            STATEFUL.into_iter().find(|cached| protocol_version.as_bytes() == cached.as_bytes())
        });
        let outcome = Outcome {
            http_method: Outcome::http_method(request.method()),
            http_version: Outcome::http_version(request.version()),
            protocol_version: protocol_version.unwrap_or_default(),
            ..Outcome::default()
        };
        let side = Side::Server(ServerRequest {
            request_context,
            trace_link,
            head,
            rejected: false,
            is_mcp,
            route: None,
        });
        Some(Self::new(recorder, side, outcome))
    }

    /// Observes a request to a backend.
    pub(crate) fn client<B>(
        recorder: &Arc<Inner>,
        metrics: Arc<BackendMetrics>,
        request: &Request<B>,
        position: Option<SpanPosition>,
    ) -> Self {
        let bound = if let Some(operation) = request.extensions().get::<McpOperation>() {
            metrics.bind(operation.method(), operation.name().as_deref())
        } else {
            let headers = request.headers();
            let method = headers.get(METHOD).and_then(|method| method.to_str().ok());
            metrics.bind(method.unwrap_or_default(), plain_name(headers))
        };
        let is_gateway = matches!(request.extensions().get(), Some(Caller::Gateway));
        let outcome = Outcome {
            http_method: Outcome::http_method(request.method()),
            is_gateway,
            ..Outcome::default()
        };
        let position = position.filter(SpanPosition::sampled).map(Box::new);
        Self::new(recorder, Side::Client(ClientRequest { metrics, bound, position }), outcome)
    }

    fn new(recorder: &Arc<Inner>, side: Side, outcome: Outcome) -> Self {
        let (recorder, start) = (Arc::clone(recorder), Instant::now());
        Self { recorder, side, start, outcome, media: MediaType::Other, size: 0, is_ended: false }
    }

    pub(crate) fn on_response<R>(&mut self, response: &Response<R>) {
        self.outcome.status = response.status().as_u16();
        self.outcome.error_type = response_error(response);
        self.media = MediaType::of(response.headers());
        match &mut self.side {
            Side::Server(server_request) => {
                server_request.rejected = response.extensions().get::<Rejection>().is_some();
                server_request.route = response.extensions().get::<Route>().cloned();
            }
            Side::Client(_) => {
                self.outcome.http_version = Outcome::http_version(response.version());
            }
        }
    }

    /// Inspects a chunk of the response body.
    pub(crate) fn on_data(&mut self, data: &[u8], size: usize) {
        self.size += size as u64;
        if self.outcome.error_type == ErrorType::None && self.media != MediaType::Other {
            self.outcome.error_type = frame_error(self.media, data);
        }
    }

    /// Records the request. `error_type` applies unless an error was found before.
    pub(crate) fn end(&mut self, error_type: ErrorType) {
        if std::mem::replace(&mut self.is_ended, true) {
            return;
        }
        if self.outcome.error_type == ErrorType::None {
            self.outcome.error_type = error_type;
        }
        let duration = self.start.elapsed();
        let span = match &self.side {
            Side::Server(server_request) => {
                server_request.end(&self.recorder, &mut self.outcome, duration, self.size)
            }
            Side::Client(client_request) => {
                client_request.end(&self.recorder, self.outcome, duration, self.size)
            }
        };
        if let (Some(span), Some(spans)) = (span, &self.recorder.spans) {
            spans.record(span);
        }
    }
}

impl ServerRequest {
    fn end(
        &self,
        recorder: &Inner,
        outcome: &mut Outcome,
        duration: Duration,
        size: u64,
    ) -> Option<EndedSpan> {
        if self.is_mcp {
            recorder.server.request_ended();
        }
        let position =
            self.trace_link.as_ref().map(|trace_link| trace_link.position(&self.request_context));
        let position = position.filter(|position| recorder.spans.is_some() && position.sampled());
        if !recorder.has_meter && position.is_none() {
            return None;
        }
        let message = self.request_context.message();
        if message.is_some_and(|message| message.generation == Generation::Stateless) {
            outcome.protocol_version = STATELESS;
        }
        let method = message.map(McpRequest::method).unwrap_or_default();
        let name = message.and_then(|message| Some(message.text(Key::Name)?.read(&message.bytes)));
        // A backend handled the name, or the response is not an error: the name exists.
        let is_known = self.request_context.backend().is_some()
            || (!self.rejected && matches!(outcome.error_type, ErrorType::None | ErrorType::TOOL));
        let bound = recorder.server.bind(&method, name.as_deref(), is_known);
        let route = self.route.as_ref().map(|Route(route)| &**route);
        if recorder.has_meter && self.is_mcp {
            recorder.server.record(&bound, *outcome, duration.as_secs_f64());
        } else if recorder.has_meter {
            recorder.http.record(route, *outcome, duration.as_secs_f64());
        }
        let position = position?;
        let mut attributes = Attributes::new(recorder.legacy);
        if let Some(head) = &self.head {
            attributes.head(head, self.is_mcp, route);
        }
        if self.is_mcp {
            attributes.operation(bound.method(), bound.name(), outcome);
            attributes.request_context(&recorder.name, &self.request_context);
        }
        if let Some(message) = message {
            attributes.message(message);
        }
        attributes.outcome(outcome, size, duration);
        let name = match route {
            Some(route) => format!("{} {route}", outcome.http_method),
            None => span_name(bound.method(), bound.name(), outcome.http_method),
        };
        span(position, name, SpanKind::Server, duration, attributes, outcome)
    }
}

impl ClientRequest {
    fn end(
        &self,
        recorder: &Inner,
        outcome: Outcome,
        duration: Duration,
        size: u64,
    ) -> Option<EndedSpan> {
        let Self { metrics, bound, position } = self;
        if recorder.has_meter {
            metrics.record(bound, outcome, duration.as_secs_f64());
        }
        let position = position.as_ref()?;
        let mut attributes = Attributes::new(recorder.legacy);
        attributes.operation(bound.method(), bound.name(), &outcome);
        attributes.backend(
            metrics.backend().name(),
            legacy_action(bound.method()),
            outcome.http_method,
        );
        attributes.outcome(&outcome, size, duration);
        let name = span_name(bound.method(), bound.name(), outcome.http_method);
        span(position, name, SpanKind::Client, duration, attributes, &outcome)
    }
}

impl Drop for RequestObserver {
    fn drop(&mut self) {
        let on_response = matches!(self.side, Side::Client(_)) && self.outcome.status != 0;
        self.end(if on_response { ErrorType::None } else { ErrorType::CANCELLED });
    }
}

impl fmt::Debug for RequestObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

/// Creates a span that ends now.
fn span(
    position: &SpanPosition,
    name: String,
    kind: SpanKind,
    duration: Duration,
    attributes: Attributes,
    outcome: &Outcome,
) -> Option<EndedSpan> {
    let end = SystemTime::now();
    Some(EndedSpan {
        context: position.context.clone()?,
        parent: position.parent.clone(),
        parent_is_remote: position.is_remote,
        name,
        kind,
        start: end.checked_sub(duration).unwrap_or(end),
        end,
        attributes: attributes.finish(),
        status: status(outcome),
    })
}

/// Returns the span name: the method and the name of the tool or prompt, without URIs and paths.
fn span_name(method: &str, name: Option<&str>, http_method: &str) -> String {
    match (method, name) {
        ("", _) => http_method.to_owned(),
        (method, Some(name)) => format!("{method} {name}"),
        (method, None) => method.to_owned(),
    }
}

/// A rejection is the client's error and leaves the status unset (OpenTelemetry conventions for HTTP).
fn status(outcome: &Outcome) -> Status {
    match outcome.error_type {
        ErrorType::None => Status::Ok,
        ErrorType::CANCELLED => Status::Unset,
        _ if outcome.is_expected() => Status::Unset,
        _ if (400..500).contains(&outcome.status) => Status::Unset,
        _ => Status::error(""),
    }
}

/// Returns the `Mcp-Name` header, unless it is encoded (MCP 2026-07-28, Value Encoding).
fn plain_name(headers: &HeaderMap) -> Option<&str> {
    headers.get(NAME)?.to_str().ok().filter(|name| !name.starts_with("=?"))
}
