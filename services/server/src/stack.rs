//! The default stacks, one function each. The order of layers matters: the comment at each layer gives the reason for
//! its position, and a test in `tests/stack_order.rs` checks it.

mod erased;
mod optional;

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::MatchedPath;
use http::{Request, Response};
use tower::ServiceBuilder;
use tower::util::{Either, MapErrLayer, option_layer};
use tower_layer::Layer;
use tower_service::Service;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::BackendService;
use vmcp_audit::AuditLayer;
use vmcp_authn::{AuthenticationLayer, Authenticator};
use vmcp_authz::AuthorizationLayer;
use vmcp_aws_sts::{AwsStsLayer, CredentialCache, Sts};
use vmcp_breaker::{
    CallResult, CircuitBreakerLayer, CircuitHandle, CircuitOpen, Classifier, DefaultClassifier,
    Outcome,
};
use vmcp_cedar::Cedar;
use vmcp_core::{Body, BoxError, CredentialError, NotSentError, cause_ref};
use vmcp_decode::DecodeLayer;
use vmcp_egress::{Client, RedirectLayer};
use vmcp_header_injection::{Credential, HeaderInjectionLayer, StaticHeadersLayer};
use vmcp_telemetry::trace_context::MetaPropagation;
use vmcp_telemetry::{ClientTelemetryLayer, Route, ServerTelemetryLayer};
use vmcp_timeout::{Elapsed, TimeoutLayer};
use vmcp_token_exchange::{CachedExchange, RetryOnUnauthorized, TokenEndpoint, TokenExchangeLayer};

pub use self::erased::{Answering, Erased};
pub use self::optional::{Core, Door};
use crate::auth_audit::VisitLayer;
use crate::guard::{CatchPanic, CatchPanicLayer, Crowd, CrowdLayer, Hosts, HostsLayer};
use crate::legacy_sse::{Clients, OldClients};
use crate::request_log::{RequestLog, RequestLogLayer};

/// Service of the MCP endpoint.
pub type McpService = CatchPanic<RequestLog<Either<Erased, Crowd<Hosts<Door<Core>>>>>>;

/// Service of the deprecated HTTP+SSE transport.
pub type OldService =
    CatchPanic<RequestLog<Either<Erased, Crowd<Hosts<Door<OldClients<CatchPanic<Core>>>>>>>>;

/// The layers around the aggregating service.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// Metrics and traces; `None` disables them.
    pub telemetry: Option<ServerTelemetryLayer>,
    /// Log of failed requests.
    pub log: RequestLogLayer,
    /// Limit of concurrent requests.
    pub crowd: CrowdLayer,
    /// Allowed hosts and origins.
    pub hosts: HostsLayer,
    /// Audit; `None` disables it.
    pub audit: Option<AuditLayer>,
    /// Authentication layer; `None` treats all callers as anonymous.
    pub authenticate: Option<AuthenticationLayer<Arc<dyn Authenticator>>>,
    /// Decoder of messages.
    pub decode: DecodeLayer,
    /// Authorization layer; `None` permits everything.
    pub authorize: Option<AuthorizationLayer<Cedar>>,
}

impl Incoming {
    /// Returns the incoming stack, outermost layer first.
    #[must_use]
    pub fn stack(self, gateway: Gateway) -> McpService {
        let core = self.core(&self.decode, gateway);
        let Self { telemetry, log, crowd, hosts, audit, authenticate, decode: _, authorize: _ } =
            self;
        let inner = ServiceBuilder::new()
            // Shed load first, before any per-request work.
            .layer(crowd)
            // Before the body is read, so that pages of foreign origins get nothing parsed. CORS preflights carry
            // neither a body nor a token and are handled here.
            .layer(hosts)
            // Around authentication, so that rejected callers are audited. Before the decoder, so that bodies of
            // unauthenticated callers are not parsed.
            .service(door(audit, authenticate, core));
        // Outermost, so that a panic fails one request and does not close the connection. Log and metrics are next, so
        // that rejections of the concurrency limit are logged and counted.
        CatchPanicLayer.layer(log.layer(watched(telemetry, inner)))
    }

    /// Returns the stack of the deprecated HTTP+SSE transport, outermost layer first. Messages are decoded and
    /// authorized as on the MCP endpoint.
    pub(crate) fn old(self, clients: Arc<Clients>, gateway: Gateway) -> OldService {
        // The legacy transport already charges messages to the byte budget.
        let core = self.core(&self.decode.clone().without_budget(), gateway);
        let Self { telemetry, log, crowd, hosts, audit, authenticate, decode: _, authorize: _ } =
            self;
        let inner = ServiceBuilder::new()
            // The same order as above: these paths read bodies too, and a stream belongs to the caller that opened it.
            .layer(crowd)
            .layer(hosts)
            .service(door(
                audit,
                authenticate,
                OldClients::new(CatchPanicLayer.layer(core), clients),
            ));
        CatchPanicLayer.layer(log.layer(watched(telemetry, inner)))
    }

    /// Returns the decoder and the authorization layer, which run after authentication.
    fn core(&self, decode: &DecodeLayer, gateway: Gateway) -> Core {
        // The decoder comes before authorization, which needs the decoded message. Authorization is innermost, because
        // the gateway asks it for each list entry and route.
        match self.authorize.clone() {
            None => Core::Open(decode.layer(gateway)),
            Some(authorize) => Core::Judged(decode.layer(authorize.layer(gateway))),
        }
    }
}

