//! The default stacks, one function each. The order of layers matters: the comment at each layer gives the reason for
//! its position, and a test in `tests/stack_order.rs` checks it.

mod mcp_service;

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::MatchedPath;
use bytes::Bytes;
use http::{Request, Response};
use tower::ServiceBuilder;
use tower::util::{Either, MapErrLayer, option_layer};
use tower_http::map_response_body::MapResponseBodyLayer;
use tower_layer::Layer;
use tower_service::Service;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::{BackendService, ServiceWrapper};
use vmcp_audit::AuditLayer;
use vmcp_authn::{AuthenticationLayer, Authenticator};
use vmcp_authz::{Authorization, AuthorizationLayer};
use vmcp_aws_sts::{AwsStsLayer, CredentialCache, Sts};
use vmcp_breaker::{
    CallResult, CircuitBreakerLayer, CircuitHandle, CircuitOpen, Classifier, DefaultClassifier,
    Outcome,
};
use vmcp_cedar::Cedar;
use vmcp_core::{Body, BoxError, CredentialError, NotSentError, cause_ref};
use vmcp_decode::{Decode, DecodeLayer};
use vmcp_egress::{Client, RedirectLayer};
use vmcp_header_injection::{Credential, HeaderInjectionLayer, StaticHeadersLayer};
use vmcp_http_guard::{AllowedHostsLayer, CatchPanicLayer, ConcurrencyLimitLayer};
use vmcp_legacy_sse::{ClientTable, LegacySse};
use vmcp_telemetry::trace_context::MetaPropagation;
use vmcp_telemetry::{ClientTelemetryLayer, Route, ServerTelemetryLayer};
use vmcp_timeout::{Elapsed, TimeoutLayer};
use vmcp_token_exchange::{CachedExchange, RetryOnUnauthorized, TokenEndpoint, TokenExchangeLayer};

pub use self::mcp_service::{BoxResponseFuture, McpService};
use crate::auth_audit::RequestInfoLayer;
use crate::request_log::RequestLogLayer;
use crate::request_span::{RequestSpanLayer, SpanFields, SpanFieldsLayer};
use crate::workflow_runs::WorkflowRuns;

/// The layers around the aggregating service.
#[derive(Clone, Debug)]
pub struct IncomingLayers {
    /// Metrics and traces; `None` disables them.
    pub telemetry: Option<ServerTelemetryLayer>,
    /// Log of failed requests.
    pub log: RequestLogLayer,
    /// Limit of concurrent requests.
    pub concurrency_limit: ConcurrencyLimitLayer,
    /// Allowed hosts and origins.
    pub allowed_hosts: AllowedHostsLayer,
    /// Audit; `None` disables it.
    pub audit: Option<AuditLayer>,
    /// Authentication layer; `None` treats all callers as anonymous.
    pub authenticate: Option<AuthenticationLayer<Arc<dyn Authenticator>>>,
    /// Decoder of messages.
    pub decode: DecodeLayer,
    /// Authorization layer; `None` permits everything.
    pub authorize: Option<AuthorizationLayer<Cedar>>,
}

/// The layers that all endpoints for clients have.
struct EdgeLayers {
    log: RequestLogLayer,
    telemetry: Option<ServerTelemetryLayer>,
    concurrency_limit: ConcurrencyLimitLayer,
    allowed_hosts: AllowedHostsLayer,
}

impl IncomingLayers {
    /// Returns the incoming stack for requests with bodies of type `B`.
    #[must_use]
    pub fn stack<B>(self, gateway: Gateway) -> McpService<B>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let messages = messages(self.decode.clone(), self.authorize.clone(), gateway);
        self.around(messages)
    }

    /// Returns the stack of the deprecated HTTP+SSE transport. Its messages pass the same layers as on the MCP endpoint.
    pub(crate) fn legacy_sse<B>(self, clients: Arc<ClientTable>, gateway: Gateway) -> McpService<B>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        // The legacy transport already charges messages to the byte budget.
        let decode = self.decode.clone().without_budget();
        let messages = messages(decode, self.authorize.clone(), gateway);
        // The result of a message arrives on the stream of its client: a panic fails the message, not the stream.
        let messages = CatchPanicLayer.layer(messages);
        self.around(LegacySse::new(messages, clients))
    }

    /// Returns the stack of the caller's runs. They have no messages, so neither the decoder nor policies see them.
    pub(crate) fn workflow_runs<B>(self, gateway: Gateway) -> McpService<B>
    where
        B: Send + 'static,
    {
        self.around(WorkflowRuns::new(gateway))
    }

    /// Returns the layers before the decoder, outermost first, around `inner`.
    fn around<S, B>(self, inner: S) -> McpService<B>
    where
        S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + Unpin,
        B: Send + 'static,
    {
        let Self {
            telemetry,
            log,
            concurrency_limit,
            allowed_hosts,
            audit,
            authenticate,
            decode: _,
            authorize: _,
        } = self;
        let authenticated = ServiceBuilder::new()
            // Around authentication, so that rejected callers are audited.
            .option_layer(audit.map(|layer| (MapResponseBodyLayer::new(Body::wrap), layer)))
            // Before the decoder, so that bodies of unauthenticated callers are not parsed. Only event streams get another
            // body, which ends when the token expires; other bodies are unwrapped.
            .option_layer(authenticate.map(|layer| (MapResponseBodyLayer::new(unwrap_body), layer)))
            // As soon as the caller is known.
            .layer(SpanFieldsLayer::Caller)
            .service(inner);
        EdgeLayers { log, telemetry, concurrency_limit, allowed_hosts }.around(authenticated)
    }
}

