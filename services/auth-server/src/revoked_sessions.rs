//! Sessions revoked before their access tokens expire.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{RwLock, RwLockWriteGuard};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use vmcp_auth_store::SessionId;

use crate::lifespans::MAX_ACCESS_LIFESPAN;

/// Retention of a revoked session: the longest time for which one of its access tokens may be accepted, regardless of the
/// lifespan configured at issue, plus the verifier's leeway and clock differences.
pub(crate) const RETENTION: Duration = MAX_ACCESS_LIFESPAN.saturating_add(Duration::from_mins(5));

/// Set of sessions whose access tokens are rejected.
///
/// The set has no size limit: evicting an entry would make its access tokens valid again. Time bounds it, since each entry
/// costs its user a login.
#[derive(Default)]
pub(crate) struct RevokedSessions {
    /// Number of entries. While it is zero, a request takes no lock.
    count: AtomicUsize,
    entries: RwLock<RevokedEntries>,
    hooks: RwLock<Vec<Hook>>,
    load_state: watch::Sender<LoadState>,
}

/// State of the revocations from before this process started to listen. It only ever advances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum LoadState {
    /// Nothing listens to the store: this process is the only one that revokes.
    #[default]
    LocalOnly,
    /// The store has not been read yet: any session may have been revoked.
    Loading,
    /// The store has been read. Servers that share the set need not read it again first.
    Loaded,
}

/// Invariant: both collections hold the same sessions.
#[derive(Default)]
struct RevokedEntries {
    sessions: HashSet<SessionId>,
    /// Sessions in insertion order, with the time after which each may be removed.
    order: VecDeque<(SystemTime, SessionId)>,
}

/// Callback for each revoked session.
type Hook = Box<dyn Fn(SessionId) + Send + Sync>;

impl RevokedSessions {
    /// Adds a session, and calls the hooks if it is new.
    pub(crate) fn insert(&self, session: SessionId, now: SystemTime) {
        if !self.add(session, now) {
            return;
        }
        let hooks = self.hooks.read().expect("no operation under the lock panics");
        hooks.iter().for_each(|hook| hook(session));
    }

    fn add(&self, session: SessionId, now: SystemTime) -> bool {
        let mut entries = self.write();
        let RevokedEntries { sessions, order } = &mut *entries;
        while let Some((_, old)) = order.front().filter(|(until, _)| *until <= now) {
            sessions.remove(old);
            order.pop_front();
        }
        let is_new = sessions.insert(session);
        if is_new {
            order.push_back((now + RETENTION, session));
        }
        // Stored under the lock, so that a later count never overtakes an earlier one.
        self.count.store(sessions.len(), Ordering::Release);
        is_new
    }

    /// Returns `true` if the session was revoked.
    pub(crate) fn contains(&self, session: SessionId) -> bool {
        self.len() > 0
            && self
                .entries
                .read()
                .expect("no operation under the lock panics")
                .sessions
                .contains(&session)
    }

    /// Returns the number of sessions in the set, for a gauge.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Starts to listen to the store: until [`finish_loading`](Self::finish_loading), the set is incomplete.
    pub(crate) fn start_loading(&self) {
        self.advance(LoadState::Loading);
    }

    /// Marks the set as complete: it has all revocations that the store had.
    pub(crate) fn finish_loading(&self) {
        self.advance(LoadState::Loaded);
    }

    /// Returns `true` if a session that is not in the set has not been revoked, as far as the store reported.
    pub(crate) fn is_loaded(&self) -> bool {
        *self.load_state.borrow() != LoadState::Loading
    }

    /// Waits until the set is complete.
    pub(crate) async fn wait_loaded(&self) {
        let mut load_state = self.load_state.subscribe();
        let loaded = load_state.wait_for(|load_state| *load_state != LoadState::Loading).await;
        loaded.expect("`self` owns the sender");
    }

    fn advance(&self, to: LoadState) {
        self.load_state.send_if_modified(|load_state| {
            let is_later = to > *load_state;
            if is_later {
                *load_state = to;
            }
            is_later
        });
    }

    /// Calls `hook` with each session that is revoked from now on.
    pub(crate) fn subscribe(&self, hook: Hook) {
        self.hooks.write().expect("no operation under the lock panics").push(hook);
    }

    fn write(&self) -> RwLockWriteGuard<'_, RevokedEntries> {
        self.entries.write().expect("no operation under the lock panics")
    }
}

impl fmt::Debug for RevokedSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RevokedSessions").field("count", &self.count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: u32) -> SessionId {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        SessionId::from_bytes(bytes)
    }

    #[test]
    fn keeps_every_revocation() {
        let revoked = RevokedSessions::default();
        let now = SystemTime::UNIX_EPOCH;
        (0..500_000).for_each(|number| revoked.insert(session(number), now));
        assert!((0..500_000).all(|number| revoked.contains(session(number))));
    }

    #[test]
    fn drops_revocations_after_longest_token_life() {
        let revoked = RevokedSessions::default();
        let now = SystemTime::UNIX_EPOCH;
        (0..1_000).for_each(|number| revoked.insert(session(number), now));
        let last = now + RETENTION - Duration::from_secs(1);
        revoked.insert(session(1_000), last);
        assert_eq!(revoked.len(), 1_001);
        revoked.insert(session(1_001), now + RETENTION);
        assert_eq!(revoked.len(), 2);
        assert!(revoked.contains(session(1_000)) && !revoked.contains(session(0)));
    }

    #[test]
    fn set_stays_loaded_once_loaded() {
        let revoked = RevokedSessions::default();
        assert!(revoked.is_loaded(), "nothing listens to the store");
        revoked.start_loading();
        assert!(!revoked.is_loaded());
        revoked.finish_loading();
        revoked.start_loading();
        assert!(revoked.is_loaded(), "a server that shares the set knows what it has");
    }

    #[test]
    fn store_retains_revocations_as_long() {
        assert!(vmcp_auth_store::Limits::default().revocation_retention >= RETENTION);
    }
}
