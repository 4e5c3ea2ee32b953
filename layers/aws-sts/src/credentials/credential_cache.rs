//! Credential cache with background renewal.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use secrecy::SecretString;
use vmcp_core::{Cache, Clock, SingleFlight};

use crate::{AssumeError, AssumeRole, Credentials, RoleSession};

/// Time before expiry at which cached credentials are no longer used; at most half of their lifetime.
const EXPIRY_MARGIN: Duration = Duration::from_mins(5);
/// Minimum interval between two background renewals of the same credentials.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(30);
/// Minimum age at which [`AssumeRole::invalidate`] removes credentials. New credentials would be rejected like fresh
/// ones, and a backend that rejects every request must not cause an STS call each time.
const MIN_AGE: Duration = Duration::from_secs(30);

/// Cache of the credentials of another [`AssumeRole`], with one entry per role, session name, duration and holder.
///
/// Credentials are used until five minutes before they expire, or until half of their lifetime if they live less than
/// ten minutes. Shortly before that, requests trigger a renewal in the background; failed renewals are repeated at most
/// once in 30 seconds. Concurrent requests for the same credentials share one fetch. Clones share the cache.
pub struct CredentialCache<A> {
    inner: Arc<Inner<A>>,
}

struct Inner<A> {
    source: A,
    clock: Clock,
    entries: Cache<[u8; 32], Arc<CachedCredentials>>,
    flights: SingleFlight<[u8; 32], Result<Arc<Credentials>, AssumeError>>,
}

struct CachedCredentials {
    credentials: Arc<Credentials>,
    fetched_at: SystemTime,
    /// Unix time in seconds. Relaxed ordering suffices: no other data is published through it.
    renew_at: AtomicU64,
}

// === impl CredentialCache ===

impl<A: AssumeRole> CredentialCache<A> {
    /// Creates a cache of about `capacity` entries for the credentials of `source`.
    #[must_use]
    pub fn new(source: A, capacity: usize, clock: Clock) -> Self {
        let (entries, flights) = (Cache::new(capacity), SingleFlight::new());
        Self { inner: Arc::new(Inner { source, clock, entries, flights }) }
    }

    /// Returns the number of cached credentials.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.entries.len()
    }

    /// Returns `true` if the cache is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a gauge of [`len`](Self::len) for metrics. It holds a weak reference and returns `None` once the cache
    /// has been dropped.
    pub fn gauge(&self) -> impl Fn() -> Option<usize> + Send + Sync + use<A> {
        let inner = Arc::downgrade(&self.inner);
        move || inner.upgrade().map(|inner| inner.entries.len())
    }

    async fn fetch(
        &self,
        role_session: &Arc<RoleSession>,
        token: &SecretString,
    ) -> Result<Arc<Credentials>, AssumeError> {
        let key = *role_session.key();
        let fetch = || {
            let (inner, role_session) = (Arc::clone(&self.inner), Arc::clone(role_session));
            let token = token.clone();
            async move { inner.fetch(&role_session, &token).await }
        };
        self.inner.flights.join(key, fetch).await
    }

    /// Spawns a task that fetches new credentials while the cached ones remain in use.
    fn renew(&self, role_session: &Arc<RoleSession>, token: &SecretString) {
        // Background renewal needs a runtime. Without one, the first request after the entry's end waits for the fetch.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (this, role_session, token) = (self.clone(), Arc::clone(role_session), token.clone());
        runtime.spawn(async move {
            if let Err(error) = this.fetch(&role_session, &token).await {
                tracing::debug!(role = ?role_session.role(), %error, "renewing credentials failed");
            }
        });
    }
}

impl<A: AssumeRole> AssumeRole for CredentialCache<A> {
    async fn assume(
        &self,
        role_session: &Arc<RoleSession>,
        token: &SecretString,
    ) -> Result<Arc<Credentials>, AssumeError> {
        let now = self.inner.clock.now();
        let Some(cached) = self.inner.entries.get(role_session.key(), now) else {
            return self.fetch(role_session, token).await;
        };
        if cached.is_renewal_due(self.inner.clock.unix()) {
            self.renew(role_session, token);
        }
        Ok(Arc::clone(&cached.credentials))
    }

    fn invalidate(&self, role_session: &RoleSession, credentials: &Credentials) {
        let Inner { source, clock, entries, flights: _ } = &*self.inner;
        let now = clock.now();
        let Some(cached) = entries.get(role_session.key(), now) else { return };
        let same = cached.credentials.access_key_id() == credentials.access_key_id();
        if same && cached.fetched_at + MIN_AGE <= now {
            entries.remove(role_session.key());
        }
        source.invalidate(role_session, credentials);
    }
}

impl<A> Clone for CredentialCache<A> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<A> fmt::Debug for CredentialCache<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("kept", &self.inner.entries).finish_non_exhaustive()
    }
}

// === impl Inner ===

impl<A: AssumeRole> Inner<A> {
    async fn fetch(
        &self,
        role_session: &Arc<RoleSession>,
        token: &SecretString,
    ) -> Result<Arc<Credentials>, AssumeError> {
        let credentials = self.source.assume(role_session, token).await?;
        let now = self.clock.now();
        let lifetime = credentials.expires_at().duration_since(now).unwrap_or_default();
        let margin = EXPIRY_MARGIN.min(lifetime / 2);
        let use_until = now + lifetime.saturating_sub(margin);
        let cached = CachedCredentials {
            credentials: Arc::clone(&credentials),
            fetched_at: now,
            renew_at: AtomicU64::new(unix_seconds(use_until - margin / 2)),
        };
        self.entries.insert(*role_session.key(), Arc::new(cached), use_until, now);
        Ok(credentials)
    }
}

// === impl CachedCredentials ===

impl CachedCredentials {
    /// Returns `true` if renewal is due and this caller has claimed it. The `compare_exchange` lets one caller per
    /// [`RENEWAL_INTERVAL`] succeed.
    fn is_renewal_due(&self, now: u64) -> bool {
        let at = self.renew_at.load(Ordering::Relaxed);
        let next = now + RENEWAL_INTERVAL.as_secs();
        now >= at
            && self
                .renew_at
                .compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

fn unix_seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;
