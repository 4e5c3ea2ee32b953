//! Routing of requests by path.

mod admin_access;
mod backends;
mod response_future;
mod status;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tower_service::Service;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::status::CacheSizes;
use vmcp_audit::AuditLayer;
use vmcp_audit_log::LogHandle;
use vmcp_core::{Body, ByteBudget, Rejection};
use vmcp_decode::DecodeLayer;
use vmcp_telemetry_export::Telemetry;

pub(crate) use self::admin_access::Access;
pub use self::admin_access::{AdminToken, AdminTokenError};
pub(crate) use self::response_future::Answering;
use crate::auth_audit::{Logins, VisitLayer};
use crate::guard::{CrowdLayer, HostsLayer};
use crate::legacy_sse::{Clients, MESSAGES, STREAM};
use crate::memory_gauges::Held;
use crate::parts::{About, Guards, Measures, Recorded, Recording};
use crate::request_log::RequestLogLayer;
use crate::serve::{ConnectionLimit, Exposure, Issuer, Quiet, Reloads, Ticket};
use crate::stack::{self, McpService, OldService};
use crate::stream_scope::StreamScope;

/// HTTP service of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    pub(crate) shared: Arc<Shared>,
    /// Address of the peer.
    pub(crate) peer: SocketAddr,
    /// Access to the administration endpoints on this listener.
    pub(crate) access: Access,
    /// `true` if the listener serves only the administration endpoints.
    pub(crate) is_admin: bool,
    /// Ticket of a connection in the reserve, which serves only probes until a regular place is free.
    pub(crate) ticket: Option<Ticket>,
}

/// State that all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) fixed: Fixed,
    pub(crate) stacks: arc_swap::ArcSwap<Stacks>,
    pub(crate) about: arc_swap::ArcSwap<About>,
    pub(crate) reloads: Reloads,
    pub(crate) draining: AtomicBool,
    /// Set once, when each backend of the first configuration has responded, failed or timed out.
    pub(crate) settled: Arc<AtomicBool>,
    pub(crate) connections: Arc<std::sync::atomic::AtomicUsize>,
    pub(crate) limit: ConnectionLimit,
    pub(crate) held: Mutex<Held>,
    /// Audit logs of earlier configurations, to which requests under way still write.
    pub(crate) retired_logs: Mutex<Vec<LogHandle>>,
}

/// State that a reload does not change.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(crate) telemetry: Option<Telemetry>,
    /// `true` if clients of the server can read the metrics.
    pub(crate) shows_metrics: bool,
    pub(crate) measures: Option<Measures>,
    pub(crate) crowd: CrowdLayer,
    /// Log of failed requests, with one rate limit for all stacks.
    pub(crate) log: RequestLogLayer,
    /// Allowed hosts that the configuration cannot change.
    pub(crate) hosts: HostsLayer,
    pub(crate) exposure: Exposure,
    pub(crate) decode: DecodeLayer,
    /// Budget of buffered message bytes.
    pub(crate) budget: ByteBudget,
    pub(crate) old: Arc<Clients>,
    pub(crate) gateway: Gateway,
    /// Recorder of the authorization server's audit events.
    pub(crate) logins: Arc<Logins>,
    pub(crate) recorded: Recorded,
}

/// Services that handle requests, replaced on reload. A request completes on the stack that it began on.
#[derive(Debug)]
pub(crate) struct Stacks {
    mcp: McpService,
    old: OldService,
    /// Allowed hosts.
    hosts: HostsLayer,
    pub(crate) guards: Guards,
    pub(crate) recording: Option<Recording>,
    /// Ends the streams of this configuration when a reload does not keep them.
    pub(crate) streams: StreamScope,
    /// The authorization server and its stack.
    issuer: Option<(Issuer, McpService)>,
}

impl Stacks {
    /// Returns the authorization server, if there is one.
    pub(crate) fn issuer(&self) -> Option<&Issuer> {
        self.issuer.as_ref().map(|(issuer, _)| issuer)
    }
}

