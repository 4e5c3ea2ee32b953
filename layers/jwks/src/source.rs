//! Keys that are fetched from the issuer, and fetched again before they get old.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use http::Uri;
use vmcp_core::{Clock, Flights, HttpClient};
use vmcp_jwt::{KeySet, KeySource, KeysError, KeysFuture};

use crate::discovery::{Issuer, SourceError, address};
use crate::fetch::get;
use crate::lifetime::{Lifetime, Phase};

/// How long a failed fetch is not repeated.
const RETRY: Duration = Duration::from_secs(5);

/// How long a fetch may take, with all requests that finding the keys needs.
const DEADLINE: Duration = Duration::from_secs(10);

/// How often keys are fetched because a token names an unknown one.
const UNKNOWN: Duration = Duration::from_secs(30);

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
pub struct JwksSource(Arc<Source>);

struct Source {
    place: Place,
    configured: HttpClient,
    supplied: HttpClient,
    clock: Clock,
    loaded: ArcSwapOption<Loaded>,
    pace: Mutex<Pace>,
    fetching_ahead: AtomicBool,
    flights: Flights<(), Result<Arc<KeySet>, KeysError>>,
}

enum Place {
    Fixed(Uri),
    Discovered { issuer: Issuer, keys: Mutex<Option<Uri>> },
}

/// One fetch ahead; the next may begin when it is dropped.
struct Ahead(JwksSource);

struct Loaded {
    set: Arc<KeySet>,
    lifetime: Lifetime,
}

/// What must not happen too often.
#[derive(Default)]
struct Pace {
    failed: Option<(SystemTime, KeysError)>,
    looked_for_unknown: Option<SystemTime>,
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
    pub fn discovered(
        issuer: &str,
        configured: impl Into<HttpClient>,
        supplied: impl Into<HttpClient>,
        clock: Clock,
    ) -> Result<Self, SourceError> {
        let issuer = Issuer::parse(issuer)?;
        let place = Place::Discovered { issuer, keys: Mutex::default() };
        Ok(Self::new(place, configured.into(), supplied.into(), clock))
    }

    /// The keys at `url`.
    ///
    /// # Errors
    /// `url` is no such URL.
    pub fn at(url: &str, client: impl Into<HttpClient>, clock: Clock) -> Result<Self, SourceError> {
        let client = client.into();
        Ok(Self::new(Place::Fixed(address(url)?), client.clone(), client, clock))
    }

    fn new(place: Place, configured: HttpClient, supplied: HttpClient, clock: Clock) -> Self {
        Self(Arc::new(Source {
            place,
            configured,
            supplied,
            clock,
            loaded: ArcSwapOption::empty(),
            pace: Mutex::default(),
            fetching_ahead: AtomicBool::new(false),
            flights: Flights::new(),
        }))
    }
}

impl KeySource for JwksSource {
    fn current(&self) -> Option<Arc<KeySet>> {
        let source = &self.0;
        let loaded = source.loaded.load();
        let Loaded { set, lifetime } = &**loaded.as_ref()?;
        let now = source.clock.now();
        match lifetime.phase(now) {
            Phase::Fresh => {}
            Phase::Ageing => self.fetch_ahead(now),
            // Whoever comes after a quiet time waits for new keys, unless it is known to be in vain.
            Phase::Stale if source.pace().failed.is_some() => self.fetch_ahead(now),
            Phase::Stale | Phase::Dead => return None,
        }
        Some(Arc::clone(set))
    }

    fn load(&self, lacking: Option<Arc<KeySet>>) -> KeysFuture {
        let source = Arc::clone(&self.0);
        Box::pin(async move {
            let pilot = Arc::clone(&source);
            source.flights.join((), || async move { pilot.load(lacking).await }).await
        })
    }
}

impl JwksSource {
    fn fetch_ahead(&self, now: SystemTime) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.0.pace().must_wait(now) || self.0.fetching_ahead.swap(true, Ordering::AcqRel) {
            return;
        }
        let ahead = Ahead(self.clone());
        runtime.spawn(async move {
            // The outcome is in `loaded` or in `pace`.
            _ = ahead.0.load(None).await;
        });
    }
}

impl fmt::Debug for JwksSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwksSource").finish_non_exhaustive()
    }
}

// === impl Ahead ===

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.0.fetching_ahead.store(false, Ordering::Release);
    }
}

// === impl Place ===

impl Place {
    /// Who is asked first.
    fn host(&self) -> Option<&str> {
        match self {
            Self::Fixed(uri) => uri.host(),
            Self::Discovered { issuer, .. } => Some(issuer.host()),
        }
    }
}

// === impl Source ===

impl Source {
    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The set that may be used if no other can be had.
    fn last(&self, now: SystemTime) -> Option<Arc<KeySet>> {
        let loaded = self.loaded.load();
        let Loaded { set, lifetime } = &**loaded.as_ref()?;
        (lifetime.phase(now) != Phase::Dead).then(|| Arc::clone(set))
    }

