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

use crate::{Exchange, ExchangeFault, Exchanged, Subject};

/// Entries, if nothing else is said.
const CAPACITY: usize = 10_000;
/// A token is given up so long before it expires, or a quarter of its life before.
const MARGIN: Duration = Duration::from_secs(30);
/// The life of a token of which the authorization server doesn't tell.
const UNKNOWN: Duration = Duration::from_secs(60);
/// No token is kept for longer.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// A refusal is not asked for again so soon.
const REFUSAL: Duration = Duration::from_secs(2);
/// A replacement that is refused too is kept so long, or a backend that refuses everything would cost
/// an exchange for each request.
const REPLACED: Duration = Duration::from_secs(10);
/// Between two tries to refresh a token ahead.
const RETRY: Duration = Duration::from_secs(5);
/// Refreshes at once.
const REFRESHES: usize = 64;

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
pub struct Cached<X>(Arc<Shared<X>>);

struct Shared<X> {
    exchange: X,
    clock: Clock,
    entries: Cache<Key, Arc<Entry>>,
    /// Whose token was refused by the backend a moment ago.
    replaced: Cache<Key, ()>,
    flights: Flights<Key, Outcome>,
    refreshing: AtomicUsize,
}

type Outcome = Result<Exchanged, ExchangeFault>;

struct Entry {
    outcome: Outcome,
    /// In milliseconds since 1970. Whoever moves it on refreshes.
    refresh_at: AtomicU64,
}

/// What a token is kept under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 32]);

/// What is asked for.
enum Want<X: Exchange> {
    Own(X::Future),
    Exchange(Subject),
}

/// What [`Cached`] answers with: at once, if it remembers.
pub struct CachedFuture(State);

enum State {
    /// Until it is taken.
    There(Option<Outcome>),
    Asked(Pin<Box<dyn Future<Output = Outcome> + Send>>),
}

/// Counts one refresh that is under way.
struct Refreshing<X>(Arc<Shared<X>>);

// === impl Cached ===

impl<X: Exchange> Cached<X> {
    /// Remembers 10,000 tokens of `exchange`.
    pub fn new(exchange: X, clock: Clock) -> Self {
        Self::with_capacity(exchange, clock, CAPACITY)
    }

    /// Remembers about `capacity` tokens of `exchange`.
    pub fn with_capacity(exchange: X, clock: Clock, capacity: usize) -> Self {
        Self(Arc::new(Shared {
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
        let shared = Arc::downgrade(&self.0);
        move || shared.upgrade().map(|shared| shared.entries.len())
    }

    /// The outcome that is remembered. `again` is called if it is time to refresh it.
    fn remembered(
        &self,
        key: Key,
        again: impl FnOnce(&X) -> Option<Want<X>>,
    ) -> Option<CachedFuture> {
        let shared = &self.0;
        let now = shared.clock.now();
        let entry = shared.entries.get(&key, now)?;
        let outcome = entry.outcome.clone();
        if entry.is_due(now)
            && let Some(want) = again(&shared.exchange)
        {
            refresh(shared, key, want, entry);
        }
        Some(CachedFuture(State::There(Some(outcome))))
    }

    fn ask(&self, key: Key, want: Want<X>) -> CachedFuture {
        CachedFuture(State::Asked(Box::pin(join(Arc::clone(&self.0), key, want, None))))
    }
}

impl<X: Exchange> Exchange for Cached<X> {
    type Future = CachedFuture;

    fn exchange(&self, subject: Subject) -> CachedFuture {
        let key = Key::of(&subject);
        self.remembered(key, |_| Some(Want::Exchange(subject.clone())))
            .unwrap_or_else(|| self.ask(key, Want::Exchange(subject)))
    }

    fn own(&self) -> Option<CachedFuture> {
        let key = Key::own();
        let found = self.remembered(key, |exchange| exchange.own().map(Want::Own));
        found.or_else(|| Some(self.ask(key, Want::Own(self.0.exchange.own()?))))
    }

    fn refused(&self, token: &Exchanged) -> bool {
        let Some(key) = token.kept else { return false };
        let shared = &self.0;
        let now = shared.clock.now();
        let Some(entry) = shared.entries.get(&key, now) else {
            // Somebody else's call was refused too, and its replacement is under way.
            return true;
        };
        match &entry.outcome {
            Ok(current) if current.value() != token.value() => return true,
            Ok(_) if shared.replaced.get(&key, now).is_some() => return false,
            Ok(_) => {}
            Err(_) => return false,
        }
        shared.replaced.insert(key, (), now + REPLACED, now);
        shared.entries.remove(&key);
        true
    }
}

impl<X> Clone for Cached<X> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<X> fmt::Debug for Cached<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("entries", &self.0.entries).finish_non_exhaustive()
    }
}

// === impl Shared ===

impl<X: Exchange> Shared<X> {
    /// Exchanges, unless somebody did while this was being asked for. `stale` is what is known and
    /// not wanted.
    async fn fetch(self: Arc<Self>, key: Key, want: Want<X>, stale: Option<Arc<Entry>>) -> Outcome {
        let now = self.clock.now();
        if let Some(entry) = self.entries.get(&key, now)
            && !stale.as_ref().is_some_and(|stale| Arc::ptr_eq(stale, &entry))
        {
            return entry.outcome.clone();
        }
        let (asked, until) = match want {
            Want::Own(asked) => (asked, None),
            Want::Exchange(subject) => {
                let until = subject.expires_at();
                (self.exchange.exchange(subject), until)
            }
        };
        match asked.await {
            Ok(token) => Ok(self.keep(key, token, now, until)),
            Err(fault) => {
                if matches!(fault, ExchangeFault::Refused { .. }) && stale.is_none() {
                    let now = self.clock.now();
                    let entry = Entry::new(Err(fault.clone()), None);
                    self.entries.insert(key, Arc::new(entry), now + REFUSAL, now);
                }
                Err(fault)
            }
        }
    }

