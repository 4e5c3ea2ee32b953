//! Routing of requests by path.

mod admin_access;
mod backends;
mod response_future;
mod state;
mod status;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;
use tower_service::Service;
use vmcp_core::{Body, Rejection};
use vmcp_legacy_sse::{MESSAGES_PATH, STREAM_PATH};
use vmcp_listener::{ConnectionPermit, QuietBody};

pub(crate) use self::admin_access::AdminAccess;
pub use self::admin_access::{AdminToken, AdminTokenError};
pub(crate) use self::response_future::EndpointFuture;
pub(crate) use self::state::{ServerState, StaticState};
use crate::json_response::json_response;
use crate::paths::{PROBE_PATHS, is_own_path, is_workflows_path};
use crate::stack::McpService;

/// HTTP service of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    pub(crate) shared: Arc<ServerState>,
    /// Address of the peer.
    pub(crate) peer: SocketAddr,
    /// Access to the administration endpoints on this listener.
    pub(crate) access: AdminAccess,
    /// `true` if the listener serves only the administration endpoints.
    pub(crate) is_admin: bool,
    /// Permit of a connection in the reserve, which serves only probes until a regular place is free.
    pub(crate) permit: Option<ConnectionPermit>,
}

/// Body of a request on a connection.
pub(crate) type RequestBody = QuietBody<Incoming>;

/// Service that handles a request.
enum Endpoint<'a> {
    Mcp,
    LegacySse,
    WorkflowRuns,
    AuthServer(&'a McpService<RequestBody>),
}

impl hyper::service::Service<Request<Incoming>> for Routes {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = EndpointFuture;

    fn call(&self, request: Request<Incoming>) -> EndpointFuture {
        let mut request = request.map(QuietBody);
        if self.is_admin {
            return self.admin(&request);
        }
        let path = request.uri().path();
        if let Some(permit) = &self.permit
            && !PROBE_PATHS.contains(&path)
            && !permit.admit()
        {
            return EndpointFuture::Immediate(Some(connection_limit_reached()));
        }
        let reloadable = self.shared.reloadable.load();
        let issuer = reloadable.issuer.as_ref().filter(|_| !is_own_path(path));
        let kind = match path {
            "/mcp" => Endpoint::Mcp,
            STREAM_PATH | MESSAGES_PATH => Endpoint::LegacySse,
            "/status" | "/metrics" | "/api/backends/health" => return self.admin(&request),
            path if is_workflows_path(path) => Endpoint::WorkflowRuns,
            _ => match issuer {
                Some((_, stack)) => Endpoint::AuthServer(stack),
                None => return EndpointFuture::Immediate(Some(self.handle_builtin(&request))),
            },
        };
        let source = self.source(request.headers());
        request.extensions_mut().insert(source);
        let is_get = request.method() == http::Method::GET;
        let (future, scope) = match kind {
            Endpoint::Mcp => {
                (reloadable.mcp.clone().call(request), Some(reloadable.streams.clone()))
            }
            Endpoint::LegacySse => {
                (reloadable.legacy_sse.clone().call(request), Some(reloadable.streams.clone()))
            }
            Endpoint::WorkflowRuns => (reloadable.workflow_runs.clone().call(request), None),
            Endpoint::AuthServer(stack) => {
                request.extensions_mut().insert(self.shared.state.budget.clone());
                (stack.clone().call(request), None)
            }
        };
        EndpointFuture::Stack { future, scope, is_get }
    }
}

impl Routes {
    /// Returns the client address, from `X-Forwarded-For` behind trusted proxies. Otherwise all clients behind a proxy
    /// would share one rate limit.
    fn source(&self, headers: &http::HeaderMap) -> SocketAddr {
        let trusted = self.shared.state.audit_options.trusted_proxies;
        let address = vmcp_audit::forwarded_for(headers, trusted);
        SocketAddr::new(address.unwrap_or(self.peer.ip()), self.peer.port())
    }

    /// Handles the administration endpoints on blocking threads, because rendering would delay the event loop.
    fn admin(&self, request: &Request<RequestBody>) -> EndpointFuture {
        let (headers, path) = (request.headers(), request.uri().path());
        let mut allowed_hosts = self.shared.reloadable.load().allowed_hosts.clone();
        if self.access.is_loopback {
            allowed_hosts = allowed_hosts.on_loopback();
        }
        let rejection = match path {
            // Probes may send any host.
            "/livez" | "/readyz" => {
                return EndpointFuture::Immediate(Some(self.handle_builtin(request)));
            }
            "/metrics" => {
                let known = allowed_hosts.check_host(request.uri(), headers);
                known.map(|()| self.access.reject_metrics(headers))
            }
            _ => allowed_hosts.check(request.uri(), headers).map(|()| self.access.reject(headers)),
        };
        let rejection = rejection.unwrap_or_else(|rejection| Some(rejection.into_response(None)));
        if rejection.is_some() {
            return EndpointFuture::Immediate(rejection);
        }
        let (shared, path) = (Arc::clone(&self.shared), path.to_owned());
        EndpointFuture::Blocking(tokio::task::spawn_blocking(move || shared.admin(&path)))
    }

    /// Handles the endpoints that respond immediately.
    fn handle_builtin(&self, request: &Request<RequestBody>) -> Response<Body> {
        let shared = &self.shared;
        let path = request.uri().path();
        let is_probe = PROBE_PATHS.contains(&path);
        let allowed_hosts = shared.reloadable.load().allowed_hosts.clone();
        if !is_probe
            && let Err(rejection) = allowed_hosts.check_host(request.uri(), request.headers())
        {
            return rejection.into_response(None);
        }
        match path {
            "/livez" | "/health" | "/ping" => {
                json_response(StatusCode::OK, &json!({"status": "ok"}))
            }
            "/readyz" if shared.draining.load(Ordering::Acquire) => {
                json_response(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "draining"}))
            }
            "/readyz" if !shared.readiness.is_ready() => {
                json_response(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "starting"}))
            }
            "/readyz" => {
                let is_discovered = shared.info.load().is_discovered;
                let mode = if is_discovered { "discovered" } else { "static" };
                let mut body = json!({"status": "ready", "mode": mode});
                // Not a reason to take the replica out: all replicas would go, and clients without sessions need no storage.
                if let Some(storage) = &shared.state.session_storage {
                    body["session_storage"] = storage.status().into();
                }
                json_response(StatusCode::OK, &body)
            }
            // Requests from a browser, or with a wrong trailing slash.
            "/" | "/mcp/" | "/sse/" => {
                let message = "MCP clients connect to /mcp; /status tells how the server does";
                json_response(
                    StatusCode::NOT_FOUND,
                    &json!({"error": "not_found", "message": message}),
                )
            }
            path => self
                .resource(request.method(), path)
                // Clients probe for an authorization server and expect an error as JSON.
                .unwrap_or_else(|| {
                    json_response(StatusCode::NOT_FOUND, &json!({"error": "not_found"}))
                }),
        }
    }

    /// Returns the protected resource metadata (RFC 9728), if tokens are required.
    fn resource(&self, method: &http::Method, path: &str) -> Option<Response<Body>> {
        self.shared.reloadable.load().incoming_auth.resource.as_ref()?.response(method, path)
    }
}

/// Returns the response for a connection beyond the limit, which is then closed.
fn connection_limit_reached() -> Response<Body> {
    let message = "all connections are in use (--max-connections): try again in 1 s";
    let mut response = Rejection::overloaded(message, 1).into_response::<Body>(None);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
