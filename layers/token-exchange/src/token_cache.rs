//! A cache of exchanged tokens.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;
use tokio::runtime::Handle;
use vmcp_core::{Cache, Clock, SingleFlight};

use crate::{AccessToken, Exchange, ExchangeError, Subject};

/// Default capacity.
const DEFAULT_CAPACITY: usize = 10_000;
/// Time before expiry at which a token is evicted, or a quarter of its lifetime if that is shorter.
const EXPIRY_MARGIN: Duration = Duration::from_secs(30);
/// Lifetime of a token without a stated expiry.
const DEFAULT_LIFETIME: Duration = Duration::from_mins(1);
/// Maximum lifetime in the cache.
const MAX_LIFETIME: Duration = Duration::from_hours(24);
/// Time to live of a rejection.
const REJECTION_TTL: Duration = Duration::from_secs(2);
/// Minimum time between replacements of a token. Otherwise a backend that rejects every token would cause an exchange
/// for each request.
const REPLACEMENT_INTERVAL: Duration = Duration::from_secs(10);
/// Minimum time between background refreshes of a token.
const REFRESH_RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of concurrent background refreshes.
const MAX_REFRESHES: usize = 64;

/// Caches the tokens of an exchange. Clones share the cache.
///
/// Concurrent requests for the same subject and token share one exchange. A token is cached until 30 seconds, or a
/// quarter of its lifetime, before its own expiry or that of the subject token, whichever is earlier; for 45 seconds
/// without a stated expiry; for a day at most. In the last quarter of that time, a background task exchanges the
/// subject token again while requests use the cached one. Rejections are cached for 2 seconds, outages are not. A full
/// cache evicts the least recently used entries.
///
/// A cache belongs to one exchange, that is, to one token endpoint, client, audience, scope and resource. Its key is
/// the SHA-256 of issuer, subject and token.
pub struct CachedExchange<X>(Arc<TokenCache<X>>);

struct TokenCache<X> {
    exchange: X,
    clock: Clock,
    entries: Cache<Key, Arc<Entry>>,
    /// Keys of the tokens that were replaced recently because a backend rejected them.
    replaced: Cache<Key, ()>,
    flights: SingleFlight<Key, Outcome>,
    refreshing: AtomicUsize,
}

type Outcome = Result<AccessToken, ExchangeError>;

struct Entry {
    outcome: Outcome,
    /// Milliseconds since 1970. The caller that advances it by compare-and-swap refreshes the token. `Relaxed`: no
    /// other data depends on it.
    refresh_at: AtomicU64,
}

/// Cache key of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 32]);

/// Requested grant.
enum GrantRequest<X: Exchange> {
    ClientCredentials(X::Future),
    Exchange(Subject),
}

/// Future of [`CachedExchange`]. Ready immediately for a cached token.
pub struct CachedExchangeFuture(FutureState);

enum FutureState {
    /// `None` after completion.
    Ready(Option<Outcome>),
    Pending(Pin<Box<dyn Future<Output = Outcome> + Send>>),
}

/// Guard that counts a background refresh.
struct RefreshGuard<X>(Arc<TokenCache<X>>);

// === impl CachedExchange ===

impl<X: Exchange> CachedExchange<X> {
    /// Creates a cache for 10,000 tokens of `exchange`.
    pub fn new(exchange: X, clock: Clock) -> Self {
        Self::with_capacity(exchange, clock, DEFAULT_CAPACITY)
    }

    /// Creates a cache for about `capacity` tokens of `exchange`.
    pub fn with_capacity(exchange: X, clock: Clock, capacity: usize) -> Self {
        Self(Arc::new(TokenCache {
            exchange,
            clock,
            entries: Cache::new(capacity),
            replaced: Cache::new(capacity),
            flights: SingleFlight::new(),
            refreshing: AtomicUsize::new(0),
        }))
    }

