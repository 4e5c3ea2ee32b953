//! Ended sessions whose sealed identifiers would still open.

use std::collections::HashMap;
use std::sync::Mutex;

use vmcp_core::{Identity, lock};

use crate::sealed::SEALED_SESSION_LIFETIME;
use crate::{OpenedSessionId, SessionId};

/// Maximum number of ended sessions that are known of one owner. Beyond it, all sessions that the owner opened before count as
/// ended.
const MAX_PER_OWNER: usize = 1000;

/// Maximum number of owners. Beyond it, the owner whose last session ended first is forgotten.
const MAX_OWNERS: usize = 10_000;

/// Table of ended sessions of one process. An entry is kept while the identifier would open.
#[derive(Debug, Default)]
pub struct EndedSessions {
    owners: Mutex<HashMap<Owner, EndedOfOwner>>,
}

/// Issuer and subject; `None` for anonymous callers.
type Owner = Option<(Box<str>, Box<str>)>;

#[derive(Debug, Default)]
struct EndedOfOwner {
    /// Time of `initialize` by identifier, in seconds since 1970.
    ids: HashMap<SessionId, u64>,
    /// Sessions that were opened until this time have ended.
    all_until: Option<u64>,
    /// Time of the last change.
    changed_at: u64,
}

impl EndedSessions {
    /// Adds an ended session.
    pub fn add(&self, owner: &Identity, session: &OpenedSessionId, now: u64) {
        let mut owners = lock(&self.owners);
        let owner = key(owner);
        if owners.len() >= MAX_OWNERS && !owners.contains_key(&owner) {
            let oldest = owners.iter().min_by_key(|(_, ended)| ended.changed_at);
            if let Some(oldest) = oldest.map(|(owner, _)| owner.clone()) {
                owners.remove(&oldest);
            }
        }
        let is_anonymous = owner.is_none();
        let ended = owners.entry(owner).or_default();
        ended.changed_at = now;
        ended.ids.insert(session.id, session.issued_at);
        if ended.ids.len() <= MAX_PER_OWNER {
            return;
        }
        if is_anonymous {
            // Anonymous callers are many people: one of them must not end the sessions of the others.
            let oldest = ended.ids.iter().min_by_key(|(_, issued_at)| **issued_at);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                ended.ids.remove(&oldest);
            }
        } else {
            ended.ids.clear();
            ended.all_until = Some(now);
        }
    }

    /// Returns `true` if the session has ended.
    #[must_use]
    pub fn contains(&self, owner: &Identity, session: &OpenedSessionId) -> bool {
        lock(&self.owners).get(&key(owner)).is_some_and(|ended| {
            ended.ids.contains_key(&session.id)
                || ended.all_until.is_some_and(|until| session.issued_at <= until)
        })
    }

    /// Removes what no identifier needs any more.
    pub fn sweep(&self, now: u64) {
        let is_needed =
            |issued_at: u64| now.saturating_sub(issued_at) <= 2 * SEALED_SESSION_LIFETIME.as_secs();
        lock(&self.owners).retain(|_, ended| {
            ended.ids.retain(|_, issued_at| is_needed(*issued_at));
            ended.all_until = ended.all_until.filter(|until| is_needed(*until));
            !ended.ids.is_empty() || ended.all_until.is_some()
        });
    }

    /// Returns the number of known identifiers.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.owners).values().map(|ended| ended.ids.len()).sum()
    }

    /// Returns `true` if no session has ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        lock(&self.owners).is_empty()
    }
}

fn key(owner: &Identity) -> Owner {
    Some((owner.issuer()?.into(), owner.subject()?.into()))
}

#[cfg(test)]
mod tests {
    use vmcp_core::STATEFUL;

    use super::*;
    use crate::SessionClaims;

    fn session(issued_at: u64) -> OpenedSessionId {
        let claims = SessionClaims {
            revision: STATEFUL[0],
            capabilities: 0,
            client_name: String::new(),
            client_version: String::new(),
        };
        OpenedSessionId { id: SessionId::random().unwrap(), issued_at, claims }
    }

    fn alice() -> Identity {
        Identity::new("https://idp", "alice")
    }

    #[test]
    fn ended_session_is_known_while_it_would_open() {
        let ended = EndedSessions::default();
        let (one, other) = (session(100), session(100));
        ended.add(&alice(), &one, 150);
        assert!(ended.contains(&alice(), &one));
        assert!(!ended.contains(&alice(), &other));
        assert!(!ended.contains(&Identity::anonymous(), &one));
        let week = SEALED_SESSION_LIFETIME.as_secs();
        ended.sweep(100 + week + 60);
        assert!(ended.contains(&alice(), &one));
        ended.sweep(101 + 2 * week);
        assert!(ended.is_empty());
    }

    #[test]
    fn many_ended_sessions_end_earlier_ones() {
        let ended = EndedSessions::default();
        let open = session(100);
        for _ in 0..=MAX_PER_OWNER {
            ended.add(&alice(), &session(100), 150);
        }
        assert!(ended.contains(&alice(), &open));
        assert!(!ended.contains(&alice(), &session(151)));
        assert_eq!(ended.len(), 0);
    }

    #[test]
    fn anonymous_callers_end_no_sessions_of_others() {
        let ended = EndedSessions::default();
        let (anonymous, first, open) = (Identity::anonymous(), session(99), session(100));
        ended.add(&anonymous, &first, 150);
        for _ in 0..MAX_PER_OWNER {
            ended.add(&anonymous, &session(100), 150);
        }
        assert_eq!(ended.len(), MAX_PER_OWNER);
        assert!(!ended.contains(&anonymous, &open));
        assert!(!ended.contains(&anonymous, &first), "the oldest is forgotten");
    }

    #[test]
    fn number_of_owners_is_limited() {
        let ended = EndedSessions::default();
        let owner = |number: usize| Identity::new("https://idp", &format!("user {number}"));
        let first = session(100);
        ended.add(&owner(0), &first, 100);
        for number in 1..=MAX_OWNERS {
            ended.add(&owner(number), &session(100), 200);
        }
        assert_eq!(ended.len(), MAX_OWNERS);
        assert!(!ended.contains(&owner(0), &first));
    }
}
