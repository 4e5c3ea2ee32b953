//! A key source that fetches and caches.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use http::Uri;
use vmcp_core::{Clock, HttpClient, SingleFlight, lock};

use super::discovery::{Issuer, SourceError, parse_url};
use super::fetch::get;
use super::lifetime::{Lifetime, Phase};
use crate::{KeySet, KeySource, KeySourceError, KeysFuture};

/// Minimum time between a failed fetch and its retry.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Timeout of a fetch, including all requests for discovery.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Minimum time between fetches for unknown keys.
const UNKNOWN_KEY_INTERVAL: Duration = Duration::from_secs(30);

/// Key source that fetches the keys of an issuer.
///
/// The first token causes the first fetch. A key set stays fresh as its `Cache-Control` states, between 60 s and 1 h,
/// by default 10 minutes; after four fifths of that time, a background task fetches the next one. While the issuer is
/// unavailable or returns no usable keys, the cached set is used for up to 24 h. A token with an unknown key causes a
/// fetch, at most every 30 s. Concurrent callers share one fetch, which takes at most 10 s; a failed fetch is retried
/// after 5 s at the earliest.
///
/// Background fetches run as tasks of the current tokio runtime.
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
    flights: SingleFlight<(), Result<Arc<KeySet>, KeySourceError>>,
}

enum KeySetLocation {
    Fixed(Uri),
    Discovered { issuer: Issuer, keys: Mutex<Option<Uri>> },
}

/// Guard of a background refresh; the next one may start when it is dropped.
struct RefreshGuard(JwksSource);

struct CachedKeySet {
    set: Arc<KeySet>,
    lifetime: Lifetime,
}

/// Times that limit the rate of fetches.
#[derive(Default)]
struct RefreshLimiter {
    failed: Option<(SystemTime, KeySourceError)>,
    last_unknown_key_fetch: Option<SystemTime>,
}

// === impl JwksSource ===

impl JwksSource {
    /// Creates a source for the keys of `issuer`, discovered by its metadata (OpenID Connect Discovery, RFC 8414),
    /// whose issuer must match exactly.
    ///
    /// `configured` sends requests to the issuer's own origin, which the operator configured; `supplied` sends requests
    /// to other origins in the metadata, so it should refuse private addresses.
    ///
    /// # Errors
    /// `issuer` is not a valid issuer URL.
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

    /// Creates a source for the keys at `url`.
    ///
    /// # Errors
    /// `url` is not a valid URL.
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
            flights: SingleFlight::new(),
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
            // The first request after a pause waits for fresh keys, unless the last fetch failed.
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
            // The result is in `cached` or in `limiter`.
            _ = guard.0.load(None).await;
        });
    }
}

impl fmt::Debug for JwksSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwksSource").finish_non_exhaustive()
    }
}

// === impl RefreshGuard ===

impl Drop for RefreshGuard {
    fn drop(&mut self) {
        self.0.0.is_refreshing.store(false, Ordering::Release);
    }
}

// === impl KeySetLocation ===

impl KeySetLocation {
    /// Returns the host of the first request.
    fn host(&self) -> Option<&str> {
        match self {
            Self::Fixed(uri) => uri.host(),
            Self::Discovered { issuer, .. } => Some(issuer.host()),
        }
    }
}

// === impl CachedSource ===

impl CachedSource {
    fn limiter(&self) -> MutexGuard<'_, RefreshLimiter> {
        lock(&self.limiter)
    }

    /// Returns the key set to use if no other one is available.
    fn usable_key_set(&self, now: SystemTime) -> Option<Arc<KeySet>> {
        let cached = self.cached.load();
        let CachedKeySet { set, lifetime } = &**cached.as_ref()?;
        (lifetime.phase(now) != Phase::Expired).then(|| Arc::clone(set))
    }

    /// Returns the result if no fetch is needed: another task has fetched, or it is too early for a retry.
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
            // The token is not at fault if the keys are unavailable.
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
        tracing::warn!(host, %error, is_using_stale_keys, "key_set_fetch_failed");
        // A cached set does not help a token with an unknown key.
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
            // Missing keys may have moved: discover them again.
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
            tracing::debug!(%error, "malformed key set");
            KeySourceError::Malformed
        })?;
        if set.is_empty() {
            return Err(KeySourceError::NoUsableKey);
        }
        let before = self.cached.load();
        // An unchanged key set remains the same object, so that callers can compare pointers.
        let unchanged = before.as_ref().filter(|it| it.set.fingerprint() == set.fingerprint());
        let set = unchanged.map_or_else(|| Arc::new(set), |it| Arc::clone(&it.set));
        Ok((set, Lifetime::new(&headers, self.clock.now())))
    }

    async fn discover(&self, issuer: &Issuer) -> Result<Uri, KeySourceError> {
        let mut first = None;
        for location in issuer.metadata_urls() {
            let found = match get(&self.configured, &location).await {
                Ok((_, json)) => issuer.jwks_uri(&json),
                // The other URLs have the same host.
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

#[cfg(test)]
mod tests;
