//! Verification of this server's own tokens in process: no network, no round trip to the store.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use vmcp_auth_store::{SessionId, Store};
use vmcp_core::{Claims, Clock};
use vmcp_jwt::{KeySet, TokenError, ValidationOptions, Verifier};

use crate::audience::Audience;
use crate::revoked_sessions::RevokedSessions;
use crate::settings::Settings;
use crate::token_claims::SESSION_CLAIM;

/// Verifier of the tokens that this server issued for one resource.
#[derive(Clone)]
pub struct AccessTokenVerifier {
    verifiers: Arc<TokenVerifiers>,
    /// Index of the resource among the server's audiences.
    index: usize,
}

/// Verifiers of this server's tokens, one for each audience, in order.
pub(crate) struct TokenVerifiers {
    audiences: Vec<(Audience, Verifier<Arc<KeySet>>)>,
    store: Arc<dyn Store>,
    revoked: Arc<RevokedSessions>,
}

/// Verified claims of a token of this server.
#[derive(Clone, Debug)]
pub struct AccessToken {
    /// User of the token, as in the `sub` claim.
    pub subject: String,
    /// All claims except the one that names the session, which is internal.
    pub claims: Claims,
    /// Expiry time.
    pub expires_at: SystemTime,
    /// Session of the token, which has the upstream tokens.
    pub session: SessionId,
}

/// Error of a token that is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessTokenError {
    /// The token itself is invalid.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The token has no session of this server, or no user.
    #[error("failed to verify access token: it has no session of this server; log in again")]
    NoSession,
    /// The session was revoked, or ended with the process that stored it.
    #[error("failed to verify access token: its session was revoked; log in again")]
    Revoked,
    /// The revocations from before this server's start are not read yet: see
    /// [`AuthServer::watch_revocations`](crate::AuthServer::watch_revocations). The caller can retry later.
    #[error(
        "failed to verify access token: revocations are not loaded from the store yet; retry later"
    )]
    RevocationsNotLoaded,
}

// === impl AccessTokenVerifier ===

impl AccessTokenVerifier {
    /// Creates a verifier for the resource `audience`; `None` if the server issues no tokens for it.
    pub(crate) fn new(verifiers: &Arc<TokenVerifiers>, audience: &str) -> Option<Self> {
        let mut audiences = verifiers.audiences.iter();
        let index = audiences.position(|(known, _)| known.as_str() == audience)?;
        Some(Self { verifiers: Arc::clone(verifiers), index })
    }

    /// Verifies an access token. Its session claim is trusted because this server signed it.
    ///
    /// # Errors
    /// The token was not issued by this server for this resource, or its session ended.
    pub fn verify(&self, token: &str) -> Result<AccessToken, AccessTokenError> {
        self.verifiers.verify(self.verifier(), token)
    }

    fn verifier(&self) -> &Verifier<Arc<KeySet>> {
        let (_, verifier) =
            self.verifiers.audiences.get(self.index).expect("the constructor found the index");
        verifier
    }
}

impl fmt::Debug for AccessTokenVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessTokenVerifier")
            .field("verifier", self.verifier())
            .finish_non_exhaustive()
    }
}

// === impl TokenVerifiers ===

impl TokenVerifiers {
    pub(crate) fn new(
        settings: &Settings,
        store: Arc<dyn Store>,
        revoked: Arc<RevokedSessions>,
        clock: &Clock,
    ) -> Self {
        let verifier = |audience: &Audience| {
            let options = ValidationOptions::new(settings.issuer.as_str(), audience.as_str());
            let keys = Arc::clone(settings.keys.key_set());
            (audience.clone(), Verifier::new(keys, options).clock(clock.clone()))
        };
        Self { audiences: settings.audiences.iter().map(verifier).collect(), store, revoked }
    }

    /// Verifies an access token of this server for any of its resources.
    pub(crate) fn verify_any(&self, token: &str) -> Result<AccessToken, AccessTokenError> {
        let mut error = AccessTokenError::NoSession;
        for (_, verifier) in &self.audiences {
            match self.verify(verifier, token) {
                Err(other @ AccessTokenError::Token(TokenError::Audience)) => error = other,
                decided => return decided,
            }
        }
        Err(error)
    }

    /// Returns `true` for a token issued before a store that ends with its process: its revocation state is unknown.
    fn precedes_store(&self, claims: &Claims) -> bool {
        let Some(not_before) = self.store.not_before() else { return false };
        // With a clock before 1970, no token counts as older than the store.
        let not_before =
            not_before.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let issued_at = claims.get("iat").and_then(|claim| claim.json().parse::<u64>().ok());
        issued_at.is_none_or(|issued_at| issued_at < not_before)
    }

    fn verify(
        &self,
        verifier: &Verifier<Arc<KeySet>>,
        token: &str,
    ) -> Result<AccessToken, AccessTokenError> {
        // The key set is local and complete, so a missing key means a foreign token.
        let found = verifier.verify_now(token).unwrap_or(Err(TokenError::UnknownKey))?;
        let session = found.claims.text(SESSION_CLAIM).and_then(|session| session.parse().ok());
        let session = session.ok_or(AccessTokenError::NoSession)?;
        if self.revoked.contains(session) || self.precedes_store(&found.claims) {
            return Err(AccessTokenError::Revoked);
        }
        if !self.revoked.is_loaded() {
            return Err(AccessTokenError::RevocationsNotLoaded);
        }
        let subject = found.claims.text("sub").ok_or(AccessTokenError::NoSession)?.to_owned();
        let claims = found.claims.without(SESSION_CLAIM);
        Ok(AccessToken { subject, claims, expires_at: found.expires_at, session })
    }
}
