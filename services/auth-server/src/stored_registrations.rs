//! Encrypted store for this server's own registrations at upstream providers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretSlice};
use vmcp_auth_store::{Ciphertext, Digest, EncryptionContext, EncryptionKeyRing, Store};
use vmcp_core::{BoxError, Clock};
use vmcp_upstream::{Plaintext, Registration, RegistrationKey, Registrations, RegistrationsFuture};

use crate::random_tokens::HmacKeyRing;

/// Maximum retention of a registration, also of one whose secret never expires.
const MAX_RETENTION: Duration = Duration::from_hours(8760);

/// Record kind that the encryption binds a registration to.
const KIND: &str = "registration";

/// Registrations at upstream providers, shared by all replicas and kept across restarts. Of replicas that register at the
/// same time, all use the first registration.
#[derive(Clone)]
pub struct StoredRegistrations {
    store: Arc<dyn Store>,
    encryption_keys: EncryptionKeyRing,
    clock: Clock,
}

impl StoredRegistrations {
    /// Creates a store of registrations in `store`, encrypted with keys derived from `secrets`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, secrets: &HmacKeyRing, clock: Clock) -> Self {
        Self { store, encryption_keys: secrets.encryption_keys().clone(), clock }
    }

    fn open(&self, key: &RegistrationKey, sealed: &Ciphertext) -> Result<Registration, BoxError> {
        let text = self.encryption_keys.open(EncryptionContext::new(KIND, &names(key)), sealed)?;
        let read: Plaintext<Registration> = serde_json::from_slice(text.expose_secret())
            .map_err(|_| "failed to read stored registration: another version wrote it")?;
        Ok(read.0)
    }

    /// Decrypts a registration and returns it unless it expired. One encrypted with a removed secret counts as missing.
    fn decrypt_unexpired(
        &self,
        key: &RegistrationKey,
        sealed: &Ciphertext,
    ) -> Option<Registration> {
        let now = self.clock.now();
        let opened = self.open(key, sealed).inspect_err(|error| {
            tracing::info!(provider = &*key.provider, %error, "ignoring stored registration");
        });
        opened.ok().filter(|known| known.expires_at.is_none_or(|at| at > now))
    }

    /// Stores a registration, or returns the one that another replica stored first.
    async fn put_or_adopt(
        &self,
        key: &RegistrationKey,
        registration: &Registration,
        instead_of: Option<&str>,
    ) -> Result<Registration, BoxError> {
        let text = SecretSlice::from(serde_json::to_vec(&Plaintext(registration))?);
        let sealed = self
            .encryption_keys
            .seal(EncryptionContext::new(KIND, &names(key)), text.expose_secret())?;
        let now = self.clock.now();
        let left = registration.expires_at.map(|at| at.duration_since(now).unwrap_or_default());
        let (id, ttl) = (digest(key), left.map_or(MAX_RETENTION, |left| left.min(MAX_RETENTION)));
        // The conflicting registration may be replaced before the delete, so the loop retries.
        for _ in 0..3 {
            let kept = self.store.put_registration(&id, &sealed, ttl).await?;
            if kept == sealed {
                return Ok(registration.clone());
            }
            let known = self.decrypt_unexpired(key, &kept);
            if let Some(known) = known.filter(|known| Some(&*known.client_id) != instead_of) {
                return Ok(known);
            }
            self.store.remove_registration(&id, &kept).await?;
        }
        Err("failed to store registration: another process keeps replacing it; check the other replicas".into())
    }
}

impl Registrations for StoredRegistrations {
    fn get<'a>(
        &'a self,
        key: &'a RegistrationKey,
    ) -> RegistrationsFuture<'a, Option<Registration>> {
        Box::pin(async move {
            let found = self.store.registration(&digest(key)).await?;
            Ok(found.and_then(|sealed| self.decrypt_unexpired(key, &sealed)))
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a RegistrationKey,
        registration: &'a Registration,
        instead_of: Option<&'a str>,
    ) -> RegistrationsFuture<'a, Registration> {
        Box::pin(self.put_or_adopt(key, registration, instead_of))
    }
}

impl fmt::Debug for StoredRegistrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredRegistrations").finish_non_exhaustive()
    }
}

fn names(key: &RegistrationKey) -> [&str; 5] {
    let RegistrationKey { issuer, issuer_id, provider, redirect_uri, scopes } = key;
    [issuer, issuer_id, provider, redirect_uri, scopes]
}

/// Returns the store's key of a registration; distinct registrations have distinct keys.
fn digest(key: &RegistrationKey) -> Digest {
    let parts = names(key).map(|name| format!("{}:{name}", name.len()));
    Digest::of(parts.concat())
}

#[cfg(test)]
mod tests;
