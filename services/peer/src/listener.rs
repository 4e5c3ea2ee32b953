//! Listener for requests of other replicas.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower_service::Service;
use vmcp_core::{Body, lock};

use crate::client::{Inner, PeerClient};
use crate::forwarded::Forwarded;
use crate::handle::ReplicaHandle;
use crate::proof::{self, Role};

/// Maximum number of connections of replicas.
const MAX_CONNECTIONS: usize = 2048;

/// Maximum number of connections that have not proved the key ring.
const MAX_UNPROVEN: usize = 128;

/// Maximum number of those from one address.
const MAX_UNPROVEN_PER_ADDRESS: usize = 32;

/// Time for the TLS handshake and the proof.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for the head of a request, and for which a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// Maximum size of a request's head in bytes. That of the client has 16 KiB at most.
const MAX_HEAD_SIZE: usize = 32 << 10;

/// Pause after a failure to accept a connection, such as a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listener for requests of other replicas. A connection that does not prove the key ring in time is closed before a request is
/// read.
///
/// # Limits
/// 2,048 connections; 128 without a proof, 32 of them from one address, for 2 s each.
#[derive(Debug)]
pub struct PeerListener {
    listener: TcpListener,
    peers: PeerClient,
}

/// Connections of a listener that has stopped accepting.
#[derive(Debug)]
pub struct PeerConnections(GracefulShutdown);

/// Connections that have not proved the key ring, by address.
#[derive(Debug, Default)]
struct Unproven(Mutex<HashMap<IpAddr, usize>>);

/// Place of a connection that has not proved the key ring.
#[derive(Debug)]
struct UnprovenPlace {
    unproven: Arc<Unproven>,
    address: IpAddr,
}

impl PeerListener {
    /// Listens on an address with the identity of a client.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub async fn bind(address: SocketAddr, peers: PeerClient) -> io::Result<Self> {
        Ok(Self::new(TcpListener::bind(address).await?, peers))
    }

    /// Accepts the connections of a bound socket with the identity of a client.
    #[must_use]
    pub fn new(listener: TcpListener, peers: PeerClient) -> Self {
        Self { listener, peers }
    }

    /// Returns the address of the listener.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Passes requests of other replicas to clones of a service until `stop` is ready, and closes the listener. Each request has
    /// [`Forwarded`] in its extensions. Returns the open connections.
    pub async fn run<S>(self, service: S, stop: impl Future<Output = ()>) -> PeerConnections
    where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
    {
        let Self { listener, peers } = self;
        let graceful = GracefulShutdown::new();
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let unproven = Arc::<Unproven>::default();
        let mut stop = pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => return PeerConnections(graceful),
                accepted = listener.accept() => accepted,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection of a replica");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(place) = unproven.enter(address.ip()) else {
                tracing::debug!(peer = %address, "connection refused: too many without a proof");
                continue;
            };
            let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else {
                tracing::debug!(peer = %address, "connection refused: too many of replicas");
                continue;
            };
            let connection = Connection {
                stream,
                address,
                peers: peers.clone(),
                service: service.clone(),
                permit,
                watcher: graceful.watcher(),
            };
            tokio::spawn(connection.serve(place));
        }
    }
}

/// Accepted connection.
struct Connection<S> {
    stream: TcpStream,
    address: SocketAddr,
    peers: PeerClient,
    service: S,
    permit: OwnedSemaphorePermit,
    watcher: Watcher,
}

impl<S> Connection<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    async fn serve(self, place: UnprovenPlace) {
        let Self { stream, address, peers, service, permit, watcher } = self;
        let proven = timeout(HANDSHAKE_TIMEOUT, prove(stream, peers.inner())).await;
        drop(place);
        let (stream, by) = match proven {
            Ok(Ok(Some(proven))) => proven,
            Ok(Ok(None)) => {
                tracing::warn!(peer = %address, "a connection without the key ring was closed");
                return;
            }
            Ok(Err(error)) => {
                tracing::debug!(peer = %address, %error, "a connection to the peer listener failed");
                return;
            }
            Err(_) => {
                tracing::debug!(peer = %address, "a connection sent no proof in time");
                return;
            }
        };
        peers.remember(&by);
        let entered = peers.inner().incoming.enter();
        let service = service_fn(move |mut request: Request<Incoming>| {
            let forwarded = Forwarded::take(request.headers_mut(), by.clone());
            request.extensions_mut().insert(forwarded);
            let mut service = service.clone();
            async move {
                std::future::poll_fn(|cx| service.poll_ready(cx)).await?;
                service.call(request).await
            }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_SIZE)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(served).await {
            tracing::debug!(peer = %address, %error, "a connection of a replica ended");
        }
        drop((entered, permit));
    }
}

/// Returns the stream and the handle of a peer that proved the key ring; this side proves it afterwards.
async fn prove(
    stream: TcpStream,
    own: &Inner,
) -> io::Result<Option<(TlsStream<TcpStream>, ReplicaHandle)>> {
    stream.set_nodelay(true)?;
    let acceptor = TlsAcceptor::from(Arc::clone(&own.identity.server));
    let mut stream = acceptor.accept(stream).await?;
    let channel = proof::channel(stream.get_ref().1)?;
    let peer = proof::receive(&mut stream, &own.ring, Role::Forwarder, &channel).await?;
    let Some(peer) = peer else { return Ok(None) };
    proof::send(&mut stream, &own.ring, Role::Holder, &channel, &own.own).await?;
    Ok(Some((stream, peer)))
}

impl Unproven {
    /// Takes a place; `None` if too many are taken.
    fn enter(self: &Arc<Self>, address: IpAddr) -> Option<UnprovenPlace> {
        let mut taken = lock(&self.0);
        if taken.values().sum::<usize>() >= MAX_UNPROVEN {
            return None;
        }
        let own = taken.entry(address).or_default();
        if *own >= MAX_UNPROVEN_PER_ADDRESS {
            return None;
        }
        *own += 1;
        Some(UnprovenPlace { unproven: Arc::clone(self), address })
    }
}

impl Drop for UnprovenPlace {
    fn drop(&mut self) {
        let mut taken = lock(&self.unproven.0);
        if let Some(own) = taken.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

impl PeerConnections {
    /// Waits until the responses in flight have ended, for at most `limit`.
    pub async fn drain(self, limit: Duration) {
        if timeout(limit, self.0.shutdown()).await.is_err() {
            tracing::debug!("connections of replicas are still open after {limit:?}");
        }
    }
}
