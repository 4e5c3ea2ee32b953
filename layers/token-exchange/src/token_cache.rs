//! Keeps exchanged tokens for as long as they and the tokens that they were exchanged for hold.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest;
use tokio::runtime::Handle;
use vmcp_core::{Cache, Clock, Flights};

use crate::{AccessToken, Exchange, ExchangeError, Subject};

/// Entries, if nothing else is said.
const DEFAULT_CAPACITY: usize = 10_000;
/// A token is given up so long before it expires, or a quarter of its life before.
const EXPIRY_MARGIN: Duration = Duration::from_secs(30);
/// The life of a token of which the authorization server doesn't tell.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(60);
/// No token is kept for longer.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// A refusal is not asked for again so soon.
const REJECTION_TTL: Duration = Duration::from_secs(2);
/// A replacement that is refused too is kept so long, or a backend that refuses everything would cost
/// an exchange for each request.
const REPLACEMENT_INTERVAL: Duration = Duration::from_secs(10);
/// Between two tries to refresh a token ahead.
const REFRESH_RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Refreshes at once.
const MAX_REFRESHES: usize = 64;

/// An exchange that remembers. A clone has the same memory.
///
/// One exchange is made per subject and token, however many ask for it at once. It is kept until 30
/// seconds, or a quarter of its life, before the exchanged token or the subject's own expires,
/// whichever is earlier; for 45 seconds if the authorization server gave no expiry; for a day at most.
/// In the last quarter of that time it is exchanged anew in the background, while requests go on with
/// the old one. A refusal is kept for 2 seconds, an outage not at all. When it is full, what nobody
/// asked for lately makes room.
///
/// The memory belongs to one exchange, thus to one token endpoint, client, audience, scopes and
/// resource. Within it the key is a SHA-256 over issuer, subject and token.
pub struct CachedExchange<X>(Arc<TokenCache<X>>);

struct TokenCache<X> {
    exchange: X,
    clock: Clock,
    entries: Cache<Key, Arc<Entry>>,
    /// Whose token was refused by the backend a moment ago.
    replaced: Cache<Key, ()>,
    flights: Flights<Key, Outcome>,
    refreshing: AtomicUsize,
}

type Outcome = Result<AccessToken, ExchangeError>;

struct Entry {
    outcome: Outcome,
    /// In milliseconds since 1970. Whoever moves it on refreshes.
    refresh_at: AtomicU64,
}

/// What a token is kept under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 32]);

/// What is asked for.
enum GrantRequest<X: Exchange> {
    ClientCredentials(X::Future),
    Exchange(Subject),
}

/// What [`CachedExchange`] answers with: at once, if it remembers.
pub struct CachedExchangeFuture(FutureState);

enum FutureState {
    /// Until it is taken.
    Ready(Option<Outcome>),
    Pending(Pin<Box<dyn Future<Output = Outcome> + Send>>),
}

/// Counts one refresh that is under way.
struct RefreshGuard<X>(Arc<TokenCache<X>>);

// === impl Cached ===

impl<X: Exchange> CachedExchange<X> {
    /// Remembers 10,000 tokens of `exchange`.
    pub fn new(exchange: X, clock: Clock) -> Self {
        Self::with_capacity(exchange, clock, DEFAULT_CAPACITY)
    }

    /// Remembers about `capacity` tokens of `exchange`.
    pub fn with_capacity(exchange: X, clock: Clock, capacity: usize) -> Self {
        Self(Arc::new(TokenCache {
            exchange,
            clock,
            entries: Cache::new(capacity),
            replaced: Cache::new(capacity),
            flights: Flights::new(),
            refreshing: AtomicUsize::new(0),
        }))
    }

    /// How many tokens and refusals are remembered: a gauge.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.entries.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A gauge for others to keep: [`len`](Self::len) for as long as this is there. It keeps nothing itself.
    pub fn gauge(&self) -> impl Fn() -> Option<usize> + Send + Sync + use<X> {
        let cache = Arc::downgrade(&self.0);
        move || cache.upgrade().map(|cache| cache.entries.len())
    }

    /// The outcome that is remembered. `make_request` is called if it is time to refresh it.
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
            // Somebody else's call was refused too, and its replacement is under way.
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

// === impl Shared ===

impl<X: Exchange> TokenCache<X> {
    /// Exchanges, unless somebody did while this was being asked for. `stale` is what is known and
    /// not wanted.
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

    /// `requested_at` is when the life that the server named began at the earliest.
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
        // A token that ends with the subject's own is not outlived by another one.
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

/// Exchanges anew in the background. Without a runtime, or with too many under way, it is left to
/// the next try.
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
            tracing::warn!(%fault, "a token could not be refreshed ahead of its expiry");
        }
        drop(guard);
    });
}

// === impl Entry ===

impl Entry {
    fn new(outcome: Outcome, refresh_at: Option<SystemTime>) -> Self {
        Self { outcome, refresh_at: AtomicU64::new(refresh_at.map_or(u64::MAX, millis)) }
    }

    /// Whether the asker is the one to refresh it.
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
    /// The parts' lengths come first, so that no two subjects read the same.
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

    /// The gateway's own. Shorter than any subject's input, so that it is none's.
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

// === impl CachedFuture ===

impl Future for CachedExchangeFuture {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        match &mut self.get_mut().0 {
            FutureState::Ready(outcome) => outcome.take().map_or(Poll::Pending, Poll::Ready),
            FutureState::Pending(outcome) => outcome.as_mut().poll(cx),
        }
    }
}

impl fmt::Debug for CachedExchangeFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedFuture").finish_non_exhaustive()
    }
}

// === impl Refreshing ===

impl<X> Drop for RefreshGuard<X> {
    fn drop(&mut self) {
        self.0.refreshing.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
