//! The connections of one client: who may use one, which are idle, and how a new one is made.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, uri};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use vmcp_core::PerLane;

use crate::{
    AddressPolicy, ConfigError, Error, Origin, Settings, Versions, connect::connect,
    egress::Shared, exchange::Connection, http2::Http2Connection, reaper, tls::Trust,
};

/// What a client's clones share.
pub(crate) struct Pool {
    pub(crate) shared: Arc<Shared>,
    pub(crate) origin: Origin,
    pub(crate) authority: uri::Authority,
    pub(crate) host: HeaderValue,
    policy: AddressPolicy,
    /// `Some` for `https`.
    trust: Option<Trust>,
    versions: Versions,
    /// One permit per exchange, handed out in the order of arrival. There are never more connections
    /// than permits: where a new one would be too many, one that is idle elsewhere is closed.
    permits: Semaphore,
    /// The last one in is the first one out, so that a pool that has become too large shrinks. Each
    /// event loop keeps those that it has opened: they wake nobody else.
    idle: PerLane<Mutex<Vec<IdleConnection>>>,
    shared_connection: Mutex<Option<SharedConnection>>,
    /// Held while it is open whether a new connection can be shared.
    opening: tokio::sync::Mutex<()>,
    /// Whether the last TLS handshake chose HTTP/1.1: then connections are opened side by side.
    uses_http1: AtomicBool,
}

struct IdleConnection {
    connection: Box<Connection>,
    since: Instant,
}

struct SharedConnection {
    connection: Http2Connection,
    used: Instant,
}

/// The right to one exchange. Given back when dropped.
pub(crate) struct PoolGuard {
    pool: Arc<Pool>,
}

/// What a lease is exercised on.
pub(crate) enum PooledConnection {
    Exclusive(Box<Connection>),
    Shared(Http2Connection),
}

impl Pool {
    pub(crate) fn new(
        shared: Arc<Shared>,
        origin: Origin,
        policy: AddressPolicy,
        trust: Option<Trust>,
        versions: Versions,
    ) -> Result<Arc<Self>, ConfigError> {
        let authority = origin.authority().to_string();
        let authority = uri::Authority::try_from(authority).map_err(|_| ConfigError::NoHost)?;
        let host = origin.host_header().map_err(|_| ConfigError::NoHost)?;
        let permits = Semaphore::new(limit(&shared.settings));
        Ok(Arc::new(Self {
            shared,
            origin,
            authority,
            host,
            policy,
            trust,
            versions,
            permits,
            idle: PerLane::new(),
            shared_connection: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            uses_http1: AtomicBool::new(false),
        }))
    }

