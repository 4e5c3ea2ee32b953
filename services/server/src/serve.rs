//! Listeners, reload and graceful shutdown.

mod admin;
mod drain;
mod gauges;
mod memory_limit;
mod options;
mod peers;
mod reload;
mod seal_keys;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::Limits;
use vmcp_core::ByteBudget;
use vmcp_decode::DecodeLayer;
use vmcp_egress::Egress;
use vmcp_http_guard::{AllowedHostsLayer, ConcurrencyLimitLayer};
use vmcp_legacy_sse::ClientTable;
pub use vmcp_listener::RESERVED_CONNECTIONS;
use vmcp_listener::{ConnectionServer, Connections, Peer};
use vmcp_seal::KeyRing;

pub use self::admin::AdminAddress;
use self::drain::{Running, drain};
pub use self::memory_limit::default_budget;
pub use self::options::Options;
use self::peers::BoundPeers;
pub use self::peers::{PeerError, PeerOptions};
use self::reload::Inputs;
pub use self::reload::NamedFiles;
use self::seal_keys::SealKeyWatch;
pub use self::seal_keys::{SealKeysError, check_seal_keys};
use crate::auth_audit::AuthAuditRecorder;
pub use crate::auth_server::AuthServerError;
use crate::auth_server::AuthServerRuntime;
pub use crate::exposure::{Exposure, ExposureError};
use crate::kubernetes::Cluster;
use crate::parts::{
    AuthServerParts, IncomingAuth, Parts, SessionStorageError, SessionStorageParts,
};
use crate::routes::{AdminAccess, Routes, ServerState, StaticState};
pub use crate::routes::{AdminToken, AdminTokenError};
use crate::session_storage::SharedStorage;
use crate::stream_scope::StreamScope;
pub use crate::virtual_server::{ClusterError, NoKubernetesError, VirtualServer};