    /// What needs no fetch after all: somebody else fetched meanwhile, or it is too early.
    fn settled(
        &self,
        lacking: Option<&Arc<KeySet>>,
        now: SystemTime,
    ) -> Option<Result<Arc<KeySet>, KeysError>> {
        let last = self.last(now);
        let mut pace = self.pace();
        let Some(lacking) = lacking else {
            let loaded = self.loaded.load();
            let fresh = loaded.as_ref().filter(|it| it.lifetime.phase(now) == Phase::Fresh);
            if let Some(loaded) = fresh {
                return Some(Ok(Arc::clone(&loaded.set)));
            }
            let (_, error) = pace.failed.filter(|_| pace.must_wait(now))?;
            return Some(last.ok_or(error));
        };
        match last {
            Some(last) if !Arc::ptr_eq(&last, lacking) => return Some(Ok(last)),
            _ => {}
        }
        if let Some((_, error)) = pace.failed.filter(|_| pace.must_wait(now)) {
            return Some(Err(error));
        }
        if pace.looked_for_unknown.is_some_and(|at| now < at + UNKNOWN) {
            // What nobody could check is not the token's fault.
            let failed = pace.failed.map(|(_, error)| error);
            return Some(failed.map_or_else(|| Ok(Arc::clone(lacking)), Err));
        }
        pace.looked_for_unknown = Some(now);
        None
    }
}

impl Source {
    async fn load(&self, lacking: Option<Arc<KeySet>>) -> Result<Arc<KeySet>, KeysError> {
        if let Some(settled) = self.settled(lacking.as_ref(), self.clock.now()) {
            return settled;
        }
        let fetched = tokio::time::timeout(DEADLINE, self.fetch()).await;
        let now = self.clock.now();
        let error = match fetched.unwrap_or(Err(KeysError::TooSlow)) {
            Ok((set, lifetime)) => {
                self.pace().failed = None;
                self.loaded.store(Some(Arc::new(Loaded { set: Arc::clone(&set), lifetime })));
                return Ok(set);
            }
            Err(error) => error,
        };
        self.pace().failed = Some((now, error));
        let last = self.last(now);
        let older_keys_are_used = last.is_some();
        let host = self.place.host();
        tracing::warn!(host, %error, older_keys_are_used, "an issuer's keys cannot be fetched");
        // Older keys don't help a token that names none of them.
        last.filter(|_| lacking.is_none()).ok_or(error)
    }

    async fn fetch(&self) -> Result<(Arc<KeySet>, Lifetime), KeysError> {
        let (client, uri) = match &self.place {
            Place::Fixed(uri) => (&self.configured, uri.clone()),
            Place::Discovered { issuer, keys } => {
                let known = lock(keys).clone();
                let uri = match known {
                    Some(uri) => uri,
                    None => self.discover(issuer).await?,
                };
                let home = issuer.is_home_of(&uri);
                (if home { &self.configured } else { &self.supplied }, uri)
            }
        };
        let fetched = self.fetch_set(client, &uri).await;
        if let Place::Discovered { keys, .. } = &self.place {
            // Keys that are not there any more may be elsewhere.
            *lock(keys) = fetched.is_ok().then_some(uri);
        }
        fetched
    }

    async fn fetch_set(
        &self,
        client: &HttpClient,
        uri: &Uri,
    ) -> Result<(Arc<KeySet>, Lifetime), KeysError> {
        let (headers, json) = get(client, uri).await?;
        let set = KeySet::parse(&json).map_err(|error| {
            tracing::debug!(%error, "an issuer's keys are malformed");
            KeysError::Malformed
        })?;
        if set.is_empty() {
            return Err(KeysError::NoUsableKey);
        }
        let before = self.loaded.load();
        // The same keys stay the same object, so nobody takes them for other ones.
        let unchanged = before.as_ref().filter(|it| it.set.fingerprint() == set.fingerprint());
        let set = unchanged.map_or_else(|| Arc::new(set), |it| Arc::clone(&it.set));
        Ok((set, Lifetime::new(&headers, self.clock.now())))
    }

    async fn discover(&self, issuer: &Issuer) -> Result<Uri, KeysError> {
        let mut first = None;
        for place in issuer.places() {
            let found = match get(&self.configured, &place).await {
                Ok((_, json)) => issuer.keys(&json),
                // The other places are at the same host.
                Err(error @ (KeysError::Unreachable | KeysError::TooSlow)) => return Err(error),
                Err(error) => Err(error),
            };
            match found {
                Ok(uri) => return Ok(uri),
                Err(error) => _ = first.get_or_insert(error),
            }
        }
        Err(first.unwrap_or(KeysError::Malformed))
    }
}

impl Pace {
    fn must_wait(&self, now: SystemTime) -> bool {
        self.failed.is_some_and(|(at, _)| now < at + RETRY)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
