//! Keys that are fetched from the issuer, and fetched again before they get old.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use http::Uri;
use vmcp_core::{Clock, Flights, HttpClient};
use vmcp_jwt::{KeySet, KeySource, KeySourceError, KeysFuture};

use crate::discovery::{Issuer, SourceError, parse_url};
use crate::fetch::get;
use crate::lifetime::{Lifetime, Phase};

/// How long a failed fetch is not repeated.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// How long a fetch may take, with all requests that finding the keys needs.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// How often keys are fetched because a token names an unknown one.
const UNKNOWN_KEY_INTERVAL: Duration = Duration::from_secs(30);

/// The keys of an issuer on the network.
///
/// Nothing is fetched before the first token. Then a set is used as long as its `Cache-Control` says,
/// at least 60 s, at most 1 h and 10 minutes by default; after four fifths of that time the next one is
/// fetched while tokens are verified with the old one. While the issuer cannot be asked, or answers
/// nonsense or an empty set, the last set is used for up to 24 h. A token that names an unknown key
/// causes a fetch, at most every 30 s. Of many that need the keys at once, one fetches them, within
/// 10 s; a failed fetch is not repeated for 5 s.
///
/// Fetches ahead run as tasks of the current tokio runtime.
#[derive(Clone)]
pub struct JwksSource(Arc<CachedSource>);

struct CachedSource {
    location: KeySetLocation,
    configured: HttpClient,
    supplied: HttpClient,
    clock: Clock,
    cached: ArcSwapOption<CachedKeySet>,
    limiter: Mutex<RefreshLimiter>,
    is_refreshing: AtomicBool,
    flights: Flights<(), Result<Arc<KeySet>, KeySourceError>>,
}

enum KeySetLocation {
    Fixed(Uri),
    Discovered { issuer: Issuer, keys: Mutex<Option<Uri>> },
}

/// One fetch ahead; the next may begin when it is dropped.
struct RefreshGuard(JwksSource);

struct CachedKeySet {
    set: Arc<KeySet>,
    lifetime: Lifetime,
}

/// What must not happen too often.
#[derive(Default)]
struct RefreshLimiter {
    failed: Option<(SystemTime, KeySourceError)>,
    last_unknown_key_fetch: Option<SystemTime>,
}

// === impl JwksSource ===

impl JwksSource {
    /// The keys of `issuer`, found by its metadata (OpenID Connect Discovery, RFC 8414), which must be
    /// of exactly this issuer.
    ///
    /// `configured` asks at the issuer's own origin, which the operator named; `supplied` asks where
    /// else the metadata says that the keys are, which the operator did not name, so it should not
    /// reach private addresses.
    ///
    /// # Errors
    /// `issuer` is no such URL.
    pub fn discover(
        issuer: &str,
        configured: impl Into<HttpClient>,
        supplied: impl Into<HttpClient>,
        clock: Clock,
    ) -> Result<Self, SourceError> {
        let issuer = Issuer::parse(issuer)?;
        let location = KeySetLocation::Discovered { issuer, keys: Mutex::default() };
        Ok(Self::new(location, configured.into(), supplied.into(), clock))
    }

    /// The keys at `url`.
    ///
    /// # Errors
    /// `url` is no such URL.
    pub fn from_url(
        url: &str,
        client: impl Into<HttpClient>,
        clock: Clock,
    ) -> Result<Self, SourceError> {
        let client = client.into();
        Ok(Self::new(KeySetLocation::Fixed(parse_url(url)?), client.clone(), client, clock))
    }

    fn new(
        location: KeySetLocation,
        configured: HttpClient,
        supplied: HttpClient,
        clock: Clock,
    ) -> Self {
        Self(Arc::new(CachedSource {
            location,
            configured,
            supplied,
            clock,
            cached: ArcSwapOption::empty(),
            limiter: Mutex::default(),
            is_refreshing: AtomicBool::new(false),
            flights: Flights::new(),
        }))
    }
}

impl KeySource for JwksSource {
    fn current(&self) -> Option<Arc<KeySet>> {
        let source = &self.0;
        let cached = source.cached.load();
        let CachedKeySet { set, lifetime } = &**cached.as_ref()?;
        let now = source.clock.now();
        match lifetime.phase(now) {
            Phase::Fresh => {}
            Phase::RefreshDue => self.refresh_in_background(now),
            // Whoever comes after a quiet time waits for new keys, unless it is known to be in vain.
            Phase::Stale if source.limiter().failed.is_some() => self.refresh_in_background(now),
            Phase::Stale | Phase::Expired => return None,
        }
        Some(Arc::clone(set))
    }

    fn load(&self, lacking: Option<Arc<KeySet>>) -> KeysFuture {
        let source = Arc::clone(&self.0);
        Box::pin(async move {
            let leader = Arc::clone(&source);
            source.flights.join((), || async move { leader.load(lacking).await }).await
        })
    }
}

impl JwksSource {
    fn refresh_in_background(&self, now: SystemTime) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.0.limiter().is_backing_off(now) || self.0.is_refreshing.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let guard = RefreshGuard(self.clone());
        runtime.spawn(async move {
            // The outcome is in `cached` or in `limiter`.
            _ = guard.0.load(None).await;
        });
    }
}

impl fmt::Debug for JwksSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwksSource").finish_non_exhaustive()
    }
}

// === impl Ahead ===

impl Drop for RefreshGuard {
    fn drop(&mut self) {
        self.0.0.is_refreshing.store(false, Ordering::Release);
    }
}

// === impl Place ===

impl KeySetLocation {
    /// Who is asked first.
    fn host(&self) -> Option<&str> {
        match self {
            Self::Fixed(uri) => uri.host(),
            Self::Discovered { issuer, .. } => Some(issuer.host()),
        }
    }
}

