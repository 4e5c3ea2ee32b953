//! Encryption of provider data in the store: state of logins, and upstream tokens.

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretSlice};
use vmcp_auth_store::{
    Ciphertext, EncryptionContext, EncryptionError, SessionId, Timestamp, UpstreamTokenRecord,
};
use vmcp_core::Clock;
use vmcp_upstream::{Plaintext, Tokens};

use crate::error::OAuthError;
use crate::settings::Settings;
use crate::upstream_provider::UpstreamProvider;

/// Cipher of data that belongs to a session and a provider.
#[derive(Clone)]
pub(crate) struct UpstreamCipher {
    settings: Arc<Settings>,
    clock: Clock,
}

impl UpstreamCipher {
    pub(crate) fn new(settings: Arc<Settings>, clock: Clock) -> Self {
        Self { settings, clock }
    }

    /// Encrypts data of a session and a provider. The ciphertext is bound to the provider's current issuer.
    pub(crate) fn seal(
        &self,
        kind: &'static str,
        session: SessionId,
        upstream: &UpstreamProvider,
        text: &[u8],
    ) -> Result<Ciphertext, EncryptionError> {
        let (session, names) =
            (session.to_text(), [upstream.name.as_str(), upstream.issuer.as_str()]);
        self.settings
            .hmac
            .encryption_keys()
            .seal(EncryptionContext::new(kind, &[&session, names[0], names[1]]), text)
    }

    /// Decrypts data of a session and a provider.
    pub(crate) fn open(
        &self,
        kind: &'static str,
        session: SessionId,
        upstream: &UpstreamProvider,
        sealed: &Ciphertext,
    ) -> Result<SecretSlice<u8>, EncryptionError> {
        let (session, names) =
            (session.to_text(), [upstream.name.as_str(), upstream.issuer.as_str()]);
        self.settings
            .hmac
            .encryption_keys()
            .open(EncryptionContext::new(kind, &[&session, names[0], names[1]]), sealed)
    }

    /// Encrypts tokens into a record.
    pub(crate) fn encrypt_tokens(
        &self,
        session: SessionId,
        upstream: &UpstreamProvider,
        tokens: &Tokens,
    ) -> Result<UpstreamTokenRecord, OAuthError> {
        let text = serde_json::to_vec(&Plaintext(tokens));
        let text = text.expect("tokens have string keys and infallible values");
        let text = secrecy::SecretSlice::from(text);
        Ok(UpstreamTokenRecord {
            version: 0,
            issuer: upstream.issuer.clone(),
            sealed: self.seal("row", session, upstream, text.expose_secret())?,
            expires: tokens.expires_at.map(Timestamp::from),
            scopes: tokens.scopes.iter().map(str::to_owned).collect(),
            written: self.clock.now().into(),
        })
    }

    /// Decrypts the tokens of a record.
    pub(crate) fn decrypt_tokens(
        &self,
        session: SessionId,
        upstream: &UpstreamProvider,
        record: &UpstreamTokenRecord,
    ) -> Result<Tokens, OAuthError> {
        if record.issuer != upstream.issuer {
            tracing::info!(provider = %upstream.name, "ignoring upstream tokens of another issuer");
            return Err(OAuthError::server_error());
        }
        let text = self.open("row", session, upstream, &record.sealed)?;
        let tokens = serde_json::from_slice::<Plaintext<Tokens>>(text.expose_secret());
        let tokens = tokens.map_err(|_| {
            tracing::error!(provider = %upstream.name, "failed to parse stored upstream tokens");
            OAuthError::server_error()
        })?;
        Ok(tokens.0)
    }
}
