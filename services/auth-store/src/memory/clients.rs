//! Clients and their logins, and this server's own registrations elsewhere.

use std::time::Duration;

use super::state::State;
use crate::{Client, ClientId, Digest, Login, Sealed, StoreError, Timestamp};

impl State {
    pub(super) fn register(&mut self, client: &Client, now: Timestamp) -> Result<(), StoreError> {
        if self.clients.is_full() && self.clients.get(&client.id).is_none() {
            // Each expires so long after its last use: who expires first was unused for longest.
            let rested = self.limits.client_lifetime.saturating_sub(self.limits.client_at_rest);
            let oldest = self.clients.first().filter(|(_, expires)| *expires <= now + rested);
            let Some((oldest, _)) = oldest else { return Err(self.clients.full()) };
            let oldest = oldest.clone();
            self.clients.remove(&oldest);
        }
        let expires = now + self.limits.client_lifetime;
        self.clients.insert(client.id.clone(), client.clone(), expires)
    }

    /// A client that presents something of its own.
    pub(super) fn used_client(&mut self, id: &ClientId, now: Timestamp) {
        self.clients.expire_at(id, now + self.limits.client_lifetime);
    }

    pub(super) fn put_login(
        &mut self,
        key: &Digest,
        login: &Login,
        expires: Timestamp,
    ) -> Result<(), StoreError> {
        self.take_login(key);
        if let Some(client) = login.client() {
            let under_way = self.logins_of.get(client).copied().unwrap_or_default();
            if under_way >= self.limits.logins_per_client {
                return Err(StoreError::Full { what: "logins of this client" });
            }
        }
        self.logins.insert(*key, login.clone(), expires)?;
        if let Some(client) = login.client() {
            *self.logins_of.entry(client.clone()).or_default() += 1;
        }
        Ok(())
    }

    pub(super) fn take_login(&mut self, key: &Digest) -> Option<Login> {
        let login = self.logins.remove(key)?;
        self.forget_login(&login);
        Some(login)
    }

    pub(super) fn advance_login(
        &mut self,
        from: &Digest,
        (to, login): (&Digest, &Login),
        expires: Timestamp,
    ) -> Result<bool, StoreError> {
        if self.take_login(from).is_none() {
            return Ok(false);
        }
        self.put_login(to, login, expires).map(|()| true)
    }

    pub(super) fn put_registration(
        &mut self,
        key: &Digest,
        sealed: &Sealed,
        (now, ttl): (Timestamp, Duration),
    ) -> Result<Sealed, StoreError> {
        if let Some(there) = self.registrations.get(key) {
            return Ok(there.clone());
        }
        self.registrations.insert(*key, sealed.clone(), now + ttl)?;
        Ok(sealed.clone())
    }

    pub(super) fn drop_registration(&mut self, key: &Digest, sealed: &Sealed) {
        if self.registrations.get(key) == Some(sealed) {
            self.registrations.remove(key);
        }
    }
}
