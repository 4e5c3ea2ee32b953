//! Client for requests to other replicas.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use vmcp_core::{Body, lock};
use vmcp_seal::{KeyRing, RandomError, SealKeyId};

use crate::body::{PeerBody, PooledConnection};
use crate::connect::{Sender, connect};
use crate::counts::{Gauge, PeerCounts};
use crate::error::{ForwardError, HandleError};
use crate::forwarded::prepare;
use crate::handle::ReplicaHandle;
use crate::identity::PeerIdentity;
use crate::networks::PeerNetworks;
use crate::pool::Pool;

/// Maximum number of requests to replicas in flight.
const MAX_REQUESTS: usize = 1024;

/// Maximum number of replicas that are remembered.
const MAX_KNOWN: usize = 64;

/// Time within which a connection is ready for its next request after a response.
const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// Settings of a replica.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// Address to which other replicas connect. All replicas have the same port.
    pub address: SocketAddr,
    /// Addresses that peers may have.
    pub networks: PeerNetworks,
}

/// Client for requests to other replicas. A clone shares its connections.
///
/// # Limits
/// 1,024 requests in flight, 32 idle connections to one replica for up to 30 s, 2 s to connect. Nothing is sent again after a byte of
/// it was written.
#[derive(Clone)]
pub struct PeerClient(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) identity: PeerIdentity,
    pub(crate) own: ReplicaHandle,
    pub(crate) ring: KeyRing,
    networks: PeerNetworks,
    pool: Arc<Pool>,
    requests: Arc<Semaphore>,
    /// Own handle, sealed, with the key that sealed it.
    sealed: Mutex<Option<(SealKeyId, Arc<str>)>>,
    /// Replicas that were met, the most recent one last.
    known: Mutex<Vec<ReplicaHandle>>,
    outgoing: Gauge,
    pub(crate) incoming: Gauge,
}

impl PeerClient {
    /// Creates a client. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(identity: PeerIdentity, settings: PeerSettings, ring: KeyRing) -> Self {
        let PeerSettings { address, networks } = settings;
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let own = ReplicaHandle { address, key: identity.key, process: identity.process };
        Self(Arc::new(Inner {
            identity,
            own,
            ring,
            networks,
            pool: Pool::start(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            sealed: Mutex::default(),
            known: Mutex::default(),
            outgoing: Gauge::default(),
            incoming: Gauge::default(),
        }))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Returns the handle of this replica.
    #[must_use]
    pub fn own(&self) -> &ReplicaHandle {
        &self.0.own
    }

    /// Returns the handle of this replica as a sealed text of letters, digits, `-` and `_`. It is sealed once for each key of the ring.
    ///
    /// # Errors
    /// [`RandomError`] if the system has no random numbers.
    pub fn sealed_handle(&self) -> Result<Arc<str>, RandomError> {
        let Inner { own, ring, sealed, .. } = &*self.0;
        let key = ring.sealing_key();
        let mut sealed = lock(sealed);
        if let Some((known, text)) = &*sealed
            && *known == key
        {
            return Ok(Arc::clone(text));
        }
        let text: Arc<str> = own.seal(ring)?.into();
        *sealed = Some((key, Arc::clone(&text)));
        Ok(text)
    }

    /// Opens the sealed handle of a replica, and remembers the replica.
    ///
    /// # Errors
    /// [`HandleError`] if no replica of this server sealed the text, or the port is not that of peers. The networks are checked
    /// before a connection.
    pub fn open(&self, text: &str) -> Result<ReplicaHandle, HandleError> {
        let Inner { own, ring, .. } = &*self.0;
        let handle = ReplicaHandle::open(text, ring)?;
        if handle.address.port() != own.address.port() {
            return Err(HandleError::Port(handle.address.port()));
        }
        self.remember(&handle);
        Ok(handle)
    }

    /// Returns `true` if the handle names this process.
    #[must_use]
    pub fn is_own(&self, handle: &ReplicaHandle) -> bool {
        handle.process == self.0.own.process
    }

    /// Returns other replicas that this process has met, the most recent one first.
    #[must_use]
    pub fn known(&self) -> Vec<ReplicaHandle> {
        lock(&self.0.known).iter().rev().cloned().collect()
    }

    pub(crate) fn remember(&self, handle: &ReplicaHandle) {
        if self.is_own(handle) || handle.address.port() != self.0.own.address.port() {
            return;
        }
        let mut known = lock(&self.0.known);
        // An address has one process.
        known.retain(|it| it.address != handle.address);
        if known.len() >= MAX_KNOWN {
            known.remove(0);
        }
        known.push(handle.clone());
    }

    /// Returns the numbers of connections.
    #[must_use]
    pub fn counts(&self) -> PeerCounts {
        let Inner { outgoing, incoming, known, .. } = &*self.0;
        let (outgoing, incoming) = (outgoing.get(), incoming.get());
        PeerCounts { outgoing, incoming, known: lock(known).len() }
    }

    /// Sends a request of `client` to another replica. The response's body arrives as the replica sends it; dropping it closes the
    /// connection.
    ///
    /// # Errors
    /// [`ForwardError`], which tells whether the replica may have received the request.
    pub async fn forward(
        &self,
        peer: &ReplicaHandle,
        mut request: Request<Bytes>,
        client: Option<SocketAddr>,
    ) -> Result<Response<Body>, ForwardError> {
        let Inner { networks, requests, .. } = &*self.0;
        if peer.address.port() != self.0.own.address.port() {
            return Err(ForwardError::NotPermitted(peer.address));
        }
        networks.check(peer.address).await?;
        let permit =
            Arc::clone(requests).try_acquire_owned().map_err(|_| ForwardError::Overloaded)?;
        prepare(request.headers_mut(), client);
        let result = self.send(peer, request.map(Full::new), permit).await;
        if result.as_ref().is_err_and(ForwardError::is_gone) {
            lock(&self.0.known).retain(|it| it != peer);
        }
        result
    }

    async fn send(
        &self,
        peer: &ReplicaHandle,
        mut request: Request<Full<Bytes>>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Response<Body>, ForwardError> {
        let Inner { pool, own, ring, outgoing, .. } = &*self.0;
        loop {
            let pooled = self.pooled(peer).await;
            let is_new = pooled.is_none();
            let mut sender = match pooled {
                Some(sender) => sender,
                None => connect(peer, own, ring, outgoing).await?,
            };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    let (peer, pool) = (peer.clone(), Arc::clone(pool));
                    let connection = PooledConnection { peer, sender, pool, permit };
                    let wrap = |body| Body::wrap(PeerBody { body, connection: Some(connection) });
                    return Ok(response.map(wrap));
                }
                Err(mut error) => match error.take_message() {
                    // The connection was closed before a byte was written.
                    Some(unsent) if !is_new => request = unsent,
                    Some(_) => {
                        let source = io::Error::other(error.into_error());
                        return Err(ForwardError::Unreachable { address: peer.address, source });
                    }
                    None => return Err(ForwardError::Interrupted(error.into_error().into())),
                },
            }
        }
    }

    /// Returns an idle connection that is ready for a request.
    async fn pooled(&self, peer: &ReplicaHandle) -> Option<Sender> {
        loop {
            let mut sender = self.0.pool.take(peer)?;
            if let Ok(Ok(())) = timeout(READY_TIMEOUT, sender.ready()).await {
                return Some(sender);
            }
        }
    }
}

impl fmt::Debug for PeerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerClient").field("own", &self.0.own).finish_non_exhaustive()
    }
}
