//! Listeners, reload and graceful shutdown.

mod accept_error;
mod activity;
mod address_limit;
mod admin;
mod auth_server;
mod connection;
mod connection_limit;
mod drain;
mod exposure;
mod gauges;
mod head_timer;
mod memory_limit;
mod reload;
mod seal_key;
mod send_timeout;
mod wake_filter;
mod worker_pool;

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::time::Instant;
use vmcp_aggregate::settings::Limits;
use vmcp_aggregate::{Gateway, Seal};
use vmcp_core::ByteBudget;
use vmcp_decode::DecodeLayer;
use vmcp_egress::Egress;

use self::accept_error::AcceptErrors;
use self::activity::Activity;
use self::address_limit::Shares;
pub(crate) use self::admin::AdminAddress;
pub(crate) use self::auth_server::Issuer;
pub use self::auth_server::IssuerError;
use self::connection::connection;
pub(crate) use self::connection_limit::{ConnectionLimit, RESERVE, Ticket};
use self::drain::drain;
pub(crate) use self::exposure::Exposure;
pub use self::exposure::ExposureError;
pub(crate) use self::memory_limit::default_budget;
pub use self::reload::{NamedFiles, Reloads};
pub use self::seal_key::{SealKey, SealKeyError};
pub(crate) use self::wake_filter::Quiet;
use self::worker_pool::Lanes;
use crate::auth_audit::Logins;
use crate::guard::{CrowdLayer, HostsLayer};
use crate::legacy_sse::Clients;
use crate::parts::{Issuing, Measures, Parts, Recorded};
use crate::routes::{Access, Fixed, Routes, Shared};
pub use crate::routes::{AdminToken, AdminTokenError};
use crate::stream_scope::StreamScope;

/// Listeners and limits of a server. The configuration holds all other settings.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of the main listener.
    pub address: SocketAddr,
    /// Accepted hosts besides those of the loopback interface.
    pub allowed_hosts: Vec<String>,
    /// Origins of pages that may send requests.
    pub allowed_origins: Vec<String>,
    /// Additional address for `/status`, `/metrics` and `/api/backends/health`. The default for a server on a network
    /// address is 127.0.0.1:4484.
    pub admin_address: Option<SocketAddr>,
    /// Token for these endpoints. Without a token, a main listener on a network address serves only `/metrics`.
    pub admin_token: Option<AdminToken>,
    /// Accept requests from other machines with `incomingAuth` of type `anonymous`.
    pub allow_anonymous_network: bool,
    /// Maximum number of connections. 256 more are accepted for `/livez` and `/readyz`; other requests on them get 503.
    pub connections: usize,
    /// Maximum number of concurrent requests.
    pub requests: usize,
    /// Maximum size of a client's message, in bytes.
    pub message_bytes: usize,
    /// Maximum number of bytes in buffered messages, apart from messages of up to 4 KiB. One caller may take half of
    /// the bytes that other callers leave. At least twice `message_bytes`.
    pub buffered_bytes: usize,
    /// Time that connections get to finish after the signal to stop.
    pub drain: Duration,
    /// Number of worker threads, each with its own connections. `None` handles requests on the runtime that runs the
    /// server. Call [`vmcp_core::set_worker_count`] with this number before the parts are built; otherwise the workers share
    /// connections to backends.
    pub threads: Option<NonZeroUsize>,
    /// Keys that seal the state which stateless clients carry between requests. The first key seals, all keys open.
    /// Without keys, the process generates a random one that no other replica knows.
    pub seal_keys: Vec<SealKey>,
    /// Audit options.
    pub recorded: Recorded,
    /// Limits of the aggregating service.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 4483)),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            admin_address: None,
            admin_token: None,
            allow_anonymous_network: false,
            connections: 4096,
            requests: 4096,
            message_bytes: 8 << 20,
            buffered_bytes: 128 << 20,
            drain: Duration::from_secs(10),
            threads: None,
            seal_keys: Vec::new(),
            recorded: Recorded::default(),
            limits: Limits::default(),
        }
    }
}

