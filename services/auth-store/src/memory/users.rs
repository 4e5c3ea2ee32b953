//! Users, their browsers and their consents.

use std::time::Duration;

use super::state::State;
use crate::{
    Browser, ClientId, Consent, Digest, Profile, ProviderIssuer, ProviderName, StoreError, Subject,
    Timestamp, User, UserId,
};

impl State {
    pub(super) fn conflicting_issuers(
        &mut self,
        providers: &[(ProviderName, ProviderIssuer)],
        now: Timestamp,
    ) -> Vec<(ProviderName, ProviderIssuer)> {
        let until = now + self.limits.user_lifetime;
        let other = |(name, issuer): &(ProviderName, ProviderIssuer)| {
            self.issuers.extend_until(name, until);
            let bound = self.issuers.get(name).filter(|bound| *bound != issuer)?;
            Some((name.clone(), bound.clone()))
        };
        providers.iter().filter_map(other).collect()
    }

    /// Records the issuer of a provider name, unless one is recorded.
    pub(super) fn bind_issuer(
        &mut self,
        name: &ProviderName,
        issuer: &ProviderIssuer,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let until = now + self.limits.user_lifetime;
        if self.issuers.extend_until(name, until) {
            return Ok(());
        }
        self.issuers.insert(name.clone(), issuer.clone(), until)
    }

    pub(super) fn upsert_user(
        &mut self,
        subject: &Subject,
        (proposed, profile): (&UserId, &Profile),
        now: Timestamp,
    ) -> Result<UserId, StoreError> {
        let until = now + self.limits.user_lifetime;
        let person = (subject.issuer.clone(), subject.name.clone());
        if let Some(id) = self.subjects.get(&person)
            && let Some((_, user)) = self.users.get_mut(id)
        {
            user.profile = profile.clone();
            self.users.expire_at(id, until);
            return Ok(id.clone());
        }
        let user = User { id: proposed.clone(), profile: profile.clone(), created: now };
        self.users.insert(proposed.clone(), (person.clone(), user), until)?;
        self.subjects.insert(person, proposed.clone());
        Ok(proposed.clone())
    }

    pub(super) fn put_browser(
        &mut self,
        browser: &Digest,
        (user, consent): (&UserId, Option<&Consent>),
        (now, ttl): (Timestamp, Duration),
    ) -> Result<(), StoreError> {
        self.browsers.insert(*browser, user.clone(), now + ttl)?;
        let Some(consent) = consent else { return Ok(()) };
        let mut consents = self.consents.get(user).cloned().unwrap_or_default();
        consents.retain(|existing| existing.expires > now && !existing.replaces(consent));
        let excess = (consents.len() + 1).saturating_sub(self.limits.consents_per_user);
        consents.drain(..excess.min(consents.len()));
        consents.push(consent.clone());
        let until = consents.iter().map(|consent| consent.expires).max().unwrap_or(now);
        self.consents.insert(user.clone(), consents, until)
    }

    pub(super) fn browser(&self, cookie: &Digest, now: Timestamp) -> Option<Browser> {
        let user = self.browsers.get(cookie)?.clone();
        let consents = self.consents.get(&user).map_or(&[][..], Vec::as_slice);
        let consents = consents.iter().filter(|consent| consent.expires > now).cloned().collect();
        Some(Browser { user, consents })
    }

    pub(super) fn remove_consents(&mut self, user: &UserId, client: &ClientId) {
        if let Some(consents) = self.consents.get_mut(user) {
            consents.retain(|consent| consent.client != *client);
        }
    }
}

impl Consent {
    fn replaces(&self, other: &Self) -> bool {
        self.client == other.client && self.redirect_uri == other.redirect_uri
    }
}
