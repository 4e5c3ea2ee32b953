//! Tombstones of ended sessions.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::sealed::SEALED_SESSION_LIFETIME;
use crate::{MAX_TOMBSTONES_PER_OWNER, OwnerDigest, SessionEvent, SessionId, SessionKey};

/// Time for which a tombstone is kept after `initialize`: the identifier opens for less, also where clocks differ.
pub const TOMBSTONE_LIFETIME: Duration =
    Duration::from_secs(SEALED_SESSION_LIFETIME.as_secs() + 2 * 60);

/// The same in milliseconds, in which sessions count.
pub const TOMBSTONE_LIFETIME_MILLIS: u64 = TOMBSTONE_LIFETIME.as_secs() * 1000;

/// Tombstones of ended sessions, at most [`MAX_TOMBSTONES_PER_OWNER`] of an owner.
#[derive(Debug)]
pub struct Tombstones {
    owners: HashMap<OwnerDigest, OwnerTombstones>,
    /// Order of insertion, also of tombstones that are gone.
    order: VecDeque<(OwnerDigest, SessionId)>,
    count: usize,
    max: usize,
}

#[derive(Debug, Default)]
struct OwnerTombstones {
    /// Time of `initialize` by identifier, in milliseconds since 1970.
    ids: HashMap<SessionId, u64>,
    /// Sessions that began until this time have ended. It is the begin of one of them, never the time of an end: a session that
    /// begins while others end goes on.
    all_until: Option<u64>,
}

impl Tombstones {
    /// Creates an empty table. Beyond `max` tombstones, the oldest is forgotten.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { owners: HashMap::new(), order: VecDeque::new(), count: 0, max }
    }

    /// Adds a tombstone, and returns what ended; `None` if the session had ended before.
    pub fn add(&mut self, session: &SessionKey, now: u64) -> Option<SessionEvent> {
        if self.contains(session) {
            return None;
        }
        let SessionKey { owner, id, issued_at } = *session;
        let ended = self.owners.entry(owner).or_default();
        ended.ids.insert(id, issued_at);
        self.count += 1;
        self.order.push_back((owner, id));
        if ended.ids.len() > MAX_TOMBSTONES_PER_OWNER {
            self.count -= ended.remove_expired(now);
        }
        if ended.ids.len() > MAX_TOMBSTONES_PER_OWNER {
            if !owner.is_anonymous() {
                let until = ended.ids.values().copied().fold(issued_at, u64::max);
                return self
                    .end_all(owner, until)
                    .then_some(SessionEvent::AllEnded { owner, until });
            }
            // Anonymous callers are many people: one of them must not end the sessions of the others.
            let others = ended.ids.iter().filter(|(other, _)| **other != id);
            if let Some(oldest) = others.min_by_key(|(_, at)| **at).map(|(oldest, _)| *oldest) {
                ended.ids.remove(&oldest);
                self.count -= 1;
            }
        }
        self.forget_oldest();
        Some(SessionEvent::Ended(id))
    }

    /// Returns the time until which all sessions of an owner have ended, in milliseconds since 1970.
    #[must_use]
    pub fn all_ended_until(&self, owner: &OwnerDigest) -> Option<u64> {
        self.owners.get(owner)?.all_until
    }

    /// Ends all sessions of an owner that began until a time, in milliseconds since 1970. Returns `false` if they had ended before.
    pub fn end_all(&mut self, owner: OwnerDigest, until: u64) -> bool {
        let ended = self.owners.entry(owner).or_default();
        let before = ended.ids.len();
        ended.ids.retain(|_, issued_at| *issued_at > until);
        self.count -= before - ended.ids.len();
        let is_new = ended.all_until.is_none_or(|known| known < until);
        ended.all_until = ended.all_until.max(Some(until));
        is_new
    }

    /// Returns `true` if the session has ended.
    #[must_use]
    pub fn contains(&self, session: &SessionKey) -> bool {
        self.owners.get(&session.owner).is_some_and(|ended| {
            ended.ids.contains_key(&session.id)
                || ended.all_until.is_some_and(|until| session.issued_at <= until)
        })
    }

    /// Removes the tombstones of identifiers that open no more.
    pub fn remove_expired(&mut self, now: u64) {
        let mut removed = 0;
        self.owners.retain(|_, ended| {
            removed += ended.remove_expired(now);
            !ended.ids.is_empty() || ended.all_until.is_some()
        });
        self.count -= removed;
        let owners = &self.owners;
        self.order.retain(|(owner, id)| {
            owners.get(owner).is_some_and(|ended| ended.ids.contains_key(id))
        });
    }

    /// Returns the number of tombstones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns `true` if there is no tombstone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Keeps the table within its limit, and its order within twice that.
    fn forget_oldest(&mut self) {
        while self.count > self.max || self.order.len() > 2 * self.max {
            let Some((owner, id)) = self.order.pop_front() else { return };
            let Some(ended) = self.owners.get_mut(&owner) else { continue };
            self.count -= usize::from(ended.ids.remove(&id).is_some());
            if ended.ids.is_empty() && ended.all_until.is_none() {
                self.owners.remove(&owner);
            }
        }
    }
}