impl Fixed {
    pub(crate) fn stacks(
        &self,
        guards: Guards,
        recording: Option<Recording>,
        issuer: Option<Issuer>,
        streams: StreamScope,
    ) -> Stacks {
        self.logins.go_to(recording.as_ref().map(|recording| &recording.auditor));
        if guards.authorize.is_some()
            && self.shows_metrics
            && let Some(telemetry) = &self.telemetry
        {
            // Policies may hide a tool from those who can read the metrics.
            telemetry.hide_names();
        }
        let hosts = self.hosts.with_own(guards.own_hosts().to_vec());
        let incoming = stack::Incoming {
            telemetry: self.telemetry.as_ref().map(Telemetry::incoming),
            log: self.log.clone(),
            crowd: self.crowd.clone(),
            hosts: hosts.clone(),
            audit: recording.as_ref().map(|recording| AuditLayer::new(recording.auditor.clone())),
            authenticate: guards.authenticate.clone(),
            decode: self.decode.clone(),
            authorize: guards.authorize.clone(),
        };
        let old = incoming.clone().old(Arc::clone(&self.old), self.gateway.clone());
        let issuer = issuer.map(|issuer| {
            let pages = issuer.router().fallback(async || {
                document(StatusCode::NOT_FOUND, &json!({"error": "not_found"}))
                    .map(axum::body::Body::new)
            });
            let front = stack::Front {
                telemetry: self.telemetry.as_ref().map(Telemetry::endpoints),
                log: self.log.clone(),
                crowd: self.crowd.clone(),
                hosts: hosts.clone(),
                visits: VisitLayer(Arc::clone(&self.logins)),
            };
            (issuer, front.stack(pages))
        });
        let mcp = incoming.stack(self.gateway.clone());
        Stacks { mcp, old, hosts, guards, recording, streams, issuer }
    }
}

/// Paths of health probes.
const PROBES: [&str; 4] = ["/livez", "/readyz", "/health", "/ping"];

/// Service that handles a request.
enum Kind<'a> {
    Mcp,
    Old,
    Issuer(&'a McpService),
}

impl hyper::service::Service<Request<Incoming>> for Routes {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let mut request = request.map(Quiet);
        if self.is_admin {
            return self.admin(&request);
        }
        let path = request.uri().path();
        if let Some(ticket) = &self.ticket
            && !PROBES.contains(&path)
            && !ticket.admit()
        {
            return Answering::Done(Some(all_connections_are_busy()));
        }
        let stacks = self.shared.stacks.load();
        let issuer = stacks.issuer.as_ref().filter(|_| !is_own_path(path));
        let kind = match path {
            "/mcp" => Kind::Mcp,
            STREAM | MESSAGES => Kind::Old,
            "/status" | "/metrics" | "/api/backends/health" => return self.admin(&request),
            _ => match issuer {
                Some((_, stack)) => Kind::Issuer(stack),
                None => return Answering::Done(Some(self.small(&request))),
            },
        };
        let source = self.source(request.headers());
        request.extensions_mut().insert(source);
        let is_get = request.method() == http::Method::GET;
        let (future, scope) = match kind {
            Kind::Mcp => (stacks.mcp.clone().call(request), Some(stacks.streams.clone())),
            Kind::Old => (stacks.old.clone().call(request), Some(stacks.streams.clone())),
            Kind::Issuer(stack) => {
                request.extensions_mut().insert(self.shared.fixed.budget.clone());
                (stack.clone().call(request), None)
            }
        };
        Answering::Mcp { future, scope, is_get }
    }
}

/// Returns `true` if the path is not a path of the authorization server.
pub(crate) fn is_own_path(path: &str) -> bool {
    const OWN: [&str; 9] =
        ["/mcp", STREAM, MESSAGES, "/livez", "/health", "/ping", "/readyz", "/status", "/metrics"];
    OWN.contains(&path)
        || path == "/api/backends/health"
        || path.starts_with("/.well-known/oauth-protected-resource")
}

impl Routes {
    /// Returns the client address, from `X-Forwarded-For` behind trusted proxies. Otherwise all clients behind a proxy
    /// would share one rate limit.
    fn source(&self, headers: &http::HeaderMap) -> SocketAddr {
        let trusted = self.shared.fixed.recorded.trusted_proxies;
        let address = vmcp_audit::forwarded_for(headers, trusted);
        SocketAddr::new(address.unwrap_or(self.peer.ip()), self.peer.port())
    }

    /// Handles the administration endpoints on blocking threads, because rendering would delay the event loop.
    fn admin(&self, request: &Request<Quiet<Incoming>>) -> Answering {
        let (headers, path) = (request.headers(), request.uri().path());
        let mut hosts = self.shared.stacks.load().hosts.clone();
        if self.access.is_loopback {
            hosts = hosts.on_loopback();
        }
        let refused = match path {
            // Probes may send any host.
            "/livez" | "/readyz" => return Answering::Done(Some(self.small(request))),
            "/metrics" => {
                let known = hosts.check_host(request.uri(), headers);
                known.map(|()| self.access.refuse_metrics(headers))
            }
            _ => hosts.check(request.uri(), headers).map(|_| self.access.refuse(headers)),
        };
        let refused = refused.unwrap_or_else(|refusal| Some(refusal.into_response(None)));
        if refused.is_some() {
            return Answering::Done(refused);
        }
        let (shared, path) = (Arc::clone(&self.shared), path.to_owned());
        Answering::Rendering(tokio::task::spawn_blocking(move || shared.admin(&path)))
    }

