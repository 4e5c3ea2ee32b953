//! Verification of JSON Web Tokens.

use std::fmt;
use std::sync::Arc;

use vmcp_core::{Claims, Identity, UpstreamTokens};
use vmcp_jwt::{KeySource, VerifiedToken, Verifier};

use crate::{AuthError, AuthenticationFuture, TokenVerifier};

/// Claim with the session id of the embedded authorization server. It is internal, so identities do not contain it.
const SESSION_CLAIM: &str = "tsid";

/// Verifier for the JSON Web Tokens of one issuer.
pub struct JwtVerifier<K> {
    verifier: Verifier<K>,
    upstream: Option<Arc<dyn UpstreamTokenSource>>,
}

/// Finds the upstream tokens of a caller by its claims, including `tsid`.
///
/// Use it only for the issuer that stores these tokens: the [`JwtVerifier`] of the embedded authorization server, and
/// no other.
pub trait UpstreamTokenSource: Send + Sync + 'static {
    /// Returns the upstream tokens of the caller, if there are any.
    fn upstream(&self, claims: &Claims) -> Option<Arc<dyn UpstreamTokens>>;
}

impl<F> UpstreamTokenSource for F
where
    F: Fn(&Claims) -> Option<Arc<dyn UpstreamTokens>> + Send + Sync + 'static,
{
    fn upstream(&self, claims: &Claims) -> Option<Arc<dyn UpstreamTokens>> {
        self(claims)
    }
}

impl<K: KeySource> JwtVerifier<K> {
    /// Creates a verifier for tokens that `verifier` accepts.
    #[must_use]
    pub fn new(verifier: Verifier<K>) -> Self {
        Self { verifier, upstream: None }
    }

    /// Attaches the upstream tokens that `source` finds to callers.
    #[must_use]
    pub fn upstream(mut self, source: impl UpstreamTokenSource) -> Self {
        self.upstream = Some(Arc::new(source));
        self
    }

    fn identity(&self, verified: VerifiedToken, token: &str) -> Identity {
        let VerifiedToken { claims, expires_at } = verified;
        let upstream = self.upstream.as_ref().and_then(|source| source.upstream(&claims));
        let identity = identity(claims, token).expires_at(expires_at);
        match upstream {
            Some(upstream) => identity.upstream(upstream).build(),
            None => identity.build(),
        }
    }
}

/// Creates the identity of validated claims.
pub(crate) fn identity(claims: Claims, token: &str) -> vmcp_core::IdentityBuilder {
    let name = |claim| claims.text(claim).expect("validated claims contain iss and sub");
    let identity = Identity::builder(name("iss"), name("sub")).token(token.into());
    identity.claims(claims.without(SESSION_CLAIM))
}

impl<K: KeySource> TokenVerifier for JwtVerifier<K> {
    fn try_now(&self, token: &str) -> Option<Result<Identity, AuthError>> {
        let verified = self.verifier.verify_now(token)?;
        Some(verified.map(|it| self.identity(it, token)).map_err(AuthError::from))
    }

    fn verify<'a>(&'a self, token: &'a str) -> AuthenticationFuture<'a> {
        Box::pin(async move {
            let verified = self.verifier.verify(token).await;
            verified.map(|it| self.identity(it, token)).map_err(|error| {
                tracing::debug!(%error, "token_rejected");
                error.into()
            })
        })
    }

    fn epoch(&self) -> u64 {
        self.verifier.keys().current().map_or(0, |keys| keys.fingerprint())
    }
}

impl<K> fmt::Debug for JwtVerifier<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwt").field("verifier", &self.verifier).finish_non_exhaustive()
    }
}
