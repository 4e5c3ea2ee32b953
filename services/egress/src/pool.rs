//! Connection pool of one client.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, uri};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use vmcp_core::{PerWorker, lock};

use crate::{
    AddressPolicy, ConfigError, Error, Origin, Settings, Versions, connect::connect,
    exchange::Connection, http2::Http2Connection, reaper::ReapedPool, shared::Shared, tls::Trust,
};

/// Shared state of a client's clones.
pub(crate) struct Pool {
    pub(crate) shared: Arc<Shared>,
    pub(crate) origin: Origin,
    pub(crate) authority: uri::Authority,
    pub(crate) host: HeaderValue,
    policy: AddressPolicy,
    /// `Some` for `https`.
    trust: Option<Trust>,
    versions: Versions,
    /// One permit per exchange, in the order of arrival. Invariant: there are never more
    /// connections than permits; an idle connection of another event loop is closed before a new
    /// one would exceed the limit.
    permits: Semaphore,
    /// Last in, first out, so that an oversized pool shrinks. Each event loop keeps the connections
    /// that it opened: they wake no other loop.
    idle: PerWorker<Mutex<Vec<IdleConnection>>>,
    shared_connection: Mutex<Option<SharedConnection>>,
    /// Held until it is known whether a new connection can be shared.
    opening: tokio::sync::Mutex<()>,
    /// `true` if the last TLS handshake chose HTTP/1.1: then connections are opened concurrently.
    /// `Relaxed`: a stale value only delays or duplicates a connection.
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

/// Permit for one exchange, returned on drop.
pub(crate) struct PoolGuard {
    pool: Arc<Pool>,
}

/// Connection for an exchange.
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
            idle: PerWorker::new(),
            shared_connection: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            uses_http1: AtomicBool::new(false),
        }))
    }

    /// Waits for a permit.
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

    /// Returns a permit and an idle connection, if both are available immediately.
    pub(crate) fn acquire_idle(self: &Arc<Self>) -> Option<(PoolGuard, Box<Connection>)> {
        self.permits.try_acquire().ok()?.forget();
        let guard = PoolGuard { pool: Arc::clone(self) };
        let connection = self.pop_idle()?;
        Some((guard, connection))
    }

    /// Returns the most recently used idle connection that is usable, and closes unusable ones.
    fn pop_idle(&self) -> Option<Box<Connection>> {
        loop {
            let mut connection = lock(self.idle.local()).pop()?.connection;
            if connection.is_usable() {
                return Some(connection);
            }
        }
    }

    fn push_idle(&self, connection: Box<Connection>) {
        let settings = &self.shared.settings;
        {
            let mut idle = lock(self.idle.local());
            if idle.len() >= settings.max_idle_per_origin.div_ceil(self.idle.worker_count()) {
                return;
            }
            idle.push(IdleConnection { connection, since: Instant::now() });
        }
        self.shared.reaper.ensure_running();
    }

    /// Returns whether a new connection may be shared.
    fn can_share(&self) -> bool {
        self.trust.is_some() || self.versions == Versions::Http2
    }

    /// Returns the shared connection, if it is usable.
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
            let source = "the server did not choose HTTP/2".into();
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
        self.shared.reaper.ensure_running();
        Ok(PooledConnection::Shared(connection))
    }

    /// Opens a connection, or uses a shared one that another exchange has opened meanwhile.
    async fn open_or_share(&self) -> Result<PooledConnection, Error> {
        if !self.can_share() || self.uses_http1.load(Ordering::Relaxed) {
            return self.open().await;
        }
        let settings = &self.shared.settings;
        let limit_time = settings.connect_timeout + settings.tls_timeout;
        // Limits the wait as well: a waiter must not wait for the full time of each predecessor.
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

    /// Returns the number of idle exclusive connections.
    fn exclusive_idle(&self) -> usize {
        self.idle.iter().map(|idle| lock(idle).len()).sum()
    }

    /// Closes an idle connection of another event loop, if a new one would exceed the limit.
    fn evict_idle(&self) {
        if self.exclusive_idle() + self.in_flight() > limit(&self.shared.settings) {
            drop(self.idle.iter().find_map(|idle| lock(idle).pop()));
        }
    }
}

impl ReapedPool for Pool {
    fn reap(&self, age: Duration) {
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

    fn needs_reaping(&self) -> bool {
        self.exclusive_idle() > 0 || lock(&self.shared_connection).is_some()
    }

    fn idle(&self) -> usize {
        let shared = usize::from(lock(&self.shared_connection).is_some() && self.in_flight() == 0);
        self.exclusive_idle() + shared
    }

    fn in_flight(&self) -> usize {
        limit(&self.shared.settings).saturating_sub(self.permits.available_permits())
    }
}

impl PoolGuard {
    pub(crate) fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.pool)
    }

    /// Returns an idle or shared connection, or opens a new one.
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

    /// Opens a connection without previous requests, or shares a new one.
    pub(crate) async fn new_connection(&self) -> Result<PooledConnection, Error> {
        self.pool.evict_idle();
        // Boxed: connecting is rare and its future is large.
        Box::pin(self.pool.open_or_share()).await
    }

    /// Drops the shared connection, so that the next exchange uses another one.
    pub(crate) fn drop_shared(&self) {
        *lock(&self.pool.shared_connection) = None;
    }

    /// Ends the exchange and returns its connection to the pool, if it is reusable.
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
