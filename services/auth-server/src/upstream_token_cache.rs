//! Process-local cache of upstream tokens, with the state of their refreshes.

mod requirement;
mod stored_tokens;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use vmcp_auth_store::{ProviderName, SessionId};
use vmcp_core::{Cache, Fingerprint, SingleFlight, UpstreamError};

pub(crate) use self::requirement::Requirement;
pub(crate) use self::stored_tokens::StoredTokens;

/// Maximum age of a cached record: a token that was unlinked on any replica is not used for longer.
pub(crate) const MAX_CACHE_AGE: Duration = Duration::from_millis(900);

/// Minimum and maximum delay after a provider was unavailable; it doubles each time.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Maximum number of cached records, and of cached provider failures.
const MAX_CACHE_ENTRIES: usize = 16 * 1024;

pub(crate) type Key = (SessionId, ProviderName);
pub(crate) type Outcome = Result<Arc<StoredTokens>, UpstreamError>;

/// Process-local state of records.
pub(crate) struct UpstreamTokenCache {
    pub(crate) read: Cache<Key, Arc<StoredTokens>>,
    pub(crate) single_flight: SingleFlight<(Key, Requirement), Outcome>,
    /// Rows that were refreshed recently because a backend rejected their token.
    pub(crate) renewed: Cache<Key, ()>,
    /// Current delay of each record's provider after a failure, and its end.
    pub(crate) failed: Cache<Key, (Duration, SystemTime)>,
    /// Keys of the sessions' links.
    pub(crate) link_keys: Cache<SessionId, Fingerprint>,
    pub(crate) link_single_flight: SingleFlight<SessionId, Option<Fingerprint>>,
}

impl UpstreamTokenCache {
    pub(crate) fn new() -> Self {
        let (read, renewed, failed) = (
            Cache::new(MAX_CACHE_ENTRIES),
            Cache::new(MAX_CACHE_ENTRIES),
            Cache::new(MAX_CACHE_ENTRIES),
        );
        let (link_keys, link_single_flight) = (Cache::new(MAX_CACHE_ENTRIES), SingleFlight::new());
        Self {
            read,
            single_flight: SingleFlight::new(),
            renewed,
            failed,
            link_keys,
            link_single_flight,
        }
    }

    /// Returns the number of cached records.
    pub(crate) fn len(&self) -> usize {
        self.read.len()
    }

    /// Returns the number of records whose provider is not asked again for a while.
    pub(crate) fn backed_off(&self) -> usize {
        self.renewed.len() + self.failed.len()
    }

    pub(crate) fn remove(&self, session: SessionId, provider: &ProviderName) {
        let key = (session, provider.clone());
        self.read.remove(&key);
        self.renewed.remove(&key);
        self.failed.remove(&key);
        self.link_keys.remove(&session);
    }

    pub(crate) fn insert(&self, key: &Key, tokens: &Arc<StoredTokens>, now: SystemTime) {
        self.failed.remove(key);
        self.read.insert(key.clone(), Arc::clone(tokens), now + MAX_CACHE_AGE, now);
    }

    /// Records that the provider was unavailable. The delay doubles with each consecutive failure.
    pub(crate) fn record_failure(&self, key: &Key, now: SystemTime) {
        let (least, most) = BACKOFF;
        let time = self.failed.get(key, now).map_or(least, |(time, _)| (time * 2).min(most));
        self.failed.insert(key.clone(), (time, now + time), now + most * 2, now);
    }

    pub(crate) fn is_backed_off(&self, key: &Key, now: SystemTime) -> bool {
        self.failed.get(key, now).is_some_and(|(_, until)| until > now)
    }
}

impl fmt::Debug for UpstreamTokenCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("read", &self.read.len()).finish_non_exhaustive()
    }
}
