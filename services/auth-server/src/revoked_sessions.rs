//! Sessions revoked before their access tokens expire.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use vmcp_auth_store::SessionId;

use crate::settings::MAX_ACCESS_LIFESPAN;

/// Retention of a revoked session: the longest time for which one of its access tokens may be accepted, regardless of the
/// lifespan configured at issue, plus the verifier's leeway and clock differences.
pub(crate) const REMEMBERED: Duration =
    MAX_ACCESS_LIFESPAN.saturating_add(Duration::from_secs(300));

/// Set of sessions whose access tokens are rejected.
///
/// The set has no size limit: evicting an entry would make its access tokens valid again. Time bounds it, since each entry
/// costs its user a login.
#[derive(Default)]
pub(crate) struct RevokedSessions {
    /// Number of entries. While it is zero, a request takes no lock.
    count: AtomicUsize,
    entries: RwLock<Entries>,
    hooks: RwLock<Vec<Hook>>,
    history: watch::Sender<History>,
}

/// State of the revocations from before this process started to listen. It only ever advances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum History {
    /// Nothing listens to the store: this process is the only one that revokes.
    #[default]
    Own,
    /// The store has not been read yet: any session may have been revoked.
    Unread,
    /// The store has been read. Servers that share the set need not read it again first.
    Read,
}

/// Invariant: both collections hold the same sessions.
#[derive(Default)]
struct Entries {
    sessions: HashSet<SessionId>,
    /// Sessions in insertion order, with the time after which each may be removed.
    order: VecDeque<(SystemTime, SessionId)>,
}

/// Callback for each revoked session.
type Hook = Box<dyn Fn(SessionId) + Send + Sync>;

impl RevokedSessions {
    /// Adds a session, and calls the hooks if it is new.
    pub(crate) fn insert(&self, session: SessionId, now: SystemTime) {
        if !self.remember(session, now) {
            return;
        }
        let hooks = self.hooks.read().unwrap_or_else(PoisonError::into_inner);
        hooks.iter().for_each(|hook| hook(session));
    }

    fn remember(&self, session: SessionId, now: SystemTime) -> bool {
        let mut entries = self.write();
        let Entries { sessions, order } = &mut *entries;
        while let Some((_, old)) = order.front().filter(|(until, _)| *until <= now) {
            sessions.remove(old);
            order.pop_front();
        }
        let is_new = sessions.insert(session);
        if is_new {
            order.push_back((now + REMEMBERED, session));
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
                .unwrap_or_else(PoisonError::into_inner)
                .sessions
                .contains(&session)
    }

    /// Returns the number of sessions in the set, for a gauge.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Starts to listen to the store: until [`end_reading`](Self::end_reading), the set is incomplete.
    pub(crate) fn begin_reading(&self) {
        self.advance(History::Unread);
    }

    /// Marks the set as complete: it has all revocations that the store had.
    pub(crate) fn end_reading(&self) {
        self.advance(History::Read);
    }

    /// Returns `true` if a session that is not in the set has not been revoked, as far as the store reported.
    pub(crate) fn is_complete(&self) -> bool {
        *self.history.borrow() != History::Unread
    }

    /// Waits until the set is complete.
    pub(crate) async fn completed(&self) {
        let mut history = self.history.subscribe();
        // Invariant: `self` owns the sender, so the wait does not fail.
        let _ = history.wait_for(|history| *history != History::Unread).await;
    }

    fn advance(&self, to: History) {
        self.history.send_if_modified(|history| {
            let is_later = to > *history;
            if is_later {
                *history = to;
            }
            is_later
        });
    }

    /// Calls `hook` with each session that is revoked from now on.
    pub(crate) fn subscribe(&self, hook: Hook) {
        self.hooks.write().unwrap_or_else(PoisonError::into_inner).push(hook);
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
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
    fn no_number_of_revocations_makes_one_forgotten() {
        let revoked = RevokedSessions::default();
        let now = SystemTime::UNIX_EPOCH;
        (0..500_000).for_each(|number| revoked.insert(session(number), now));
        assert!((0..500_000).all(|number| revoked.contains(session(number))));
    }

    #[test]
    fn entries_go_once_no_token_is_left() {
        let revoked = RevokedSessions::default();
        let now = SystemTime::UNIX_EPOCH;
        (0..1_000).for_each(|number| revoked.insert(session(number), now));
        let last = now + REMEMBERED - Duration::from_secs(1);
        revoked.insert(session(1_000), last);
        assert_eq!(revoked.len(), 1_001);
        revoked.insert(session(1_001), now + REMEMBERED);
        assert_eq!(revoked.len(), 2);
        assert!(revoked.contains(session(1_000)) && !revoked.contains(session(0)));
    }

    #[test]
    fn a_set_that_was_read_stays_complete() {
        let revoked = RevokedSessions::default();
        assert!(revoked.is_complete(), "nothing listens to the store");
        revoked.begin_reading();
        assert!(!revoked.is_complete());
        revoked.end_reading();
        revoked.begin_reading();
        assert!(revoked.is_complete(), "a server that shares the set knows what it has");
    }

    #[test]
    fn replicas_that_join_hear_of_them_for_as_long() {
        assert!(vmcp_auth_store::Limits::default().revocation_retention >= REMEMBERED);
    }
}
