//! Requests of other replicas.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower_service::Service;
use vmcp_core::Body;
use vmcp_listener::QuietBody;
use vmcp_peer::{
    Forwarded, IdentityError, PeerClient, PeerConnections, PeerIdentity, PeerListener,
    PeerNetworks, PeerSettings,
};
use vmcp_seal::KeyRing;

use crate::routes::{EndpointFuture, ServerState};

/// Forwarding of requests between replicas.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Address to which other replicas connect. All replicas have the same port.
    pub address: SocketAddr,
    /// Addresses that other replicas may have.
    pub networks: PeerNetworks,
}

/// Error that prevents the peer listener from starting.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// There are no files with keys.
    #[error("--peer-listen needs --seal-key: replicas know each other by the keys that they share")]
    NoKeyRing,
    /// The address is unavailable.
    #[error("cannot listen on {address} for other replicas (--peer-listen): {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// There is no TLS key.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// Bound listener for requests of other replicas, and the client for requests to them.
#[derive(Debug)]
pub(super) struct BoundPeers {
    listener: PeerListener,
    pub(super) client: PeerClient,
}

/// Running listener.
#[derive(Debug)]
pub(super) struct RunningPeers {
    stop: oneshot::Sender<()>,
    running: JoinHandle<PeerConnections>,
}

/// MCP endpoint for requests that other replicas forward. They pass the same layers as those of clients.
#[derive(Clone, Debug)]
struct PeerService(Arc<ServerState>);

impl BoundPeers {
    /// Binds the listener of a server with this ring.
    pub(super) async fn bind(options: &PeerOptions, ring: &KeyRing) -> Result<Self, PeerError> {
        if !ring.is_shared() {
            return Err(PeerError::NoKeyRing);
        }
        let PeerOptions { listen: address, address: mut own, networks } = options.clone();
        let error = |source| PeerError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(error)?;
        if own.port() == 0 {
            own.set_port(listener.local_addr().map_err(error)?.port());
        }
        let settings = PeerSettings { address: own, networks };
        let client = PeerClient::new(PeerIdentity::generate()?, settings, ring.clone());
        Ok(Self { listener: PeerListener::new(listener, client.clone()), client })
    }

    /// Starts to accept connections.
    pub(super) fn run(self, shared: Arc<ServerState>) -> RunningPeers {
        let (stop, stopped) = oneshot::channel();
        let stopped = async move {
            // An error means that the server was dropped.
            _ = stopped.await;
        };
        let running = tokio::spawn(self.listener.run(PeerService(shared), stopped));
        RunningPeers { stop, running }
    }
}

impl RunningPeers {
    /// Closes the listener, and waits for the requests in progress for at most `limit`.
    pub(super) async fn stop(self, limit: Duration) {
        _ = self.stop.send(());
        match self.running.await {
            Ok(connections) => connections.drain(limit).await,
            Err(error) => tracing::error!(%error, "the listener for other replicas failed"),
        }
    }
}

impl Service<Request<Incoming>> for PeerService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = EndpointFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> EndpointFuture {
        let mut request = request.map(QuietBody);
        let forwarded = request.extensions().get::<Forwarded>();
        let source = forwarded.map(|it| it.client.unwrap_or_else(|| it.by.address()));
        if let Some(source) = source {
            request.extensions_mut().insert(source);
        }
        EndpointFuture::mcp(&self.0, request.method() == Method::GET, request)
    }
}