    /// Waits for a turn.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Result<PoolGuard, Error> {
        let permit = match self.permits.try_acquire() {
            Ok(permit) => permit,
            Err(_none_left) => {
                let settings = &self.shared.settings;
                let overloaded =
                    || Error::Overloaded { origin: self.origin.clone(), limit: limit(settings) };
                timeout(settings.connect_timeout, self.permits.acquire())
                    .await
                    .map_err(|_elapsed| overloaded())?
                    .map_err(|_closed| overloaded())?
            }
        };
        permit.forget();
        Ok(PoolGuard { pool: Arc::clone(self) })
    }

    /// A turn and an idle connection, if both are to be had without waiting.
    pub(crate) fn acquire_idle(self: &Arc<Self>) -> Option<(PoolGuard, Box<Connection>)> {
        self.permits.try_acquire().ok()?.forget();
        let guard = PoolGuard { pool: Arc::clone(self) };
        let connection = self.pop_idle()?;
        Some((guard, connection))
    }

    /// The idle connection used last that still works. Those that don't are closed on the way.
    fn pop_idle(&self) -> Option<Box<Connection>> {
        loop {
            let mut connection = lock(self.idle.mine()).pop()?.connection;
            if connection.is_usable() {
                return Some(connection);
            }
        }
    }

    fn push_idle(&self, connection: Box<Connection>) {
        let settings = &self.shared.settings;
        {
            let mut idle = lock(self.idle.mine());
            if idle.len() >= settings.max_idle_per_origin.div_ceil(self.idle.lanes()) {
                return;
            }
            idle.push(IdleConnection { connection, since: Instant::now() });
        }
        reaper::ensure(&self.shared);
    }

    /// Whether a connection may be one that all share.
    fn can_share(&self) -> bool {
        self.trust.is_some() || self.versions == Versions::Http2
    }

    /// The shared connection, if there is one that still works.
    fn usable_shared_connection(&self) -> Option<Http2Connection> {
        let mut slot = lock(&self.shared_connection);
        match &mut *slot {
            Some(entry) if !entry.connection.is_closed() => {
                entry.used = Instant::now();
                Some(entry.connection.clone())
            }
            _ => {
                *slot = None;
                None
            }
        }
    }

    async fn open(&self) -> Result<PooledConnection, Error> {
        let Self { shared, origin, policy, trust, versions, .. } = self;
        let max_head = shared.settings.max_head;
        let stream = connect(shared, origin, *policy, trust.as_ref(), *versions).await?;
        let chosen = stream.speaks_http2();
        if *versions == Versions::Http2 && trust.is_some() && !chosen {
            let source = "the server does not choose HTTP/2".into();
            return Err(Error::Tls { origin: origin.clone(), source, has_leaf: false });
        }
        if *versions == Versions::Negotiated && !chosen {
            self.uses_http1.store(true, Ordering::Relaxed);
            return Connection::open(stream, max_head, shared.count_open())
                .await
                .map(PooledConnection::Exclusive);
        }
        self.uses_http1.store(false, Ordering::Relaxed);
        let connection = Http2Connection::open(stream, max_head, shared.count_open()).await?;
        let entry = SharedConnection { connection: connection.clone(), used: Instant::now() };
        *lock(&self.shared_connection) = Some(entry);
        reaper::ensure(&self.shared);
        Ok(PooledConnection::Shared(connection))
    }

    /// Opens a connection, or takes the shared one that another exchange has opened meanwhile.
    async fn open_or_share(&self) -> Result<PooledConnection, Error> {
        if !self.can_share() || self.uses_http1.load(Ordering::Relaxed) {
            return self.open().await;
        }
        let settings = &self.shared.settings;
        let limit_time = settings.connect_timeout + settings.tls_timeout;
        // Those who wait must not inherit the whole time that the one before them took.
        timeout(limit_time, async {
            let turn = self.opening.lock().await;
            if let Some(connection) = self.usable_shared_connection() {
                return Ok(PooledConnection::Shared(connection));
            }
            if self.uses_http1.load(Ordering::Relaxed) {
                drop(turn);
            }
            self.open().await
        })
        .await
        .unwrap_or_else(|_elapsed| Err(Error::ConnectTimeout { origin: self.origin.clone() }))
    }

    /// Closes what has been idle for longer than `age` or has been closed by the peer.
    pub(crate) fn reap(&self, age: Duration) {
        let now = Instant::now();
        for idle in self.idle.iter() {
            lock(idle).retain_mut(|entry| {
                now.duration_since(entry.since) < age && entry.connection.is_usable()
            });
        }

        let mut slot = lock(&self.shared_connection);
        if let Some(entry) = &mut *slot {
            if self.in_flight() > 0 {
                entry.used = now;
            }
            if entry.connection.is_closed() || now.duration_since(entry.used) >= age {
                *slot = None;
            }
        }
    }

    /// How many connections wait for their next request.
    pub(crate) fn idle(&self) -> usize {
        let shared = usize::from(lock(&self.shared_connection).is_some() && self.in_flight() == 0);
        self.exclusive_idle() + shared
    }

    /// How many connections wait that nobody shares.
    fn exclusive_idle(&self) -> usize {
        self.idle.iter().map(|idle| lock(idle).len()).sum()
    }

    /// Closes a connection that waits for another event loop's requests, if a new one would be too many.
    fn evict_idle(&self) {
        if self.exclusive_idle() + self.in_flight() > limit(&self.shared.settings) {
            drop(self.idle.iter().find_map(|idle| lock(idle).pop()));
        }
    }

    /// How many exchanges there are.
    pub(crate) fn in_flight(&self) -> usize {
        limit(&self.shared.settings).saturating_sub(self.permits.available_permits())
    }

    /// Whether there is anything that the reaper has to come back for.
    pub(crate) fn needs_reaping(&self) -> bool {
        self.exclusive_idle() > 0 || lock(&self.shared_connection).is_some()
    }
}

impl PoolGuard {
    pub(crate) fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.pool)
    }

    /// A connection to exercise the lease on: an idle or shared one, or else a new one.
    pub(crate) async fn connection(&self) -> Result<PooledConnection, Error> {
        if let Some(connection) = self.pool.pop_idle() {
            return Ok(PooledConnection::Exclusive(connection));
        }
        if self.pool.can_share()
            && let Some(connection) = self.pool.usable_shared_connection()
        {
            return Ok(PooledConnection::Shared(connection));
        }
        self.new_connection().await
    }

    /// A connection that no request has been sent on.
    pub(crate) async fn new_connection(&self) -> Result<PooledConnection, Error> {
        self.pool.evict_idle();
        // Boxed: connecting is rare and its future is large.
        Box::pin(self.pool.open_or_share()).await
    }

    /// Gives up the shared connection, so that the next link is another one.
    pub(crate) fn drop_shared(&self) {
        *lock(&self.pool.shared_connection) = None;
    }

    /// Ends the exchange and keeps its connection for another one, if it can serve one.
    pub(crate) fn release(self, mut connection: Box<Connection>) {
        if connection.prepare_for_pool() {
            self.pool.push_idle(connection);
        }
    }
}

impl Drop for PoolGuard {
    fn drop(&mut self) {
        self.pool.permits.add_permits(1);
    }
}

fn limit(settings: &Settings) -> usize {
    settings.max_connections_per_origin.clamp(1, Semaphore::MAX_PERMITS)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks can panic halfway through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
