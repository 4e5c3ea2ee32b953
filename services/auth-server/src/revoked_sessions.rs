//! The sessions that ended before their access tokens did.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use vmcp_auth_store::SessionId;

use crate::settings::MAX_ACCESS_LIFESPAN;

/// How long a revoked session is remembered: as long as any access token of it may be accepted, whatever lifespan was
/// configured when it was issued. The rest is for the verifier's leeway and for clocks that differ.
pub(crate) const REMEMBERED: Duration =
    MAX_ACCESS_LIFESPAN.saturating_add(Duration::from_secs(300));

/// Set of sessions whose access tokens are refused.
///
/// It has no cap: an entry that made room for another one would let its access tokens in again. It is bounded by
/// time, since each entry costs its user a login.
#[derive(Default)]
pub(crate) struct RevokedSessions {
    /// How many there are, so that a request takes no lock while there are none.
    count: AtomicUsize,
    entries: RwLock<Entries>,
    hooks: RwLock<Vec<Hook>>,
    history: watch::Sender<History>,
}

/// Whether the set has what was revoked before this process began to listen. It only ever advances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum History {
    /// Nothing listens to the store: this process is the only one that revokes.
    #[default]
    Own,
    /// The store has not been read yet: any session may have been revoked.
    Unread,
    /// The store was read. Servers that share the set need not read it again first.
    Read,
}

/// Both hold the same sessions.
#[derive(Default)]
struct Entries {
    sessions: HashSet<SessionId>,
    /// In the order in which they were inserted, with the time at which each may go.
    order: VecDeque<(SystemTime, SessionId)>,
}

/// Called with each session that ends.
type Hook = Box<dyn Fn(SessionId) + Send + Sync>;

impl RevokedSessions {
    /// Remembers a session, and tells the hooks if it was not known before.
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
        // Under the lock: a later count never overtakes an earlier one.
        self.count.store(sessions.len(), Ordering::Release);
        is_new
    }

    /// Whether the session has ended.
    pub(crate) fn contains(&self, session: SessionId) -> bool {
        self.len() > 0
            && self
                .entries
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .sessions
                .contains(&session)
    }

    /// How many sessions are remembered: a gauge.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Begins to listen to the store: until [`end_reading`](Self::end_reading), nothing is known for certain.
    pub(crate) fn begin_reading(&self) {
        self.advance(History::Unread);
    }

    /// Everything that the store had when it was asked is in the set.
    pub(crate) fn end_reading(&self) {
        self.advance(History::Read);
    }

    /// Whether a session that is not in the set has not been revoked, as far as the store told.
    pub(crate) fn is_complete(&self) -> bool {
        *self.history.borrow() != History::Unread
    }

    /// Waits until the set is complete.
    pub(crate) async fn completed(&self) {
        let mut history = self.history.subscribe();
        // The sender is here, so it does not fail.
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

    /// Calls `hook` with each session that ends from now on.
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