    /// Returns the number of cached tokens and rejections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.entries.len()
    }

    /// Returns `true` if nothing is cached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a gauge of [`len`](Self::len) that does not keep the cache alive.
    pub fn gauge(&self) -> impl Fn() -> Option<usize> + Send + Sync + use<X> {
        let cache = Arc::downgrade(&self.0);
        move || cache.upgrade().map(|cache| cache.entries.len())
    }

    /// Returns the cached outcome. Calls `make_request` if a refresh is due.
    fn cached_outcome(
        &self,
        key: Key,
        make_request: impl FnOnce(&X) -> Option<GrantRequest<X>>,
    ) -> Option<CachedExchangeFuture> {
        let cache = &self.0;
        let now = cache.clock.now();
        let entry = cache.entries.get(&key, now)?;
        let outcome = entry.outcome.clone();
        if entry.is_due(now)
            && let Some(grant) = make_request(&cache.exchange)
        {
            refresh_in_background(cache, key, grant, entry);
        }
        Some(CachedExchangeFuture(FutureState::Ready(Some(outcome))))
    }

    fn pending(&self, key: Key, grant: GrantRequest<X>) -> CachedExchangeFuture {
        CachedExchangeFuture(FutureState::Pending(Box::pin(fetch_shared(
            Arc::clone(&self.0),
            key,
            grant,
            None,
        ))))
    }
}

impl<X: Exchange> Exchange for CachedExchange<X> {
    type Future = CachedExchangeFuture;

    fn exchange(&self, subject: Subject) -> CachedExchangeFuture {
        let key = Key::of(&subject);
        self.cached_outcome(key, |_| Some(GrantRequest::Exchange(subject.clone())))
            .unwrap_or_else(|| self.pending(key, GrantRequest::Exchange(subject)))
    }

    fn client_credentials(&self) -> Option<CachedExchangeFuture> {
        let key = Key::gateway();
        let found = self.cached_outcome(key, |exchange| {
            exchange.client_credentials().map(GrantRequest::ClientCredentials)
        });
        found.or_else(|| {
            Some(self.pending(
                key,
                GrantRequest::ClientCredentials(self.0.exchange.client_credentials()?),
            ))
        })
    }

    fn invalidate(&self, token: &AccessToken) -> bool {
        let Some(key) = token.cache_key else { return false };
        let cache = &self.0;
        let now = cache.clock.now();
        let Some(entry) = cache.entries.get(&key, now) else {
            // A concurrent call was rejected too, and the token is being replaced.
            return true;
        };
        match &entry.outcome {
            Ok(current) if current.value() != token.value() => return true,
            Ok(_) if cache.replaced.get(&key, now).is_some() => return false,
            Ok(_) => {}
            Err(_) => return false,
        }
        cache.replaced.insert(key, (), now + REPLACEMENT_INTERVAL, now);
        cache.entries.remove(&key);
        true
    }
}

impl<X> Clone for CachedExchange<X> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<X> fmt::Debug for CachedExchange<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("entries", &self.0.entries).finish_non_exhaustive()
    }
}

// === impl TokenCache ===

impl<X: Exchange> TokenCache<X> {
    /// Exchanges, unless a concurrent call has done so in the meantime. `stale` is the cached entry to replace.
    async fn fetch(
        self: Arc<Self>,
        key: Key,
        grant: GrantRequest<X>,
        stale: Option<Arc<Entry>>,
    ) -> Outcome {
        let now = self.clock.now();
        if let Some(entry) = self.entries.get(&key, now)
            && !stale.as_ref().is_some_and(|stale| Arc::ptr_eq(stale, &entry))
        {
            return entry.outcome.clone();
        }
        let (future, subject_expiry) = match grant {
            GrantRequest::ClientCredentials(future) => (future, None),
            GrantRequest::Exchange(subject) => {
                let subject_expiry = subject.expires_at();
                (self.exchange.exchange(subject), subject_expiry)
            }
        };
        match future.await {
            Ok(token) => Ok(self.insert(key, token, now, subject_expiry)),
            Err(fault) => {
                if matches!(fault, ExchangeError::Rejected { .. }) && stale.is_none() {
                    let now = self.clock.now();
                    let entry = Entry::new(Err(fault.clone()), None);
                    self.entries.insert(key, Arc::new(entry), now + REJECTION_TTL, now);
                }
                Err(fault)
            }
        }
    }

