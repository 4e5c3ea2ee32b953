//! Authorization codes and grants.

use std::time::Duration;

use super::state::{CodeState, State};
use crate::{
    AuthorizationCodeData, ClientId, CodeChallenge, CodeRedemption, Digest, Grant, GrantId,
    GrantInsertOutcome, GrantLookup, PresentedRefreshToken, PreviousRefreshToken, RedeemOutcome,
    Revocation, RotationOutcome, SessionId, StoreError, Timestamp,
};

/// Time to finish the redemption of a code before its session ends.
const REDEMPTION_TIMEOUT: Duration = Duration::from_mins(1);

impl State {
    pub(super) fn put_code(
        &mut self,
        code: &Digest,
        seed: &AuthorizationCodeData,
        expires: Timestamp,
    ) -> Result<bool, StoreError> {
        if !self.sessions.extend_until(&seed.session, expires) {
            return Ok(false);
        }
        self.extend_client(&seed.client, expires);
        self.codes.insert(*code, CodeState::Pending(Box::new(seed.clone())), expires)?;
        Ok(true)
    }

    pub(super) fn redeem_code(
        &mut self,
        code: &Digest,
        (client, challenge): (&ClientId, &CodeChallenge),
        now: Timestamp,
    ) -> CodeRedemption {
        let outcome = self.redeem(code, (client, challenge), now);
        CodeRedemption { outcome, client: self.client(client) }
    }

    fn redeem(
        &mut self,
        code: &Digest,
        (client, challenge): (&ClientId, &CodeChallenge),
        now: Timestamp,
    ) -> RedeemOutcome {
        let (session, grant) = match self.codes.get_mut(code) {
            None => return RedeemOutcome::Unknown,
            Some(found @ CodeState::Pending(_)) => {
                let (client, challenge) = (client.clone(), *challenge);
                let CodeState::Pending(seed) = found else { return RedeemOutcome::Unknown };
                let seed = seed.clone();
                let is_owner = seed.client == client;
                *found = CodeState::Redeeming { client, challenge, session: seed.session };
                self.codes.extend_until(code, now + self.limits.redeemed_code_retention);
                self.sessions.extend_until(&seed.session, now + REDEMPTION_TIMEOUT);
                if is_owner {
                    self.record_client_use(&seed.client, now);
                }
                return RedeemOutcome::Redeemed(seed);
            }
            Some(CodeState::Redeeming { client: taker, challenge: answered, session }) => {
                if taker == client && answered == challenge {
                    return RedeemOutcome::InProgress;
                }
                (*session, None)
            }
            Some(CodeState::Redeemed { grant, session }) => (*session, Some(*grant)),
            Some(CodeState::Revoked(revocation)) => {
                return RedeemOutcome::Replayed(revocation.clone());
            }
        };
        RedeemOutcome::Replayed(self.revoke_code(code, session, grant, now))
    }

    fn revoke_code(
        &mut self,
        code: &Digest,
        session: SessionId,
        grant: Option<GrantId>,
        now: Timestamp,
    ) -> Revocation {
        let revocation = self.revoke_session(session, grant, now).unwrap_or(Revocation {
            grant,
            session,
            at: now,
        });
        if let Some(found) = self.codes.get_mut(code) {
            *found = CodeState::Revoked(revocation.clone());
        }
        revocation
    }

    pub(super) fn start_grant(
        &mut self,
        code: &Digest,
        grant: &Grant,
        now: Timestamp,
    ) -> Result<GrantInsertOutcome, StoreError> {
        let session = match self.codes.get(code) {
            Some(CodeState::Redeeming { session, .. }) => session,
            Some(CodeState::Redeemed { grant: given, .. }) if *given == grant.id => {
                let existing = self.grants.get(given).is_some();
                return Ok(if existing {
                    GrantInsertOutcome::Inserted
                } else {
                    GrantInsertOutcome::Rejected
                });
            }
            _ => return Ok(GrantInsertOutcome::Rejected),
        };
        if *session != grant.session || self.sessions.get(session).is_none() {
            return Ok(GrantInsertOutcome::Rejected);
        }
        let session = *session;
        self.grants.insert(grant.id, grant.clone(), grant_end(grant))?;
        self.sessions.extend_until(&session, session_end(grant, now));
        if let Some(record) = self.sessions.get_mut(&session) {
            record.grant = Some(grant.id);
        }
        if let Some(code) = self.codes.get_mut(code) {
            *code = CodeState::Redeemed { grant: grant.id, session };
        }
        Ok(GrantInsertOutcome::Inserted)
    }

