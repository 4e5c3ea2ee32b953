//! Client for requests to other replicas.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::Full;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use vmcp_core::{Body, lock};
use vmcp_seal::{KeyRing, RandomError, SealKeyId};

use crate::body::PeerBody;
use crate::connect::connect;
use crate::counts::{Gauge, PeerCounts};
use crate::error::{ForwardError, HandleError};
use crate::forwarded::prepare;
use crate::handle::ReplicaHandle;
use crate::identity::PeerIdentity;
use crate::known::KnownReplicas;
use crate::networks::PeerNetworks;
use crate::pool::{Connection, Pool};
use crate::transport::MAX_STREAMS;

/// Settings of a replica.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// Address to which other replicas connect. All replicas have the same port.
    pub address: SocketAddr,
    /// Addresses that peers may have.
    pub networks: PeerNetworks,
}

/// Options of a request to another replica.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForwardOptions {
    /// Address of the client.
    pub client: Option<SocketAddr>,
    /// Time for the head of the response after the request is sent. `None` waits as long as the replica acknowledges pings.
    pub response_timeout: Option<Duration>,
}

/// Client for requests to other replicas. A clone shares its connections.
///
/// # Limits
/// 1,024 requests in flight; one connection to a replica, closed after 30 s without a request; 2 s to connect. A ping follows 5 s of
/// silence; without an acknowledgement within 10 s the connection and its requests end. Nothing is sent again after a byte of it was
/// written.
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
    known: KnownReplicas,
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
            requests: Arc::new(Semaphore::new(MAX_STREAMS as usize)),
            sealed: Mutex::default(),
            known: KnownReplicas::default(),
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
        self.0.known.handles()
    }

    pub(crate) fn remember(&self, handle: &ReplicaHandle) {
        if self.is_own(handle) || handle.address.port() != self.0.own.address.port() {
            return;
        }
        self.0.known.add(handle);
    }

    /// Returns the numbers of connections.
    #[must_use]
    pub fn counts(&self) -> PeerCounts {
        let Inner { outgoing, incoming, known, .. } = &*self.0;
        let (outgoing, incoming) = (outgoing.get(), incoming.get());
        PeerCounts { outgoing, incoming, known: known.len() }
    }

    /// Sends a request of a client to another replica. The response's body arrives as the replica sends it; dropping it cancels the
    /// request.
    ///
    /// # Errors
    /// [`ForwardError`], which tells whether the replica may have received the request.
    pub async fn forward(
        &self,
        peer: &ReplicaHandle,
        mut request: Request<Bytes>,
        options: ForwardOptions,
    ) -> Result<Response<Body>, ForwardError> {
        let Inner { networks, requests, .. } = &*self.0;
        if peer.address.port() != self.0.own.address.port() {
            return Err(ForwardError::NotPermitted(peer.address));
        }
        networks.check(peer.address).await?;
        let permit =
            Arc::clone(requests).try_acquire_owned().map_err(|_| ForwardError::Overloaded)?;
        prepare(request.headers_mut(), options.client);
        // HTTP/2 has an absolute URI, unless the request was one of HTTP/1.1.
        *request.version_mut() = Version::HTTP_11;
        let result =
            self.send(peer, request.map(Full::new), options.response_timeout, permit).await;
        self.0.known.record(peer, result.as_ref().err());
        result
    }

    async fn send(
        &self,
        peer: &ReplicaHandle,
        mut request: Request<Full<Bytes>>,
        limit: Option<Duration>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Response<Body>, ForwardError> {
        let address = peer.address;
        loop {
            let (mut connection, is_new) = self.connection(peer).await?;
            let sending = connection.sender.try_send_request(request);
            let sent = match limit {
                Some(limit) => timeout(limit, sending)
                    .await
                    .map_err(|_| ForwardError::ResponseTimeout { address, limit })?,
                None => sending.await,
            };
            match sent {
                Ok(response) => {
                    let (parts, body) = response.into_parts();
                    let mut response = Response::new(Body::wrap(PeerBody {
                        body,
                        _connection: connection,
                        _permit: permit,
                    }));
                    (*response.status_mut(), *response.headers_mut()) =
                        (parts.status, parts.headers);
                    return Ok(response);
                }
                Err(mut error) => match error.take_message() {
                    // The connection was closed before a byte was written.
                    Some(unsent) if !is_new => request = unsent,
                    Some(_) => {
                        let source = Arc::new(io::Error::other(error.into_error()));
                        return Err(ForwardError::Unreachable { address, source });
                    }
                    None if error.error().is_timeout() => {
                        return Err(ForwardError::Unresponsive(address));
                    }
                    None => return Err(ForwardError::Interrupted(Arc::new(error.into_error()))),
                },
            }
        }
    }

    /// Returns a connection to a replica, and whether it is new.
    async fn connection(&self, peer: &ReplicaHandle) -> Result<(Connection, bool), ForwardError> {
        let pool = &self.0.pool;
        if let Some(connection) = pool.get(peer) {
            return Ok((connection, false));
        }
        let connect = || {
            let (this, peer) = (self.clone(), peer.clone());
            async move {
                let Inner { own, ring, outgoing, .. } = &*this.0;
                connect(&peer, own, ring, outgoing).await
            }
        };
        Ok((pool.open(peer, connect).await?, true))
    }
}

impl fmt::Debug for PeerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerClient").field("own", &self.0.own).finish_non_exhaustive()
    }
}