/// The layers around the authorization server.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    /// Metrics and traces; `None` disables them.
    pub(crate) telemetry: Option<ServerTelemetryLayer>,
    /// Log of failed requests.
    pub(crate) log: RequestLogLayer,
    /// Limit of concurrent requests.
    pub(crate) crowd: CrowdLayer,
    /// Allowed hosts.
    pub(crate) hosts: HostsLayer,
    /// Layer that records request fields for audit events.
    pub(crate) visits: VisitLayer,
}

impl Front {
    /// Returns the service of the authorization server, outermost layer first.
    pub(crate) fn stack(self, pages: axum::Router) -> McpService {
        let Self { telemetry, log, crowd, hosts, visits } = self;
        // Innermost: the router sets the path template as a label. The path itself may hold secrets and is not
        // recorded.
        let pages = Erased::new(pages.layer(axum::middleware::from_fn(routed)), Body::wrap);
        let inner = ServiceBuilder::new()
            // The same order as on the MCP endpoint, but with any origin: the server sets CORS headers by endpoint, and
            // none of its CORS endpoints uses cookies.
            .layer(crowd)
            .layer(hosts.of_any_origin())
            // Around the router, so that each audit event has the fields of its request. Inside the limits, whose
            // rejections cause no such events.
            .service(Erased::new(visits.layer(pages), |body| body));
        CatchPanicLayer.layer(log.layer(Either::Left(match telemetry {
            None => Erased::new(inner, |body| body),
            Some(layer) => Erased::new(layer.layer(inner), Body::wrap),
        })))
    }
}

/// Adds the matched route to the response.
async fn routed(
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

fn watched<S>(telemetry: Option<ServerTelemetryLayer>, inner: S) -> Either<Erased, S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    match telemetry {
        None => Either::Right(inner),
        Some(layer) => Either::Left(Erased::new(layer.layer(inner), Body::wrap)),
    }
}

/// Classifies an error for the metrics label.
fn word(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    if cause_ref::<CircuitOpen>(error).is_some() {
        return Some("circuit_open");
    }
    if cause_ref::<Elapsed>(error).is_some() {
        return Some("timeout");
    }
    cause_ref::<CredentialError>(error).map(|_| "credentials")
}

fn door<S>(
    audit: Option<AuditLayer>,
    authenticate: Option<AuthenticationLayer<Arc<dyn Authenticator>>>,
    inner: S,
) -> Door<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    Door::Guarded(match (audit, authenticate) {
        (None, None) => return Door::Open(inner),
        // Only event streams have a different body type, because they end when the token expires.
        (None, Some(known)) => {
            Erased::new(known.layer(inner), |body| body.try_into_inner().unwrap_or_else(Body::wrap))
        }
        (Some(audit), None) => Erased::new(audit.layer(inner), Body::wrap),
        (Some(audit), Some(known)) => Erased::new(audit.layer(known.layer(inner)), Body::wrap),
    })
}

/// The layers around the connection to one backend.
#[derive(Clone, Debug)]
pub struct Outgoing {
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

impl Outgoing {
    /// Returns the outgoing stack, innermost layer first.
    #[must_use]
    pub fn stack(self) -> BackendService {
        let Self { telemetry, breaker, credentials, headers, timeouts, client } = self;
        // Outside the credentials, so that the target of a redirect gets credentials of its own. Redirects are followed
        // within the same origin and for 307 and 308 only, because the body is sent again unchanged.
        let redirects = RedirectLayer::new(client.origin().clone());
        // Around the connection alone: the timeout applies to the backend's next frame. Credential providers have
        // timeouts of their own.
        let connection = timeouts.layer(MapErrLayer::new(unsent).layer(client));
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
            Some(breaker) => {
                BackendService::new(CircuitBreakerLayer::new(breaker).classify(class).layer(stack))
            }
        };
        // Outermost, so that rejections of an open circuit are counted.
        match telemetry {
            None => stack,
            Some(layer) => measured(stack, layer),
        }
    }
}

/// Adds metrics and traces to a backend's service.
pub(crate) fn measured(service: BackendService, telemetry: ClientTelemetryLayer) -> BackendService {
    BackendService::new(telemetry.classify(word).propagator(MetaPropagation).layer(service))
}

/// Classifies a result for the circuit breaker. Errors from limits of the gateway are neutral.
fn class(seen: CallResult<'_>) -> Outcome {
    match seen {
        CallResult::Error(error)
            if cause_ref::<NotSentError>(error).is_some_and(|error| error.is_local_limit) =>
        {
            Outcome::Neutral
        }
        seen => DefaultClassifier.classify(seen),
    }
}

/// Marks errors of requests that were not sent, which the backend cannot have acted on.
fn unsent(error: BoxError) -> BoxError {
    match cause_ref::<vmcp_egress::Error>(error.as_ref()) {
        Some(vmcp_egress::Error::Overloaded { .. }) => NotSentError::by_local_limit(error).into(),
        Some(known) if !known.sent() => NotSentError::new(error).into(),
        _ => error,
    }
}