    /// `asked_at` is when the life that the server named began at the earliest.
    fn keep(
        &self,
        key: Key,
        mut token: Exchanged,
        asked_at: SystemTime,
        until: Option<SystemTime>,
    ) -> Exchanged {
        let own = token.expires_at().unwrap_or(asked_at + UNKNOWN);
        let end = until.map_or(own, |until| until.min(own));
        let life = end.duration_since(asked_at).unwrap_or_default().min(LONGEST);
        let kept_for = life.saturating_sub(MARGIN.min(life / 4));
        let now = self.clock.now();
        if asked_at + kept_for <= now {
            return token;
        }
        token.kept = Some(key);
        // A token that ends with the subject's own is not outlived by another one.
        let refresh_at = (end == own).then(|| asked_at + kept_for / 4 * 3);
        let entry = Entry::new(Ok(token.clone()), refresh_at);
        self.entries.insert(key, Arc::new(entry), asked_at + kept_for, now);
        token
    }
}

async fn join<X: Exchange>(
    shared: Arc<Shared<X>>,
    key: Key,
    want: Want<X>,
    stale: Option<Arc<Entry>>,
) -> Outcome {
    let flight = Arc::clone(&shared);
    shared.flights.join(key, move || flight.fetch(key, want, stale)).await
}

/// Exchanges anew in the background. Without a runtime, or with too many under way, it is left to
/// the next try.
fn refresh<X: Exchange>(shared: &Arc<Shared<X>>, key: Key, want: Want<X>, stale: Arc<Entry>) {
    let counted = Refreshing(Arc::clone(shared));
    if shared.refreshing.fetch_add(1, Ordering::Relaxed) >= REFRESHES {
        return;
    }
    let Ok(runtime) = Handle::try_current() else { return };
    runtime.spawn(async move {
        let shared = Arc::clone(&counted.0);
        if let Err(fault) = join(shared, key, want, Some(stale)).await {
            tracing::warn!(%fault, "a token could not be refreshed ahead of its expiry");
        }
        drop(counted);
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
            && self.refresh_at.compare_exchange(at, millis(now + RETRY), order, order).is_ok()
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
    fn own() -> Self {
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

impl Future for CachedFuture {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        match &mut self.get_mut().0 {
            State::There(outcome) => outcome.take().map_or(Poll::Pending, Poll::Ready),
            State::Asked(outcome) => outcome.as_mut().poll(cx),
        }
    }
}

impl fmt::Debug for CachedFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedFuture").finish_non_exhaustive()
    }
}

// === impl Refreshing ===

impl<X> Drop for Refreshing<X> {
    fn drop(&mut self) {
        self.0.refreshing.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