/// Server with bound listeners, which accepts connections once it runs.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    admin: Option<TcpListener>,
    routes: Routes,
    options: Options,
    egress: Egress,
    connections: ConnectionServer,
    seal_key_watch: Option<SealKeyWatch>,
    peers: Option<BoundPeers>,
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
    /// The keys of `--seal-key` cannot be used.
    #[error("--seal-key: {0}")]
    SealKeys(#[from] SealKeysError),
    /// The storage of sessions cannot be used (`sessionStorage`).
    #[error(transparent)]
    SessionStorage(#[from] SessionStorageError),
    /// Other replicas cannot connect.
    #[error(transparent)]
    Peers(#[from] PeerError),
    /// The audit file cannot be written (`audit.logFile`).
    #[error("audit.logFile: {0}")]
    Audit(#[from] vmcp_audit_log::OpenError),
    /// The authorization server cannot start (`authServer`).
    #[error(transparent)]
    AuthServer(#[from] AuthServerError),
    /// The cluster of the VirtualMCPServer cannot be used.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// Maximum number of streams of the deprecated HTTP+SSE transport.
const MAX_LEGACY_SSE_STREAMS: usize = 1024;

impl Server {
    /// Binds the listeners and connects to the backends.
    ///
    /// # Errors
    /// Returns an error if an address is unavailable, or if the random generator of the operating system fails.
    pub async fn start(parts: Parts, egress: Egress, options: Options) -> Result<Self, ServeError> {
        let exposure = exposure(&options, &parts.incoming_auth)?;
        let cluster = connect_cluster(&options, parts.info.is_discovered).await?;
        let listener = bind(options.address).await?;
        let admin = admin::listen(&options).await?;
        let Parts {
            settings,
            incoming_auth,
            audit,
            telemetry,
            auth_server,
            session_storage,
            warnings: _,
            info,
            debug: _,
            mut gauges,
        } = parts;
        let auth_audit = Arc::<AuthAuditRecorder>::default();
        // Boxed, as below, because it is large and most servers have none.
        let issuer = Box::pin(start_issuer(auth_server.as_ref(), &auth_audit)).await?;
        let incoming_auth =
            incoming_auth.for_sessions(issuer.as_ref().map(AuthServerRuntime::sessions));
        let audit_pipeline = audit.map(|it| it.start(options.audit_options)).transpose()?;
        let budget = budget(&options);
        let mut limits = Limits { byte_budget: Some(budget.clone()), ..options.limits.clone() };
        let (ring, seal_key_watch) = key_ring(&settings.name, &options)?;
        let session_storage = Box::pin(start_storage(session_storage, &ring, &mut limits)).await?;
        let peers = bind_peers(&options, &ring, &mut limits).await?;
        let gateway = Gateway::new(settings, limits, ring);
        let decode = DecodeLayer::new().max_body_size(options.message_bytes).budget(budget.clone());
        let state = StaticState {
            telemetry,
            shows_metrics: options.admin_token.is_none(),
            concurrency_limit: concurrency_limit(&options),
            allowed_hosts: allowed_hosts(&options),
            exposure,
            legacy_sse: Arc::new(ClientTable::new(MAX_LEGACY_SSE_STREAMS, decode.clone())),
            decode,
            budget,
            gateway,
            session_storage,
            peers: peers.as_ref().map(|peers| peers.client.clone()),
            auth_audit,
            log: crate::request_log::RequestLogLayer::default(),
            audit_options: options.audit_options,
            cluster,
        };
        state.gateway.set_caller_authorizer(Some(incoming_auth.caller_authorizer()));
        gauges.merge(incoming_auth.gauges());
        let reloadable =
            state.reloadable(incoming_auth, audit_pipeline, issuer, StreamScope::default());
        let connections = Connections::new(options.connections, state.budget.clone());
        let shared = ServerState::new(state, reloadable, info, connections.clone(), gauges);
        let shared = Arc::new(shared);
        gauges::register(&shared, &egress);
        let (peer, access) = (options.address, access(&options));
        let routes = Routes { peer, shared, access, is_admin: false, permit: None };
        let connections = connection_server(connections, &options)?;
        Ok(Self { listener, admin, routes, options, egress, connections, seal_key_watch, peers })
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
        &self.routes.shared.state.gateway
    }

    /// Returns a future that is ready when the server is: when each backend has responded, failed or timed out.
    pub fn wait_ready(&self) -> impl Future<Output = ()> + Send + use<> {
        self.routes.shared.readiness.clone().wait()
    }

    /// Reloads the configuration from `path` when the file differs from `text`, which this server was built from, when
    /// one of the named `files` changes, or on SIGHUP. A replica of a VirtualMCPServer whose backends are discovered also
    /// follows the resources of the cluster.
    pub fn watch(&self, path: PathBuf, text: String, files: NamedFiles) {
        let Self { routes, options, egress, .. } = self;
        let shared = Arc::clone(&routes.shared);
        reload::watch(path, text, files, shared, Inputs::new(egress, options));
    }

    /// Accepts connections until `stop` is ready, then shuts down gracefully.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self {
            listener,
            admin,
            routes,
            options,
            egress: _,
            connections,
            seal_key_watch,
            peers,
        } = self;
        let _seal_key_watch = seal_key_watch;
        let _admin = admin.map(|listener| admin::start(listener, &routes));
        let new_service =
            |Peer { address, permit }| Routes { peer: address, permit, ..routes.clone() };
        let peers = peers.map(|peers| peers.run(Arc::clone(&routes.shared)));
        let cluster = routes.shared.state.cluster.as_ref();
        let reporter = cluster.and_then(|cluster| cluster.report(&routes.shared));
        let graceful = connections.run(listener, new_service, stop).await;
        let running = Running { peers, reporter };
        drain(&routes.shared, graceful, running, options.drain).await;
    }
}

/// Checks that the callers of a network address are authenticated.
fn exposure(options: &Options, incoming_auth: &IncomingAuth) -> Result<Exposure, ExposureError> {
    let allow_anonymous = options.allow_anonymous_network;
    let exposure = Exposure { address: options.address, allow_anonymous };
    exposure.check(incoming_auth)?;
    Ok(exposure)
}

/// Finds the API server of a replica of a VirtualMCPServer. A server that needs it only for reports serves without it.
async fn connect_cluster(
    options: &Options,
    is_discovered: bool,
) -> Result<Option<Arc<Cluster>>, ClusterError> {
    let Some(server) = &options.virtual_server else { return Ok(None) };
    // Boxed, because it is large and most servers have none.
    match Box::pin(Cluster::connect(server, options.environment.directory())).await {
        Ok(cluster) => Ok(Some(Arc::new(cluster))),
        Err(error) if is_discovered => Err(error),
        Err(error) => {
            tracing::error!(%error, "the status of the VirtualMCPServer is not reported");
            Ok(None)
        }
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })
}

/// Connects to the storage that replicas share, if one is configured, and gives it to the aggregating service.
async fn start_storage(
    parts: Option<SessionStorageParts>,
    ring: &KeyRing,
    limits: &mut Limits,
) -> Result<Option<SharedStorage>, SessionStorageError> {
    let Some(parts) = parts else { return Ok(None) };
    let storage = parts.start(ring, limits.session_ttl, &limits.clock).await?;
    let SharedStorage { sessions, workflows, section: _ } = storage.clone();
    limits.session_storage = Some(sessions);
    limits.workflow_store = workflows;
    Ok(Some(storage))
}

/// Reads the keys, and starts to watch their files.
fn key_ring(
    name: &str,
    options: &Options,
) -> Result<(KeyRing, Option<SealKeyWatch>), SealKeysError> {
    let (files, clock) = (&options.seal_keys, options.limits.clock.clone());
    let ring = seal_keys::key_ring(name, files, clock)?;
    let watch = seal_keys::watch(ring.clone(), files.clone());
    Ok((ring, watch))
}

/// Binds the listener for other replicas, if there is one, and gives its client to the aggregating service.
async fn bind_peers(
    options: &Options,
    ring: &KeyRing,
    limits: &mut Limits,
) -> Result<Option<BoundPeers>, PeerError> {
    let Some(peers) = &options.peers else { return Ok(None) };
    let peers = BoundPeers::bind(peers, ring).await?;
    limits.peers = Some(peers.client.clone());
    Ok(Some(peers))
}

fn budget(options: &Options) -> ByteBudget {
    let largest = options.message_bytes;
    ByteBudget::new(options.buffered_bytes.max(2 * largest))
}

fn connection_server(
    connections: Connections,
    options: &Options,
) -> Result<ConnectionServer, ServeError> {
    let proxies = options.audit_options.trusted_proxies;
    ConnectionServer::new(connections, options.connections, proxies, options.threads)
        .map_err(ServeError::Thread)
}

fn concurrency_limit(options: &Options) -> ConcurrencyLimitLayer {
    let all = ConcurrencyLimitLayer::new(options.requests);
    // Behind a reverse proxy, a connection carries many clients, so requests are limited by client address.
    if options.audit_options.trusted_proxies > 0 { all.by_address() } else { all }
}

async fn start_issuer(
    auth_server: Option<&AuthServerParts>,
    auth_audit: &Arc<AuthAuditRecorder>,
) -> Result<Option<AuthServerRuntime>, AuthServerError> {
    match auth_server {
        Some(auth_server) => AuthServerRuntime::start(auth_server, auth_audit).await.map(Some),
        None => Ok(None),
    }
}

fn access(options: &Options) -> AdminAccess {
    let is_private = options.address.ip().to_canonical().is_loopback();
    AdminAccess { is_private, is_loopback: false, token: options.admin_token.clone() }
}

/// Returns the allowed hosts that the configuration cannot change.
fn allowed_hosts(options: &Options) -> AllowedHostsLayer {
    let (allowed_hosts, origins) = (options.allowed_hosts.clone(), options.allowed_origins.clone());
    let layer = if options.address.ip().to_canonical().is_loopback() {
        AllowedHostsLayer::loopback(allowed_hosts, origins)
    } else {
        AllowedHostsLayer::network(allowed_hosts, origins)
    };
    layer.with_setting_names("--allow-host", "--allow-origin")
}