impl EdgeLayers {
    /// Returns the layers, outermost first, around `inner`.
    fn around<S, B>(self, inner: S) -> McpService<B>
    where
        S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + Unpin,
        B: Send + 'static,
    {
        let Self { log, telemetry, concurrency_limit, allowed_hosts } = self;
        let stack = ServiceBuilder::new()
            // Outermost, so that all log lines of the request are within its span.
            .layer(RequestSpanLayer)
            // Around the other layers, so that a panic fails one request and does not close the connection.
            .layer(CatchPanicLayer)
            // Log and metrics are next, so that rejections of the concurrency limit are logged and counted.
            .layer(log)
            .option_layer(telemetry.map(|layer| (MapResponseBodyLayer::new(Body::wrap), layer)))
            // Shed load first, before any per-request work.
            .layer(concurrency_limit)
            // Before the body is read, so that pages of foreign origins get nothing parsed. CORS preflights carry
            // neither a body nor a token and are handled here.
            .layer(allowed_hosts)
            .service(inner);
        McpService::new(stack)
    }
}

/// Returns the decoder and the authorization layer, which run after authentication, around `gateway`.
fn messages(
    decode: DecodeLayer,
    authorize: Option<AuthorizationLayer<Cedar>>,
    gateway: Gateway,
) -> Decode<SpanFields<Either<Authorization<Gateway, Cedar>, Gateway>>> {
    ServiceBuilder::new()
        // Before authorization, which needs the decoded message.
        .layer(decode)
        // As soon as the message is known, because its metadata may name the trace.
        .layer(SpanFieldsLayer::Trace)
        // Innermost, because the gateway asks it for each list entry and route.
        .option_layer(authorize)
        .service(gateway)
}

/// Returns the body of a response that authentication left unchanged without boxing it again.
fn unwrap_body(body: vmcp_authn::ResponseBody<Body>) -> Body {
    body.try_into_inner().unwrap_or_else(Body::wrap)
}

/// The layers around the authorization server.
#[derive(Clone, Debug)]
pub(crate) struct AuthServerLayers {
    /// Metrics and traces; `None` disables them.
    pub(crate) telemetry: Option<ServerTelemetryLayer>,
    /// Log of failed requests.
    pub(crate) log: RequestLogLayer,
    /// Limit of concurrent requests.
    pub(crate) concurrency_limit: ConcurrencyLimitLayer,
    /// Allowed hosts.
    pub(crate) allowed_hosts: AllowedHostsLayer,
    /// Layer that records request fields for audit events.
    pub(crate) request_info: RequestInfoLayer,
}

impl AuthServerLayers {
    /// Returns the service of the authorization server.
    pub(crate) fn stack<B>(self, pages: axum::Router) -> McpService<B>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let Self { telemetry, log, concurrency_limit, allowed_hosts, request_info } = self;
        // The server sets CORS headers by endpoint, and none of its CORS endpoints uses cookies.
        let allowed_hosts = allowed_hosts.with_any_origin();
        let pages = ServiceBuilder::new()
            // Around the router, so that each audit event has the fields of its request. Inside the limits, whose
            // rejections cause no such events.
            .layer(request_info)
            .map_future(Box::pin)
            .layer(MapResponseBodyLayer::new(Body::wrap))
            // Innermost: the router sets the path template as a label. The path itself may hold secrets and is not
            // recorded.
            .service(pages.layer(axum::middleware::from_fn(record_route)));
        EdgeLayers { log, telemetry, concurrency_limit, allowed_hosts }.around(pages)
    }
}

