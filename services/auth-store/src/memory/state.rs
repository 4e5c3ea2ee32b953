//! All that is kept, and how it is swept.

use std::collections::{HashMap, VecDeque};

use tokio::sync::broadcast;

use super::table::Table;
use crate::{
    Challenge, Client, ClientId, Consent, Counts, Digest, Grant, GrantId, Limits, LockOwner, Login,
    ProviderIssuer, ProviderName, Revocation, Row, Sealed, Seed, SessionHead, SessionId,
    SubjectName, Timestamp, User, UserId,
};

/// How many revocations a slow listener may be behind before it is told all of them anew.
const BEHIND: usize = 1024;

#[derive(Debug)]
pub(super) struct State {
    pub(super) limits: Limits,
    /// Those that redeemed a code.
    pub(super) clients: Table<ClientId, Client>,
    /// Those that did not.
    pub(super) new_clients: Table<ClientId, Client>,
    pub(super) logins: Table<Digest, Login>,
    /// By the address that they began at, the oldest first.
    pub(super) logins_of: HashMap<Digest, VecDeque<Digest>>,
    pub(super) codes: Table<Digest, Code>,
    pub(super) grants: Table<GrantId, Grant>,
    pub(super) sessions: Table<SessionId, Live>,
    pub(super) sessions_of: HashMap<UserId, Vec<SessionId>>,
    pub(super) locks: Table<(SessionId, ProviderName), LockOwner>,
    /// The issuer of the people and tokens that are kept under a provider's name.
    pub(super) issuers: Table<ProviderName, ProviderIssuer>,
    pub(super) users: Table<UserId, (Person, User)>,
    pub(super) subjects: HashMap<Person, UserId>,
    pub(super) browsers: Table<Digest, UserId>,
    pub(super) consents: Table<UserId, Vec<Consent>>,
    pub(super) registrations: Table<Digest, Sealed>,
    pub(super) revoked: Table<SessionId, Revocation>,
    pub(super) news: broadcast::Sender<Revocation>,
}

/// A person, as their issuer knows them.
pub(super) type Person = (ProviderIssuer, SubjectName);

/// A code and what became of it.
#[derive(Debug)]
pub(super) enum Code {
    /// Nobody presented it yet.
    Waiting(Box<Seed>),
    /// Somebody did.
    Redeeming { client: ClientId, challenge: Challenge, session: SessionId },
    /// It gave a grant.
    Done { grant: GrantId, session: SessionId },
    /// It was burnt or replayed.
    Over(Revocation),
}

/// A session without its expiry, which the table knows.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) head: SessionHead,
    pub(super) grant: Option<GrantId>,
    pub(super) created: Timestamp,
    pub(super) version: u64,
    pub(super) rows: HashMap<ProviderName, Row>,
}

impl State {
    pub(super) fn new(limits: Limits) -> Self {
        let Limits { clients, logins, codes, grants, sessions, users, browsers, .. } = limits;
        Self {
            clients: Table::new("clients", clients),
            new_clients: Table::new("new clients", limits.new_clients),
            logins: Table::new("logins", logins),
            logins_of: HashMap::new(),
            codes: Table::new("codes", codes),
            grants: Table::new("grants", grants),
            sessions: Table::new("sessions", sessions),
            sessions_of: HashMap::new(),
            locks: Table::new("locks", sessions),
            // Each name is one of a configuration.
            issuers: Table::new("providers", usize::MAX),
            users: Table::new("people", users),
            subjects: HashMap::new(),
            browsers: Table::new("browsers", browsers),
            consents: Table::new("people who consented", users),
            registrations: Table::new("registrations", limits.registrations),
            // Bounded by time: see `Limits::revocations`.
            revoked: Table::new("revocations", usize::MAX),
            news: broadcast::channel(BEHIND).0,
            limits,
        }
    }

    /// Clears away what expired, so that no step has to look at the time of what it finds.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        while self.clients.pop_expired(now).is_some() {}
        while self.new_clients.pop_expired(now).is_some() {}
        while let Some((key, login)) = self.logins.pop_expired(now) {
            self.forget_login(&key, &login);
        }
        while self.codes.pop_expired(now).is_some() {}
        while self.grants.pop_expired(now).is_some() {}
        while let Some((id, live)) = self.sessions.pop_expired(now) {
            self.forget_session(&id, &live);
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

    pub(super) fn forget_login(&mut self, key: &Digest, login: &Login) {
        let Some(origin) = &login.origin else { return };
        if let Some(of) = self.logins_of.get_mut(origin) {
            of.retain(|kept| kept != key);
            if of.is_empty() {
                self.logins_of.remove(origin);
            }
        }
    }

    pub(super) fn forget_session(&mut self, id: &SessionId, live: &Live) {
        if let Some(sessions) = self.sessions_of.get_mut(&live.head.user) {
            sessions.retain(|kept| kept != id);
            if sessions.is_empty() {
                self.sessions_of.remove(&live.head.user);
            }
        }
    }

    /// What was revoked lately, the oldest first.
    pub(super) fn recent(&self) -> VecDeque<Revocation> {
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
