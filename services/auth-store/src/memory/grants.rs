//! Codes and what they gave.

use std::time::Duration;

use super::state::{Code, State};
use crate::{
    Challenge, ClientId, CodeAnswer, Digest, Grant, GrantAnswer, GrantId, Presented, Previous,
    Revocation, Rotation, Seed, SessionId, Started, StoreError, Taken, Timestamp,
};

/// How long redeeming a taken code may take before its session ends.
const REDEEMING: Duration = Duration::from_secs(60);

impl State {
    pub(super) fn put_code(
        &mut self,
        code: &Digest,
        seed: &Seed,
        expires: Timestamp,
    ) -> Result<bool, StoreError> {
        if !self.sessions.keep_until(&seed.session, expires) {
            return Ok(false);
        }
        self.hold_client(&seed.client, expires);
        self.codes.insert(*code, Code::Waiting(Box::new(seed.clone())), expires)?;
        Ok(true)
    }

    pub(super) fn take_code(
        &mut self,
        code: &Digest,
        (client, challenge): (&ClientId, &Challenge),
        now: Timestamp,
    ) -> CodeAnswer {
        let taken = self.taken(code, (client, challenge), now);
        CodeAnswer { taken, client: self.client(client) }
    }

    fn taken(
        &mut self,
        code: &Digest,
        (client, challenge): (&ClientId, &Challenge),
        now: Timestamp,
    ) -> Taken {
        let (session, grant) = match self.codes.get_mut(code) {
            None => return Taken::Unknown,
            Some(found @ Code::Waiting(_)) => {
                let (client, challenge) = (client.clone(), *challenge);
                let Code::Waiting(seed) = found else { return Taken::Unknown };
                let seed = seed.clone();
                let own = seed.client == client;
                *found = Code::Redeeming { client, challenge, session: seed.session };
                self.codes.keep_until(code, now + self.limits.taken_code);
                self.sessions.keep_until(&seed.session, now + REDEEMING);
                if own {
                    self.used_client(&seed.client, now);
                }
                return Taken::Fresh(seed);
            }
            Some(Code::Redeeming { client: taker, challenge: answered, session }) => {
                if taker == client && answered == challenge {
                    return Taken::Redeeming;
                }
                (*session, None)
            }
            Some(Code::Done { grant, session }) => (*session, Some(*grant)),
            Some(Code::Over(revocation)) => return Taken::Replayed(revocation.clone()),
        };
        Taken::Replayed(self.end_code(code, session, grant, now))
    }

    fn end_code(
        &mut self,
        code: &Digest,
        session: SessionId,
        grant: Option<GrantId>,
        now: Timestamp,
    ) -> Revocation {
        let revocation =
            self.end(session, grant, now).unwrap_or(Revocation { grant, session, at: now });
        if let Some(found) = self.codes.get_mut(code) {
            *found = Code::Over(revocation.clone());
        }
        revocation
    }

    pub(super) fn start_grant(
        &mut self,
        code: &Digest,
        grant: &Grant,
        now: Timestamp,
    ) -> Result<Started, StoreError> {
        let session = match self.codes.get(code) {
            Some(Code::Redeeming { session, .. }) => session,
            Some(Code::Done { grant: given, .. }) if *given == grant.id => {
                let there = self.grants.get(given).is_some();
                return Ok(if there { Started::Started } else { Started::Refused });
            }
            _ => return Ok(Started::Refused),
        };
        if *session != grant.session || self.sessions.get(session).is_none() {
            return Ok(Started::Refused);
        }
        let session = *session;
        self.grants.insert(grant.id, grant.clone(), grant_end(grant))?;
        self.sessions.keep_until(&session, session_end(grant, now));
        if let Some(live) = self.sessions.get_mut(&session) {
            live.grant = Some(grant.id);
        }
        if let Some(code) = self.codes.get_mut(code) {
            *code = Code::Done { grant: grant.id, session };
        }
        Ok(Started::Started)
    }

    pub(super) fn burn_code(&mut self, code: &Digest, now: Timestamp) {
        let session = match self.codes.get(code) {
            Some(Code::Waiting(seed)) => seed.session,
            Some(Code::Redeeming { session, .. }) => *session,
            _ => return,
        };
        self.end_code(code, session, None, now);
    }

    pub(super) fn grant(&self, id: &GrantId, client: &ClientId) -> GrantAnswer {
        GrantAnswer { grant: self.grants.get(id).cloned(), client: self.client(client) }
    }

    pub(super) fn rotate(
        &mut self,
        id: &GrantId,
        (presented, next): (&Presented, &Digest),
        now: Timestamp,
    ) -> Rotation {
        let grace = self.limits.grace;
        let Some(grant) = self.grants.get_mut(id) else { return Rotation::Gone };
        let Some(refresh) = &mut grant.refresh else { return Rotation::Gone };
        let Presented { digest, generation } = *presented;
        if refresh.current == digest || refresh.generation < generation {
            refresh.previous = Some(Previous { digest, rotated: now });
            refresh.current = *next;
            refresh.generation = generation.saturating_add(1);
            refresh.idle_end = grant.ends.min(now + refresh.idle);
            let grant = grant.clone();
            self.grants.expire_at(id, grant_end(&grant));
            self.sessions.keep_until(&grant.session, session_end(&grant, now));
            self.used_client(&grant.client, now);
            return Rotation::Rotated(Box::new(grant));
        }
        let before = refresh.previous.filter(|previous| previous.digest == digest);
        if before.is_some_and(|previous| now.since(previous.rotated) <= grace) {
            return Rotation::Repeated(Box::new(grant.clone()));
        }
        let session = grant.session;
        match self.end(session, Some(*id), now) {
            Some(revocation) => Rotation::Replayed(revocation),
            None => Rotation::Gone,
        }
    }

    pub(super) fn revoke(&mut self, id: &GrantId, now: Timestamp) -> Option<Revocation> {
        let session = self.grants.get(id)?.session;
        self.end(session, Some(*id), now)
    }

    /// Ends a session and its grant, and tells everybody. `None` if there is neither.
    pub(super) fn end(
        &mut self,
        session: SessionId,
        grant: Option<GrantId>,
        now: Timestamp,
    ) -> Option<Revocation> {
        let live = self.sessions.remove(&session);
        if let Some(live) = &live {
            self.forget_session(&session, live);
        }
        let grant = grant.or_else(|| live.as_ref().and_then(|live| live.grant));
        let ended = grant.is_some_and(|grant| self.grants.remove(&grant).is_some());
        if live.is_none() && !ended {
            return None;
        }
        let revocation = Revocation { grant, session, at: now };
        let until = now + self.limits.revocations;
        // The table has no cap.
        let _ = self.revoked.insert(session, revocation.clone(), until);
        // Nobody may be listening.
        let _ = self.news.send(revocation.clone());
        Some(revocation)
    }
}

fn grant_end(grant: &Grant) -> Timestamp {
    grant.refresh.as_ref().map_or(grant.ends, |refresh| refresh.idle_end.min(grant.ends))
}

fn session_end(grant: &Grant, now: Timestamp) -> Timestamp {
    grant_end(grant).max(now + grant.access_lifespan)
}