    /// Caches a token. `requested_at` is the earliest start of the stated lifetime.
    fn insert(
        &self,
        key: Key,
        mut token: AccessToken,
        requested_at: SystemTime,
        subject_expiry: Option<SystemTime>,
    ) -> AccessToken {
        let token_end = token.expires_at().unwrap_or(requested_at + DEFAULT_LIFETIME);
        let end = subject_expiry.map_or(token_end, |subject_expiry| subject_expiry.min(token_end));
        let lifetime = end.duration_since(requested_at).unwrap_or_default().min(MAX_LIFETIME);
        let ttl = lifetime.saturating_sub(EXPIRY_MARGIN.min(lifetime / 4));
        let now = self.clock.now();
        if requested_at + ttl <= now {
            return token;
        }
        token.cache_key = Some(key);
        // Refreshing is useless if the subject token expires first.
        let refresh_at = (end == token_end).then(|| requested_at + ttl / 4 * 3);
        let entry = Entry::new(Ok(token.clone()), refresh_at);
        self.entries.insert(key, Arc::new(entry), requested_at + ttl, now);
        token
    }
}

async fn fetch_shared<X: Exchange>(
    cache: Arc<TokenCache<X>>,
    key: Key,
    grant: GrantRequest<X>,
    stale: Option<Arc<Entry>>,
) -> Outcome {
    let flight = Arc::clone(&cache);
    cache.flights.join(key, move || flight.fetch(key, grant, stale)).await
}

/// Exchanges in the background. Without a runtime, or beyond the limit of refreshes, a later call tries again.
fn refresh_in_background<X: Exchange>(
    cache: &Arc<TokenCache<X>>,
    key: Key,
    grant: GrantRequest<X>,
    stale: Arc<Entry>,
) {
    let guard = RefreshGuard(Arc::clone(cache));
    if cache.refreshing.fetch_add(1, Ordering::Relaxed) >= MAX_REFRESHES {
        return;
    }
    let Ok(runtime) = Handle::try_current() else { return };
    runtime.spawn(async move {
        let cache = Arc::clone(&guard.0);
        if let Err(fault) = fetch_shared(cache, key, grant, Some(stale)).await {
            tracing::warn!(%fault, "token_refresh_failed");
        }
        drop(guard);
    });
}

// === impl Entry ===

impl Entry {
    fn new(outcome: Outcome, refresh_at: Option<SystemTime>) -> Self {
        Self { outcome, refresh_at: AtomicU64::new(refresh_at.map_or(u64::MAX, millis)) }
    }

    /// Returns `true` if a refresh is due and the caller has to run it.
    fn is_due(&self, now: SystemTime) -> bool {
        let at = self.refresh_at.load(Ordering::Relaxed);
        let order = Ordering::Relaxed;
        millis(now) >= at
            && self
                .refresh_at
                .compare_exchange(at, millis(now + REFRESH_RETRY_INTERVAL), order, order)
                .is_ok()
    }
}

fn millis(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

// === impl Key ===

impl Key {
    /// Hashes the lengths of the parts first, so that different subjects have different inputs.
    fn of(subject: &Subject) -> Self {
        let identity = subject.identity();
        let parts = [
            identity.issuer().unwrap_or_default(),
            identity.subject().unwrap_or_default(),
            subject.expose_token(),
        ];
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(parts.map(|part| (part.len() as u64).to_le_bytes()).as_flattened());
        for part in parts {
            hash.update(part.as_bytes());
        }
        Self::from(&hash.finish())
    }

    /// Returns the key of the gateway's own token. Its input is shorter than that of any subject.
    fn gateway() -> Self {
        Self::from(&digest::digest(&digest::SHA256, b"gateway"))
    }
}

impl From<&digest::Digest> for Key {
    fn from(digest: &digest::Digest) -> Self {
        let mut key = [0; 32];
        key.copy_from_slice(digest.as_ref());
        Self(key)
    }
}

// === impl CachedExchangeFuture ===

impl Future for CachedExchangeFuture {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        match &mut self.get_mut().0 {
            FutureState::Ready(outcome) => {
                Poll::Ready(outcome.take().expect("future polled after completion"))
            }
            FutureState::Pending(outcome) => outcome.as_mut().poll(cx),
        }
    }
}

impl fmt::Debug for CachedExchangeFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedFuture").finish_non_exhaustive()
    }
}

// === impl RefreshGuard ===

impl<X> Drop for RefreshGuard<X> {
    fn drop(&mut self) {
        self.0.refreshing.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