// === impl Source ===

impl CachedSource {
    fn limiter(&self) -> MutexGuard<'_, RefreshLimiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The set that may be used if no other can be had.
    fn usable_key_set(&self, now: SystemTime) -> Option<Arc<KeySet>> {
        let cached = self.cached.load();
        let CachedKeySet { set, lifetime } = &**cached.as_ref()?;
        (lifetime.phase(now) != Phase::Expired).then(|| Arc::clone(set))
    }

    /// What needs no fetch after all: somebody else fetched meanwhile, or it is too early.
    fn check_cached(
        &self,
        lacking: Option<&Arc<KeySet>>,
        now: SystemTime,
    ) -> Option<Result<Arc<KeySet>, KeySourceError>> {
        let last = self.usable_key_set(now);
        let mut limiter = self.limiter();
        let Some(lacking) = lacking else {
            let cached = self.cached.load();
            let fresh = cached.as_ref().filter(|it| it.lifetime.phase(now) == Phase::Fresh);
            if let Some(cached) = fresh {
                return Some(Ok(Arc::clone(&cached.set)));
            }
            let (_, error) = limiter.failed.filter(|_| limiter.is_backing_off(now))?;
            return Some(last.ok_or(error));
        };
        match last {
            Some(last) if !Arc::ptr_eq(&last, lacking) => return Some(Ok(last)),
            _ => {}
        }
        if let Some((_, error)) = limiter.failed.filter(|_| limiter.is_backing_off(now)) {
            return Some(Err(error));
        }
        if limiter.last_unknown_key_fetch.is_some_and(|at| now < at + UNKNOWN_KEY_INTERVAL) {
            // What nobody could check is not the token's fault.
            let failed = limiter.failed.map(|(_, error)| error);
            return Some(failed.map_or_else(|| Ok(Arc::clone(lacking)), Err));
        }
        limiter.last_unknown_key_fetch = Some(now);
        None
    }
}

impl CachedSource {
    async fn load(&self, lacking: Option<Arc<KeySet>>) -> Result<Arc<KeySet>, KeySourceError> {
        if let Some(check_cached) = self.check_cached(lacking.as_ref(), self.clock.now()) {
            return check_cached;
        }
        let fetched = tokio::time::timeout(FETCH_TIMEOUT, self.fetch()).await;
        let now = self.clock.now();
        let error = match fetched.unwrap_or(Err(KeySourceError::TooSlow)) {
            Ok((set, lifetime)) => {
                self.limiter().failed = None;
                self.cached.store(Some(Arc::new(CachedKeySet { set: Arc::clone(&set), lifetime })));
                return Ok(set);
            }
            Err(error) => error,
        };
        self.limiter().failed = Some((now, error));
        let last = self.usable_key_set(now);
        let is_using_stale_keys = last.is_some();
        let host = self.location.host();
        tracing::warn!(host, %error, is_using_stale_keys, "an issuer's keys cannot be fetched");
        // Older keys don't help a token that names none of them.
        last.filter(|_| lacking.is_none()).ok_or(error)
    }

    async fn fetch(&self) -> Result<(Arc<KeySet>, Lifetime), KeySourceError> {
        let (client, uri) = match &self.location {
            KeySetLocation::Fixed(uri) => (&self.configured, uri.clone()),
            KeySetLocation::Discovered { issuer, keys } => {
                let known = lock(keys).clone();
                let uri = match known {
                    Some(uri) => uri,
                    None => self.discover(issuer).await?,
                };
                let is_same_origin = issuer.is_same_origin(&uri);
                (if is_same_origin { &self.configured } else { &self.supplied }, uri)
            }
        };
        let fetched = self.fetch_set(client, &uri).await;
        if let KeySetLocation::Discovered { keys, .. } = &self.location {
            // Keys that are not there any more may be elsewhere.
            *lock(keys) = fetched.is_ok().then_some(uri);
        }
        fetched
    }

    async fn fetch_set(
        &self,
        client: &HttpClient,
        uri: &Uri,
    ) -> Result<(Arc<KeySet>, Lifetime), KeySourceError> {
        let (headers, json) = get(client, uri).await?;
        let set = KeySet::parse(&json).map_err(|error| {
            tracing::debug!(%error, "an issuer's keys are malformed");
            KeySourceError::Malformed
        })?;
        if set.is_empty() {
            return Err(KeySourceError::NoUsableKey);
        }
        let before = self.cached.load();
        // The same keys stay the same object, so nobody takes them for other ones.
        let unchanged = before.as_ref().filter(|it| it.set.fingerprint() == set.fingerprint());
        let set = unchanged.map_or_else(|| Arc::new(set), |it| Arc::clone(&it.set));
        Ok((set, Lifetime::new(&headers, self.clock.now())))
    }

    async fn discover(&self, issuer: &Issuer) -> Result<Uri, KeySourceError> {
        let mut first = None;
        for location in issuer.metadata_urls() {
            let found = match get(&self.configured, &location).await {
                Ok((_, json)) => issuer.jwks_uri(&json),
                // The other places are at the same host.
                Err(error @ (KeySourceError::Unreachable | KeySourceError::TooSlow)) => {
                    return Err(error);
                }
                Err(error) => Err(error),
            };
            match found {
                Ok(uri) => return Ok(uri),
                Err(error) => _ = first.get_or_insert(error),
            }
        }
        Err(first.unwrap_or(KeySourceError::Malformed))
    }
}

impl RefreshLimiter {
    fn is_backing_off(&self, now: SystemTime) -> bool {
        self.failed.is_some_and(|(at, _)| now < at + RETRY_INTERVAL)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