    pub(super) fn invalidate_code(&mut self, code: &Digest, now: Timestamp) {
        let session = match self.codes.get(code) {
            Some(CodeState::Pending(seed)) => seed.session,
            Some(CodeState::Redeeming { session, .. }) => *session,
            _ => return,
        };
        self.revoke_code(code, session, None, now);
    }

    pub(super) fn grant(&self, id: &GrantId, client: &ClientId) -> GrantLookup {
        GrantLookup { grant: self.grants.get(id).cloned(), client: self.client(client) }
    }

    pub(super) fn rotate(
        &mut self,
        id: &GrantId,
        (presented, next): (&PresentedRefreshToken, &Digest),
        now: Timestamp,
    ) -> RotationOutcome {
        let grace = self.limits.rotation_grace;
        let Some(grant) = self.grants.get_mut(id) else { return RotationOutcome::NotFound };
        let Some(refresh) = &mut grant.refresh else { return RotationOutcome::NotFound };
        let PresentedRefreshToken { digest, generation } = *presented;
        if refresh.current == digest || refresh.generation < generation {
            refresh.previous = Some(PreviousRefreshToken { digest, rotated: now });
            refresh.current = *next;
            refresh.generation = generation.saturating_add(1);
            refresh.idle_end = grant.ends.min(now + refresh.idle);
            let grant = grant.clone();
            self.grants.expire_at(id, grant_end(&grant));
            self.sessions.extend_until(&grant.session, session_end(&grant, now));
            self.record_client_use(&grant.client, now);
            return RotationOutcome::Rotated(Box::new(grant));
        }
        let before = refresh.previous.filter(|previous| previous.digest == digest);
        if before.is_some_and(|previous| now.since(previous.rotated) <= grace) {
            return RotationOutcome::Repeated(Box::new(grant.clone()));
        }
        let session = grant.session;
        match self.revoke_session(session, Some(*id), now) {
            Some(revocation) => RotationOutcome::Replayed(revocation),
            None => RotationOutcome::NotFound,
        }
    }

    pub(super) fn revoke(&mut self, id: &GrantId, now: Timestamp) -> Option<Revocation> {
        let session = self.grants.get(id)?.session;
        self.revoke_session(session, Some(*id), now)
    }

    /// Ends a session and its grant, and notifies all subscribers. Returns `None` if neither
    /// exists.
    pub(super) fn revoke_session(
        &mut self,
        session: SessionId,
        grant: Option<GrantId>,
        now: Timestamp,
    ) -> Option<Revocation> {
        let record = self.sessions.remove(&session);
        if let Some(record) = &record {
            self.unindex_session(&session, record);
        }
        let grant = grant.or_else(|| record.as_ref().and_then(|record| record.grant));
        let ended = grant.is_some_and(|grant| self.grants.remove(&grant).is_some());
        if record.is_none() && !ended {
            return None;
        }
        let revocation = Revocation { grant, session, at: now };
        let until = now + self.limits.revocation_retention;
        // Cannot fail: the map is unbounded.
        let _ = self.revoked.insert(session, revocation.clone(), until);
        // Fails only without subscribers.
        let _ = self.revocation_events.send(revocation.clone());
        Some(revocation)
    }
}

fn grant_end(grant: &Grant) -> Timestamp {
    grant.refresh.as_ref().map_or(grant.ends, |refresh| refresh.idle_end.min(grant.ends))
}

fn session_end(grant: &Grant, now: Timestamp) -> Timestamp {
    grant_end(grant).max(now + grant.access_lifespan)
}