/// Server with bound listeners, which accepts connections once it runs.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    admin: Option<TcpListener>,
    routes: Routes,
    options: Options,
    egress: Egress,
    lanes: Option<Lanes>,
}

/// Error that prevents a server from starting.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is unavailable.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The address of `--admin-listen` is unavailable.
    #[error("cannot listen on {address} for /status (--admin-listen): {source}")]
    AdminListen {
        /// The address.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A network address was configured without authentication of callers (`incomingAuth.type`).
    #[error(transparent)]
    Exposed(#[from] ExposureError),
    /// The operating system failed to start a thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// The operating system's random generator failed.
    #[error(transparent)]
    Random(#[from] vmcp_aggregate::RandomError),
    /// The audit file cannot be written (`audit.logFile`).
    #[error("audit.logFile: {0}")]
    Audit(#[from] vmcp_audit_log::OpenError),
    /// The exporter cannot be built (`telemetry`).
    #[error("telemetry: {0}")]
    Telemetry(#[from] vmcp_telemetry_export::BuildError),
    /// The authorization server cannot start (`authServer`).
    #[error(transparent)]
    Issuer(#[from] IssuerError),
}

/// Maximum number of streams of the deprecated HTTP+SSE transport.
const OLD_CLIENTS: usize = 1024;

impl Server {
    /// Binds the listeners and connects to the backends.
    ///
    /// # Errors
    /// Returns an error if an address is unavailable, or if the random generator of the operating system fails.
    pub async fn start(parts: Parts, egress: Egress, options: Options) -> Result<Self, ServeError> {
        let address = options.address;
        let exposure = Exposure { address, allow_anonymous: options.allow_anonymous_network };
        exposure.check(&parts.guards)?;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ServeError::Listen { address, source })?;
        let admin = admin::listen(&options).await?;
        let Parts {
            settings,
            guards,
            records,
            measures,
            issuing,
            warnings: _,
            about,
            debug: _,
            mut held,
        } = parts;
        let logins = Arc::<Logins>::default();
        let issuer = start_issuer(issuing.as_ref(), &logins).await?;
        let guards = guards.for_sessions(issuer.as_ref().map(Issuer::sessions));
        let telemetry = measures.clone().map(Measures::start).transpose()?;
        let settings = settings.stacked(telemetry.as_ref());
        let recording = records.map(|it| it.start(options.recorded)).transpose()?;
        let budget = budget(&options);
        let limits = Limits { buffered: Some(budget.clone()), ..options.limits.clone() };
        let gateway = Gateway::new(settings, limits, seal(&options)?);
        let decode = DecodeLayer::new().max_body_size(options.message_bytes).budget(budget.clone());
        let fixed = Fixed {
            telemetry,
            shows_metrics: options.admin_token.is_none(),
            measures,
            crowd: crowd(&options),
            hosts: hosts(&options),
            exposure,
            old: Arc::new(Clients::new(OLD_CLIENTS, decode.clone())),
            decode,
            budget,
            gateway,
            logins,
            log: crate::request_log::RequestLogLayer::default(),
            recorded: options.recorded,
        };
        fixed.gateway.set_notification_authorizer(guards.admissions());
        held.take_over(guards.held());
        let stacks = fixed.stacks(guards, recording, issuer, StreamScope::default());
        let limit = ConnectionLimit::new(options.connections);
        let settled = wait_ready(fixed.gateway.clone());
        let shared = Arc::new(Shared::new(fixed, stacks, settled, about, limit, held));
        gauges::show(&shared, &egress);
        let access = access(&options);
        let routes = Routes { peer: address, shared, access, is_admin: false, ticket: None };
        let lanes = options.threads.map(Lanes::start).transpose().map_err(ServeError::Thread)?;
        Ok(Self { listener, admin, routes, options, egress, lanes })
    }

    /// Returns the address of the main listener, with the actual port if port 0 was requested.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the aggregating service.
    #[must_use]
    pub fn gateway(&self) -> &Gateway {
        &self.routes.shared.fixed.gateway
    }

    /// Reloads the configuration from `path` when the file differs from `text`, which this server was built from, when
    /// one of the named `files` changes, or on SIGHUP.
    pub fn watch(&self, path: PathBuf, text: String, files: NamedFiles) {
        reload::watch(path, text, files, Arc::clone(&self.routes.shared), self.egress.clone());
    }

    /// Accepts connections until `stop` is ready, then shuts down gracefully.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { listener, admin, routes, options, egress: _, lanes } = self;
        let _admin = admin.map(|listener| admin::start(listener, &routes));
        let by_address = Shares::new(options.connections, options.recorded.trusted_proxies);
        let epoch = Instant::now();
        let graceful = GracefulShutdown::new();
        let mut errors = AcceptErrors::default();
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let Some(share) = by_address.take(peer.ip()) else {
                        tracing::debug!(%peer, "connection refused: its address has too many");
                        continue;
                    };
                    let activity = Activity::new(epoch);
                    let Some(ticket) = routes.shared.limit.admit(&activity) else {
                        tracing::debug!(%peer, "connection refused: all places are busy");
                        continue;
                    };
                    // A connection with a regular place needs no check per request.
                    let asks = ticket.is_reserve().then(|| ticket.clone());
                    let routes = Routes { peer, ticket: asks, ..routes.clone() };
                    let serving = connection(stream, routes, graceful.watcher(), activity);
                    let serving = async move {
                        if let Err(error) = serving.await {
                            tracing::debug!(%error, "a connection ended");
                        }
                        drop((ticket, share));
                    };
                    match &lanes {
                        Some(lanes) => lanes.serve(serving),
                        None => drop(tokio::spawn(serving)),
                    }
                }
                Err(error) => errors.wait(&error, &routes.shared.limit).await,
            }
        }
        drop(listener);
        drain(&routes.shared, graceful, options.drain).await;
    }
}