/// Adds the matched route to the response.
async fn record_route(
    path: Option<MatchedPath>,
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> axum::response::Response {
    let mut response = next.run(request).await;
    if let Some(path) = path {
        response.extensions_mut().insert(Route(path.as_str().into()));
    }
    response
}

/// Classifies an error for the metrics label.
fn error_label(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    if cause_ref::<CircuitOpen>(error).is_some() {
        return Some("circuit_open");
    }
    if cause_ref::<Elapsed>(error).is_some() {
        return Some("timeout");
    }
    cause_ref::<CredentialError>(error).map(|_| "credentials")
}

/// The layers around the connection to one backend.
#[derive(Clone, Debug)]
pub struct OutgoingLayers {
    /// Metrics and traces; `None` disables them.
    pub telemetry: Option<ClientTelemetryLayer>,
    /// Circuit breaker, if enabled.
    pub breaker: Option<CircuitHandle>,
    /// Credentials for the backend.
    pub credentials: Credentials,
    /// Static headers of each request, if there are any.
    pub headers: Option<StaticHeadersLayer>,
    /// Timeouts.
    pub timeouts: TimeoutLayer,
    /// HTTP client of the backend.
    pub client: Client,
}

/// Credentials for a backend: one strategy of seed section 5.2.
#[derive(Clone, Debug, Default)]
pub enum Credentials {
    /// No credentials.
    #[default]
    None,
    /// A header: fixed, or the caller's token of an upstream provider.
    Header(HeaderInjectionLayer<Credential, RetryOnUnauthorized>),
    /// A token from a token exchange with the caller's token.
    Exchange(TokenExchangeLayer<CachedExchange<TokenEndpoint>, RetryOnUnauthorized>),
    /// A SigV4 signature with the credentials of an AWS role.
    Sts(AwsStsLayer<CredentialCache<Sts>>),
}

impl OutgoingLayers {
    /// Returns the outgoing stack, innermost layer first.
    #[must_use]
    pub fn stack(self) -> BackendService {
        let Self { telemetry, breaker, credentials, headers, timeouts, client } = self;
        // Outside the credentials, so that the target of a redirect gets credentials of its own. Redirects are followed
        // within the same origin and for 307 and 308 only, because the body is sent again unchanged.
        let redirects = RedirectLayer::new(client.origin().clone());
        // Around the connection alone: the timeout applies to the backend's next frame. Credential providers have
        // timeouts of their own.
        let connection = timeouts.layer(MapErrLayer::new(mark_not_sent).layer(client));
        // Outside the credentials, so that a signature covers these headers. Inside the redirects, so that the target
        // of a redirect gets them as well.
        let headers = option_layer(headers);
        // Innermost of the layers that change a request: a signature covers the final request.
        let stack = match credentials {
            Credentials::None => BackendService::new(redirects.layer(headers.layer(connection))),
            Credentials::Header(layer) => {
                BackendService::new(redirects.layer(headers.layer(layer.layer(connection))))
            }
            Credentials::Exchange(layer) => {
                BackendService::new(redirects.layer(headers.layer(layer.layer(connection))))
            }
            Credentials::Sts(layer) => {
                BackendService::new(redirects.layer(headers.layer(layer.layer(connection))))
            }
        };
        // Outside the credentials, so that an open circuit requests no tokens. Outside the timeout, so that a timeout
        // counts as a failure.
        let stack = match breaker {
            None => stack,
            Some(breaker) => BackendService::new(
                CircuitBreakerLayer::new(breaker).classify(classify_call).layer(stack),
            ),
        };
        // Outermost, so that rejections of an open circuit are counted.
        match telemetry {
            None => stack,
            Some(layer) => with_client_telemetry(stack, layer),
        }
    }

    /// Returns the outgoing stack of a backend with the deprecated HTTP+SSE transport, and the layers around the exchange of
    /// a request for its result.
    ///
    /// The response to a POST does not carry the result, which arrives on the stream. So telemetry belongs around the
    /// exchange, and the aggregating service applies the circuit breaker to the stream.
    pub(crate) fn legacy_sse_stack(self) -> (BackendService, ServiceWrapper) {
        let around = self.telemetry.map_or_else(ServiceWrapper::default, |layer| {
            ServiceWrapper::new(move |service| with_client_telemetry(service, layer.clone()))
        });
        (Self { telemetry: None, breaker: None, ..self }.stack(), around)
    }
}

/// Adds metrics and traces to a backend's service.
fn with_client_telemetry(
    service: BackendService,
    telemetry: ClientTelemetryLayer,
) -> BackendService {
    BackendService::new(telemetry.classify(error_label).propagator(MetaPropagation).layer(service))
}

/// Classifies a result for the circuit breaker. Errors from limits of the gateway are neutral.
fn classify_call(result: CallResult<'_>) -> Outcome {
    match result {
        CallResult::Error(error)
            if cause_ref::<NotSentError>(error).is_some_and(|error| error.is_local_limit) =>
        {
            Outcome::Neutral
        }
        result => DefaultClassifier.classify(result),
    }
}

/// Marks errors of requests that were not sent, which the backend cannot have acted on.
fn mark_not_sent(error: BoxError) -> BoxError {
    match cause_ref::<vmcp_egress::Error>(error.as_ref()) {
        Some(vmcp_egress::Error::Overloaded { .. }) => NotSentError::by_local_limit(error).into(),
        Some(authentication) if !authentication.sent() => NotSentError::new(error).into(),
        _ => error,
    }
}
