//! Keeping credentials for as long as they hold.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use secrecy::SecretString;
use vmcp_core::{Cache, Clock, Flights};

use crate::{AssumeError, AssumeRole, Assumption, Credentials};

/// How long before their expiry credentials are no longer used, if they live twice as long.
const MARGIN: Duration = Duration::from_mins(5);
/// Between two tries to renew credentials that still hold.
const PAUSE: Duration = Duration::from_secs(30);
/// Credentials that are younger are not forgotten: new ones would fare no better, and a backend
/// that always says so must not cause a call to STS each time.
const YOUNG: Duration = Duration::from_secs(30);

/// Keeps what another [`AssumeRole`] got, per role, session name, duration and holder.
///
/// Credentials are used until five minutes before they expire, or for half of their life if that is
/// shorter. For the last stretch before that new ones are fetched beside the requests, once in 30
/// seconds at most while that fails. Of many that want the same credentials at once, one fetches
/// them. A clone shares everything.
pub struct Cached<A> {
    shared: Arc<Shared<A>>,
}

struct Shared<A> {
    inner: A,
    clock: Clock,
    kept: Cache<[u8; 32], Arc<Held>>,
    under_way: Flights<[u8; 32], Result<Arc<Credentials>, AssumeError>>,
}

struct Held {
    credentials: Arc<Credentials>,
    since: SystemTime,
    /// In seconds since 1970.
    renew_at: AtomicU64,
}

// === impl Cached ===

impl<A: AssumeRole> Cached<A> {
    /// Keeps about `capacity` sets of credentials that `inner` gets.
    #[must_use]
    pub fn new(inner: A, capacity: usize, clock: Clock) -> Self {
        let (kept, under_way) = (Cache::new(capacity), Flights::new());
        Self { shared: Arc::new(Shared { inner, clock, kept, under_way }) }
    }

    /// How many sets of credentials are kept: a gauge.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.kept.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A gauge for others to keep: [`len`](Self::len) for as long as this is there. It keeps nothing itself.
    pub fn gauge(&self) -> impl Fn() -> Option<usize> + Send + Sync + use<A> {
        let shared = Arc::downgrade(&self.shared);
        move || shared.upgrade().map(|shared| shared.kept.len())
    }

    async fn fetch(
        &self,
        assumption: &Arc<Assumption>,
        token: &SecretString,
    ) -> Result<Arc<Credentials>, AssumeError> {
        let key = *assumption.key();
        let fetch = || {
            let (shared, assumption) = (Arc::clone(&self.shared), Arc::clone(assumption));
            let token = token.clone();
            async move { shared.fetch(&assumption, &token).await }
        };
        self.shared.under_way.join(key, fetch).await
    }

    /// Fetches new credentials while the old ones still hold.
    fn renew(&self, assumption: &Arc<Assumption>, token: &SecretString) {
        // Without a runtime nothing runs beside the request; the next one after the margin waits.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (this, assumption, token) = (self.clone(), Arc::clone(assumption), token.clone());
        runtime.spawn(async move {
            if let Err(error) = this.fetch(&assumption, &token).await {
                tracing::debug!(role = ?assumption.role(), %error, "renewing credentials failed");
            }
        });
    }
}

impl<A: AssumeRole> AssumeRole for Cached<A> {
    async fn assume(
        &self,
        assumption: &Arc<Assumption>,
        token: &SecretString,
    ) -> Result<Arc<Credentials>, AssumeError> {
        let now = self.shared.clock.now();
        let Some(held) = self.shared.kept.get(assumption.key(), now) else {
            return self.fetch(assumption, token).await;
        };
        if held.takes_renewal(self.shared.clock.unix()) {
            self.renew(assumption, token);
        }
        Ok(Arc::clone(&held.credentials))
    }

    fn forget(&self, assumption: &Assumption, credentials: &Credentials) {
        let Shared { inner, clock, kept, under_way: _ } = &*self.shared;
        let now = clock.now();
        let Some(held) = kept.get(assumption.key(), now) else { return };
        let same = held.credentials.access_key_id() == credentials.access_key_id();
        if same && held.since + YOUNG <= now {
            kept.remove(assumption.key());
        }
        inner.forget(assumption, credentials);
    }
}

impl<A> Clone for Cached<A> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<A> fmt::Debug for Cached<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("kept", &self.shared.kept).finish_non_exhaustive()
    }
}

// === impl Shared ===

impl<A: AssumeRole> Shared<A> {
    async fn fetch(
        &self,
        assumption: &Arc<Assumption>,
        token: &SecretString,
    ) -> Result<Arc<Credentials>, AssumeError> {
        let credentials = self.inner.assume(assumption, token).await?;
        let now = self.clock.now();
        let life = credentials.expires_at().duration_since(now).unwrap_or_default();
        let margin = MARGIN.min(life / 2);
        let use_until = now + life.saturating_sub(margin);
        let held = Held {
            credentials: Arc::clone(&credentials),
            since: now,
            renew_at: AtomicU64::new(unix(use_until - margin / 2)),
        };
        self.kept.insert(*assumption.key(), Arc::new(held), use_until, now);
        Ok(credentials)
    }
}

// === impl Held ===

impl Held {
    /// Whether it is time to renew them, and the asking request is the one to do it.
    fn takes_renewal(&self, now: u64) -> bool {
        let at = self.renew_at.load(Ordering::Relaxed);
        let next = now + PAUSE.as_secs();
        now >= at
            && self
                .renew_at
                .compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

fn unix(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;