fn budget(options: &Options) -> ByteBudget {
    let largest = options.message_bytes;
    ByteBudget::new(options.buffered_bytes.max(2 * largest))
}

fn crowd(options: &Options) -> CrowdLayer {
    let all = CrowdLayer::new(options.requests);
    // Behind a reverse proxy, a connection carries many clients, so requests are limited by client address.
    if options.recorded.trusted_proxies > 0 { all.by_address() } else { all }
}

async fn start_issuer(
    issuing: Option<&Issuing>,
    logins: &Arc<Logins>,
) -> Result<Option<Issuer>, IssuerError> {
    match issuing {
        Some(issuing) => Issuer::start(issuing, logins).await.map(Some),
        None => Ok(None),
    }
}

/// Returns a flag that becomes true when each backend has responded, failed or timed out.
fn wait_ready(gateway: Gateway) -> Arc<AtomicBool> {
    let settled = Arc::<AtomicBool>::default();
    let setting = Arc::clone(&settled);
    tokio::spawn(async move {
        gateway.wait_ready().await;
        setting.store(true, Ordering::Release);
    });
    settled
}

fn access(options: &Options) -> Access {
    let is_private = options.address.ip().to_canonical().is_loopback();
    Access { is_private, is_loopback: false, token: options.admin_token.clone() }
}

/// Returns the allowed hosts that the configuration cannot change.
fn hosts(options: &Options) -> HostsLayer {
    let (hosts, origins) = (options.allowed_hosts.clone(), options.allowed_origins.clone());
    if options.address.ip().to_canonical().is_loopback() {
        HostsLayer::loopback(hosts, origins)
    } else {
        HostsLayer::network(hosts, origins)
    }
}

fn seal(options: &Options) -> Result<Seal, vmcp_aggregate::RandomError> {
    let lifetime = options.limits.suspension_timeout;
    if options.seal_keys.is_empty() {
        return Seal::ephemeral(lifetime);
    }
    for file in options.seal_keys.iter().filter_map(SealKey::exposed) {
        tracing::warn!(
            file,
            "every user of this machine may read a seal key: restrict it, such as with chmod 600"
        );
    }
    let keys: Vec<_> = options.seal_keys.iter().map(SealKey::bytes).collect();
    Ok(Seal::new(&keys, lifetime))
}
