//! Accept loops.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;
use vmcp_core::Body;

use crate::Connections;
use crate::accept_error::AcceptErrors;
use crate::address_limit::AddressLimit;
use crate::connection::connection;
use crate::connection_limit::ConnectionPermit;
use crate::event_loop::{Activity, WorkerPool};

/// Client of a new connection.
#[derive(Debug)]
pub struct Peer {
    /// Address of the peer.
    pub address: SocketAddr,
    /// Permit of a connection in the reserve. [`ConnectionPermit::admit`] is called before each request that is no probe.
    /// `None` for a connection that may send any request.
    pub permit: Option<ConnectionPermit>,
}

/// Server of HTTP/1 connections. Dropping the value stops its worker threads.
#[derive(Debug)]
pub struct ConnectionServer {
    connections: Connections,
    addresses: Arc<AddressLimit>,
    workers: Option<WorkerPool>,
}

impl ConnectionServer {
    /// Creates a server of up to `limit` connections, of which one address gets a quarter. Behind `trusted_proxies`, all
    /// connections come from the proxies, and addresses have no limit. `threads` workers serve the connections, each
    /// with its own event loop; `None` serves them on the runtime that calls [`run`](Self::run).
    ///
    /// # Errors
    /// Returns the error of the operating system if it cannot start a thread.
    pub fn new(
        connections: Connections,
        limit: usize,
        trusted_proxies: usize,
        threads: Option<NonZeroUsize>,
    ) -> io::Result<Self> {
        let workers = threads.map(WorkerPool::start).transpose()?;
        Ok(Self { connections, addresses: AddressLimit::new(limit, trusted_proxies), workers })
    }

    /// Accepts connections until `stop` is ready, and closes the listener. Each connection gets a service of its own.
    /// Returns the handle that shuts down open connections gracefully.
    pub async fn run<S>(
        &self,
        listener: TcpListener,
        new_service: impl Fn(Peer) -> S,
        stop: impl Future<Output = ()>,
    ) -> GracefulShutdown
    where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
        S: Send + 'static,
        S::Future: Send,
    {
        let epoch = Instant::now();
        let graceful = GracefulShutdown::new();
        let mut errors = AcceptErrors::default();
        let mut stop = pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => return graceful,
                accepted = listener.accept() => accepted,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    errors.wait(&error, &self.connections.limit).await;
                    continue;
                }
            };
            let Some(address_permit) = self.addresses.take(address.ip()) else {
                tracing::debug!(peer = %address, "connection refused: its address has too many");
                continue;
            };
            let activity = Activity::new(epoch);
            let Some(permit) = self.connections.limit.admit(&activity) else {
                tracing::debug!(peer = %address, "connection refused: all places are busy");
                continue;
            };
            // A connection with a regular place needs no check per request.
            let probe_permit = permit.is_reserve().then(|| permit.clone());
            let service = new_service(Peer { address, permit: probe_permit });
            let (connections, watcher) = (self.connections.clone(), graceful.watcher());
            let served = connection(stream, service, connections, watcher, activity);
            self.spawn(async move {
                if let Err(error) = served.await {
                    tracing::debug!(%error, "a connection ended");
                }
                drop((permit, address_permit));
            });
        }
    }

    fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        match &self.workers {
            Some(workers) => workers.serve(connection),
            None => drop(tokio::spawn(connection)),
        }
    }
}

/// Serves at most `limit` connections at a time on the current runtime, apart from the limit of `connections`. Further
/// clients wait. Dropping the future closes its connections.
pub async fn serve_few<S>(
    listener: TcpListener,
    limit: usize,
    connections: Connections,
    new_service: impl Fn(SocketAddr) -> S,
) where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S: Send + 'static,
    S::Future: Send,
{
    let graceful = GracefulShutdown::new();
    let mut errors = AcceptErrors::default();
    let mut open = JoinSet::new();
    loop {
        while open.len() >= limit {
            open.join_next().await;
        }
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (service, activity) = (new_service(peer), Activity::new(Instant::now()));
                let (connections, watcher) = (connections.clone(), graceful.watcher());
                let served = connection(stream, service, connections, watcher, activity);
                open.spawn(async move { drop(served.await) });
            }
            Err(error) => errors.wait(&error, &connections.limit).await,
        }
        while open.try_join_next().is_some() {}
    }
}