impl OwnerTombstones {
    /// Returns the number of removed tombstones.
    fn remove_expired(&mut self, now: u64) -> usize {
        let is_needed = |began_at: u64| began_at + TOMBSTONE_LIFETIME_MILLIS >= now;
        let before = self.ids.len();
        self.ids.retain(|_, issued_at| is_needed(*issued_at));
        self.all_until = self.all_until.filter(|until| is_needed(*until));
        before - self.ids.len()
    }
}

#[cfg(test)]
mod tests {
    use vmcp_core::Identity;

    use super::*;

    fn session(subject: &str, issued_at: u64) -> SessionKey {
        let owner = OwnerDigest::of(&Identity::new("https://idp", subject));
        SessionKey { owner, id: SessionId::random().unwrap(), issued_at }
    }

    #[test]
    fn oldest_tombstones_are_forgotten_beyond_limit() {
        let mut tombstones = Tombstones::new(3);
        let sessions: Vec<_> = (0..5).map(|number| session(&number.to_string(), 9)).collect();
        for session in &sessions {
            assert_eq!(tombstones.add(session, 9), Some(SessionEvent::Ended(session.id)));
            assert_eq!(tombstones.add(session, 9), None);
        }
        let known = sessions.iter().map(|session| tombstones.contains(session));
        assert_eq!(known.collect::<Vec<_>>(), [false, false, true, true, true]);
        assert_eq!((tombstones.len(), tombstones.owners.len()), (3, 3));
    }

    #[test]
    fn expired_tombstones_are_removed() {
        let mut tombstones = Tombstones::new(10);
        let (old, new) = (session("alice", 100), session("alice", 200));
        tombstones.add(&old, 300);
        tombstones.add(&new, 300);
        tombstones.end_all(session("bob", 0).owner, 100);
        tombstones.remove_expired(100 + TOMBSTONE_LIFETIME_MILLIS);
        assert_eq!((tombstones.len(), tombstones.owners.len()), (2, 2));
        tombstones.remove_expired(101 + TOMBSTONE_LIFETIME_MILLIS);
        assert!(tombstones.contains(&new) && !tombstones.contains(&old));
        assert_eq!((tombstones.len(), tombstones.order.len(), tombstones.owners.len()), (1, 1, 1));
    }

    #[test]
    fn many_ends_spare_later_and_anonymous_sessions() {
        let mut tombstones = Tombstones::new(10_000);
        for number in 0..MAX_TOMBSTONES_PER_OWNER as u64 {
            tombstones.add(&session("alice", 100 + number), 5000);
        }
        assert_eq!(tombstones.all_ended_until(&session("alice", 0).owner), None);
        tombstones.add(&session("alice", 100), 5000);
        let until = 100 + MAX_TOMBSTONES_PER_OWNER as u64 - 1;
        assert_eq!(tombstones.all_ended_until(&session("alice", 0).owner), Some(until));
        assert!(tombstones.contains(&session("alice", until)));
        assert!(!tombstones.contains(&session("alice", until + 1)), "it began later");
        let owner = OwnerDigest::of(&Identity::anonymous());
        let anonymous =
            |issued_at| SessionKey { owner, id: SessionId::random().unwrap(), issued_at };
        let (first, open) = (anonymous(99), anonymous(100));
        tombstones.add(&first, 5000);
        for _ in 0..MAX_TOMBSTONES_PER_OWNER {
            tombstones.add(&anonymous(100), 5000);
        }
        assert!(!tombstones.contains(&open));
        assert!(!tombstones.contains(&first), "the oldest is forgotten");
    }

    #[test]
    fn expired_tombstones_do_not_end_all_sessions() {
        let mut tombstones = Tombstones::new(10_000);
        for _ in 0..MAX_TOMBSTONES_PER_OWNER {
            tombstones.add(&session("alice", 100), 100);
        }
        let later = 101 + TOMBSTONE_LIFETIME_MILLIS;
        let ended = session("alice", later);
        assert_eq!(tombstones.add(&ended, later), Some(SessionEvent::Ended(ended.id)));
        assert!(!tombstones.contains(&session("alice", later)));
        assert_eq!(tombstones.len(), 1);
    }
}
