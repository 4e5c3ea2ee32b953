//! All records of the store, and the removal of expired ones.

use std::collections::{HashMap, VecDeque};

use tokio::sync::broadcast;

use super::expiring_map::ExpiringMap;
use crate::{
    AuthorizationCodeData, Ciphertext, Client, ClientId, CodeChallenge, Consent, Counts, Digest,
    Grant, GrantId, Limits, LockOwner, Login, ProviderIssuer, ProviderName, Revocation,
    SessionHead, SessionId, SubjectName, Timestamp, UpstreamTokenRecord, User, UserId,
};

/// Number of revocations that a slow subscriber may lag behind before it reloads all recent ones.
const REVOCATION_CHANNEL_CAPACITY: usize = 1024;

#[derive(Debug)]
pub(super) struct State {
    pub(super) limits: Limits,
    /// Clients that have redeemed a code.
    pub(super) clients: ExpiringMap<ClientId, Client>,
    /// Clients that have not redeemed a code.
    pub(super) new_clients: ExpiringMap<ClientId, Client>,
    pub(super) logins: ExpiringMap<Digest, Login>,
    /// Logins by the address that started them, the oldest first.
    pub(super) logins_of: HashMap<Digest, VecDeque<Digest>>,
    pub(super) codes: ExpiringMap<Digest, CodeState>,
    pub(super) grants: ExpiringMap<GrantId, Grant>,
    pub(super) sessions: ExpiringMap<SessionId, SessionRecord>,
    pub(super) sessions_of: HashMap<UserId, Vec<SessionId>>,
    pub(super) locks: ExpiringMap<(SessionId, ProviderName), LockOwner>,
    /// Issuer of the users and tokens that are stored under a provider's name.
    pub(super) issuers: ExpiringMap<ProviderName, ProviderIssuer>,
    pub(super) users: ExpiringMap<UserId, (SubjectKey, User)>,
    pub(super) subjects: HashMap<SubjectKey, UserId>,
    pub(super) browsers: ExpiringMap<Digest, UserId>,
    pub(super) consents: ExpiringMap<UserId, Vec<Consent>>,
    pub(super) registrations: ExpiringMap<Digest, Ciphertext>,
    pub(super) revoked: ExpiringMap<SessionId, Revocation>,
    pub(super) revocation_events: broadcast::Sender<Revocation>,
}

/// Issuer and subject of a user.
pub(super) type SubjectKey = (ProviderIssuer, SubjectName);

/// State of a code.
#[derive(Debug)]
pub(super) enum CodeState {
    /// Not presented yet.
    Pending(Box<AuthorizationCodeData>),
    /// Presented by this client; the grant is not stored yet.
    Redeeming { client: ClientId, challenge: CodeChallenge, session: SessionId },
    /// Redeemed for a grant.
    Redeemed { grant: GrantId, session: SessionId },
    /// Invalidated or replayed.
    Revoked(Revocation),
}

/// Session without its expiry, which the map holds.
#[derive(Debug)]
pub(super) struct SessionRecord {
    pub(super) head: SessionHead,
    pub(super) grant: Option<GrantId>,
    pub(super) created: Timestamp,
    pub(super) version: u64,
    pub(super) rows: HashMap<ProviderName, UpstreamTokenRecord>,
}

impl State {
    pub(super) fn new(limits: Limits) -> Self {
        let Limits { clients, logins, codes, grants, sessions, users, browsers, .. } = limits;
        Self {
            clients: ExpiringMap::new("clients", clients),
            new_clients: ExpiringMap::new("new clients", limits.new_clients),
            logins: ExpiringMap::new("logins", logins),
            logins_of: HashMap::new(),
            codes: ExpiringMap::new("codes", codes),
            grants: ExpiringMap::new("grants", grants),
            sessions: ExpiringMap::new("sessions", sessions),
            sessions_of: HashMap::new(),
            locks: ExpiringMap::new("locks", sessions),
            // Bounded: each name is one of a configuration.
            issuers: ExpiringMap::new("providers", usize::MAX),
            users: ExpiringMap::new("users", users),
            subjects: HashMap::new(),
            browsers: ExpiringMap::new("browsers", browsers),
            consents: ExpiringMap::new("users with consents", users),
            registrations: ExpiringMap::new("registrations", limits.registrations),
            // Bounded by time; see `Limits::revocation_retention`.
            revoked: ExpiringMap::new("revocations", usize::MAX),
            revocation_events: broadcast::channel(REVOCATION_CHANNEL_CAPACITY).0,
            limits,
        }
    }

    /// Removes expired records, so that no step has to check the expiry of a record.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        while self.clients.pop_expired(now).is_some() {}
        while self.new_clients.pop_expired(now).is_some() {}
        while let Some((key, login)) = self.logins.pop_expired(now) {
            self.unindex_login(&key, &login);
        }
        while self.codes.pop_expired(now).is_some() {}
        while self.grants.pop_expired(now).is_some() {}
        while let Some((id, record)) = self.sessions.pop_expired(now) {
            self.unindex_session(&id, &record);
        }
        while self.locks.pop_expired(now).is_some() {}
        while self.issuers.pop_expired(now).is_some() {}
        while let Some((_, (person, _))) = self.users.pop_expired(now) {
            self.subjects.remove(&person);
        }
        while self.browsers.pop_expired(now).is_some() {}
        while self.consents.pop_expired(now).is_some() {}
        while self.registrations.pop_expired(now).is_some() {}
        while self.revoked.pop_expired(now).is_some() {}
    }

    pub(super) fn unindex_login(&mut self, key: &Digest, login: &Login) {
        let Some(origin) = &login.origin else { return };
        if let Some(of) = self.logins_of.get_mut(origin) {
            of.retain(|kept| kept != key);
            if of.is_empty() {
                self.logins_of.remove(origin);
            }
        }
    }

    pub(super) fn unindex_session(&mut self, id: &SessionId, record: &SessionRecord) {
        if let Some(sessions) = self.sessions_of.get_mut(&record.head.user) {
            sessions.retain(|kept| kept != id);
            if sessions.is_empty() {
                self.sessions_of.remove(&record.head.user);
            }
        }
    }

    /// Returns recent revocations, the oldest first.
    pub(super) fn recent_revocations(&self) -> VecDeque<Revocation> {
        self.revoked.values().cloned().collect()
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            clients: self.clients.len() + self.new_clients.len(),
            logins: self.logins.len(),
            codes: self.codes.len(),
            grants: self.grants.len(),
            sessions: self.sessions.len(),
            users: self.users.len(),
            browsers: self.browsers.len(),
            registrations: self.registrations.len(),
        }
    }
}