    /// Handles the endpoints that respond immediately.
    fn small(&self, request: &Request<Quiet<Incoming>>) -> Response<Body> {
        let shared = &self.shared;
        let path = request.uri().path();
        let is_probe = PROBES.contains(&path);
        let hosts = shared.stacks.load().hosts.clone();
        if !is_probe && let Err(refusal) = hosts.check_host(request.uri(), request.headers()) {
            return refusal.into_response(None);
        }
        match path {
            "/livez" | "/health" | "/ping" => document(StatusCode::OK, &json!({"status": "ok"})),
            "/readyz" if shared.draining.load(Ordering::Acquire) => {
                document(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "draining"}))
            }
            "/readyz" if !shared.settled.load(Ordering::Acquire) => {
                document(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "starting"}))
            }
            "/readyz" => document(StatusCode::OK, &json!({"status": "ready", "mode": "static"})),
            // Requests from a browser, or with a wrong trailing slash.
            "/" | "/mcp/" | "/sse/" => {
                let message = "MCP clients connect to /mcp; /status tells how the server does";
                document(StatusCode::NOT_FOUND, &json!({"error": "not_found", "message": message}))
            }
            path => self
                .resource(request.method(), path)
                // Clients probe for an authorization server and expect an error as JSON.
                .unwrap_or_else(|| document(StatusCode::NOT_FOUND, &json!({"error": "not_found"}))),
        }
    }

    /// Returns the protected resource metadata (RFC 9728), if tokens are required.
    fn resource(&self, method: &http::Method, path: &str) -> Option<Response<Body>> {
        self.shared.stacks.load().guards.resource.as_ref()?.response(method, path)
    }
}

impl Shared {
    pub(crate) fn new(
        fixed: Fixed,
        stacks: Stacks,
        settled: Arc<AtomicBool>,
        about: About,
        limit: ConnectionLimit,
        held: Held,
    ) -> Self {
        Self {
            fixed,
            stacks: Arc::new(stacks).into(),
            about: arc_swap::ArcSwap::from_pointee(about),
            reloads: Reloads::default(),
            draining: AtomicBool::new(false),
            settled,
            connections: Arc::default(),
            limit,
            held: Mutex::new(held),
            retired_logs: Mutex::default(),
        }
    }

    /// Keeps an audit log open for the requests under way that still write to it.
    pub(crate) fn retire(&self, log: LogHandle) {
        let mut retired = self.retired_logs.lock().unwrap_or_else(PoisonError::into_inner);
        retired.retain(|log| !log.is_finished());
        retired.push(log);
    }

    /// Returns the audit logs of earlier configurations that are still in use.
    pub(crate) fn retired_logs(&self) -> Vec<LogHandle> {
        self.retired_logs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds gauges.
    pub(crate) fn hold(&self, more: Held) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take_over(more);
    }

    /// Returns the number of entries in caches and tables, by kind.
    pub(crate) fn held(&self) -> BTreeMap<&'static str, usize> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner).counts();
        let CacheSizes {
            list_views,
            caller_offers,
            distinct_offers,
            caller_catalogs,
            stateless_sessions,
            listeners,
            detached_bytes,
        } = self.fixed.gateway.cache_sizes();
        held.extend([
            ("list_views", list_views),
            ("caller_offers", caller_offers),
            ("different_offers", distinct_offers),
            ("caller_catalogs", caller_catalogs),
            ("shared_sessions", stateless_sessions),
            ("subscription_streams", listeners),
            ("detached_bytes", detached_bytes),
            ("old_client_streams", self.fixed.old.len()),
            ("message_bytes", self.fixed.budget.counts().held),
        ]);
        if let Some(recording) = &self.stacks.load().recording {
            held.insert("audit_queue_bytes", recording.log.queued_bytes());
        }
        held
    }
}

pub(crate) fn transport(transport: vmcp_aggregate::settings::Transport) -> &'static str {
    match transport {
        vmcp_aggregate::settings::Transport::Sse => "sse",
        vmcp_aggregate::settings::Transport::StreamableHttp => "streamable-http",
    }
}

/// Returns the response for a connection beyond the limit, which is then closed.
fn all_connections_are_busy() -> Response<Body> {
    let message = "all connections are in use (--max-connections): try again in 1 s";
    let mut response = Rejection::overloaded(message, 1).into_response::<Body>(None);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn document(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(value.to_string())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
