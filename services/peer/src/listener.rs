//! Listener for requests of other replicas.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower_service::Service;
use vmcp_core::Body;

use crate::client::{Inner, PeerClient};
use crate::forwarded::Forwarded;
use crate::handle::ReplicaHandle;
use crate::proof::{self, Role};
use crate::transport::{
    CONNECTION_WINDOW, MAX_HEADERS_SIZE, MAX_STREAMS, PING_INTERVAL, PING_TIMEOUT, STREAM_WINDOW,
};
use crate::unproven::{UnprovenConnections, UnprovenPlace};

/// Maximum number of connections of replicas that have proved the key ring. Each replica has one, or few while it reconnects.
const MAX_CONNECTIONS: usize = 1024;

/// Time for the TLS handshake and the proof.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause after a failure to accept a connection, such as a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listener for requests of other replicas. A connection that does not prove the key ring in time is closed before a request is
/// read.
///
/// # Limits
/// 1,024 connections that have proved the key ring. Those without a proof have places of their own: 128, for 2 s each; the oldest one
/// of the address with most of them gives way. A ping follows 5 s of silence; without an acknowledgement within 10 s the connection
/// ends.
#[derive(Debug)]
pub struct PeerListener {
    listener: TcpListener,
    peers: PeerClient,
}

/// Connections of a listener that has stopped accepting.
#[derive(Debug)]
pub struct PeerConnections(GracefulShutdown);

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
        S::Future: Send + 'static,
    {
        let Self { listener, peers } = self;
        let graceful = GracefulShutdown::new();
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let unproven = Arc::<UnprovenConnections>::default();
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
            let connection = Connection {
                stream,
                address,
                peers: peers.clone(),
                service: service.clone(),
                connections: Arc::clone(&connections),
                watcher: graceful.watcher(),
            };
            tokio::spawn(connection.serve(unproven.enter(address.ip())));
        }
    }
}

/// Accepted connection.
struct Connection<S> {
    stream: TcpStream,
    address: SocketAddr,
    peers: PeerClient,
    service: S,
    /// Places of connections that have proved the key ring.
    connections: Arc<Semaphore>,
    watcher: Watcher,
}

impl<S> Connection<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    async fn serve(self, mut place: UnprovenPlace) {
        let Self { stream, address, peers, service, connections, watcher } = self;
        let proven = tokio::select! {
            proven = timeout(HANDSHAKE_TIMEOUT, prove(stream, peers.inner(), connections)) => proven,
            () = place.evicted() => {
                tracing::debug!(peer = %address, "connection closed: too many without a proof");
                return;
            }
        };
        drop(place);
        let (stream, by, permit) = match proven {
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
        let served = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .max_concurrent_streams(MAX_STREAMS)
            // A replica may cancel all its requests at once.
            .max_pending_accept_reset_streams(MAX_STREAMS as usize)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEADERS_SIZE)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(served).await {
            tracing::debug!(peer = %address, %error, "a connection of a replica ended");
        }
        drop((entered, permit));
    }
}

/// Returns the stream, the handle and the place of a peer that proved the key ring; this side proves it afterwards.
async fn prove(
    stream: TcpStream,
    own: &Inner,
    connections: Arc<Semaphore>,
) -> io::Result<Option<(TlsStream<TcpStream>, ReplicaHandle, OwnedSemaphorePermit)>> {
    stream.set_nodelay(true)?;
    let acceptor = TlsAcceptor::from(Arc::clone(&own.identity.server));
    let mut stream = acceptor.accept(stream).await?;
    let channel = proof::channel(stream.get_ref().1)?;
    let peer = proof::receive(&mut stream, &own.ring, Role::Forwarder, &channel).await?;
    let Some(peer) = peer else { return Ok(None) };
    let Ok(permit) = connections.try_acquire_owned() else {
        return Err(io::Error::other("too many connections of replicas"));
    };
    proof::send(&mut stream, &own.ring, Role::Holder, &channel, &own.own).await?;
    Ok(Some((stream, peer, permit)))
}

impl PeerConnections {
    /// Waits until the responses in flight have ended, for at most `limit`.
    pub async fn drain(self, limit: Duration) {
        if timeout(limit, self.0.shutdown()).await.is_err() {
            tracing::debug!("connections of replicas are still open after {limit:?}");
        }
    }
}
