//! Identification of tokens that clients present for revocation or introspection.

use std::sync::Arc;

use vmcp_auth_store::{ClientId, Digest, GrantId, StoreError};

use crate::access_token::{AccessToken, AccessTokenError, TokenVerifiers};
use crate::error::OAuthError;
use crate::settings::Settings;

/// Valid token of a client.
pub(crate) enum ClientToken {
    Refresh(GrantId, Digest),
    Access(AccessToken),
}

/// Identifier of tokens of this server.
#[derive(Clone)]
pub(crate) struct TokenIdentifier {
    settings: Arc<Settings>,
    verifiers: Arc<TokenVerifiers>,
}

impl TokenIdentifier {
    pub(crate) fn new(settings: Arc<Settings>, verifiers: Arc<TokenVerifiers>) -> Self {
        Self { settings, verifiers }
    }

    /// Returns the token if this server issued it; an access token only if it belongs to the client.
    ///
    /// # Errors
    /// The store's revocations are not read yet.
    pub(crate) fn identify(
        &self,
        token: &str,
        client: &ClientId,
    ) -> Result<Option<ClientToken>, OAuthError> {
        if let Some(refresh) = self.settings.hmac.verify_refresh_token(token) {
            let grant = GrantId::from_bytes(refresh.grant);
            return Ok(Some(ClientToken::Refresh(grant, refresh.digest())));
        }
        match self.verifiers.verify_any(token) {
            Err(AccessTokenError::RevocationsNotLoaded) => {
                Err(OAuthError::from(StoreError::Unavailable))
            }
            Err(_) => Ok(None),
            Ok(found) => {
                let own = found.claims.text("client_id") == Some(client.as_str());
                Ok(own.then_some(ClientToken::Access(found)))
            }
        }
    }
}
