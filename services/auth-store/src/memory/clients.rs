//! Clients, their logins, and this server's own registrations at providers.

use std::time::Duration;

use super::state::State;
use crate::{Ciphertext, Client, ClientId, Digest, Login, StoreError, Timestamp};

impl State {
    pub(super) fn client(&self, id: &ClientId) -> Option<Client> {
        self.clients.get(id).or_else(|| self.new_clients.get(id)).cloned()
    }

    pub(super) fn register(&mut self, client: &Client, now: Timestamp) -> Result<(), StoreError> {
        self.clients.remove(&client.id);
        if self.new_clients.get(&client.id).is_none() && self.new_clients.is_full() {
            self.new_clients.remove_first();
        }
        let expires = now + self.limits.new_client_lifetime;
        self.new_clients.insert(client.id.clone(), client.clone(), expires)
    }

    /// Records that a client presented a credential of its own. A new client becomes a known one,
    /// which a flood of registrations cannot evict.
    pub(super) fn record_client_use(&mut self, id: &ClientId, now: Timestamp) {
        let expires = now + self.limits.client_lifetime;
        if self.clients.expire_at(id, expires) || self.new_clients.get(id).is_none() {
            return;
        }
        if self.clients.is_full() {
            // All lifetimes are equal: the first client to expire has been unused for longest.
            let rested =
                self.limits.client_lifetime.saturating_sub(self.limits.client_eviction_idle);
            if self.clients.first().is_none_or(|(_, at)| at > now + rested) {
                return;
            }
            self.clients.remove_first();
        }
        if let Some(client) = self.new_clients.remove(id) {
            // Cannot fail: an entry was removed above if the map was full.
            let _ = self.clients.insert(id.clone(), client, expires);
        }
    }

    /// Extends a new client to at least `until`.
    pub(super) fn extend_client(&mut self, id: &ClientId, until: Timestamp) {
        self.new_clients.extend_until(id, until);
    }

    pub(super) fn put_login(
        &mut self,
        key: &Digest,
        login: &Login,
        expires: Timestamp,
    ) -> Result<(), StoreError> {
        self.take_login(key);
        if let Some(origin) = &login.origin {
            self.evict_logins_of(origin);
        }
        if self.logins.is_full()
            && let Some(oldest) = self.logins.first().map(|(oldest, _)| *oldest)
        {
            self.take_login(&oldest);
        }
        self.logins.insert(*key, login.clone(), expires)?;
        if let Some(origin) = login.origin {
            self.logins_of.entry(origin).or_default().push_back(*key);
        }
        if let Some(client) = login.client() {
            self.extend_client(client, expires);
        }
        Ok(())
    }

    /// Evicts the oldest logins of an address until one more fits.
    fn evict_logins_of(&mut self, origin: &Digest) {
        while let Some(of) = self.logins_of.get(origin)
            && of.len() >= self.limits.logins_per_origin.max(1)
            && let Some(oldest) = of.front().copied()
        {
            self.take_login(&oldest);
        }
    }

    pub(super) fn take_login(&mut self, key: &Digest) -> Option<Login> {
        let login = self.logins.remove(key)?;
        self.unindex_login(key, &login);
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
        sealed: &Ciphertext,
        (now, ttl): (Timestamp, Duration),
    ) -> Result<Ciphertext, StoreError> {
        if let Some(existing) = self.registrations.get(key) {
            return Ok(existing.clone());
        }
        self.registrations.insert(*key, sealed.clone(), now + ttl)?;
        Ok(sealed.clone())
    }

    pub(super) fn remove_registration(&mut self, key: &Digest, sealed: &Ciphertext) {
        if self.registrations.get(key) == Some(sealed) {
            self.registrations.remove(key);
        }
    }
}
