//! Tokens that are verified with the issuer's keys.

use std::fmt;
use std::sync::Arc;

use vmcp_core::{Claims, Identity, UpstreamTokens};
use vmcp_jwt::{KeySource, VerifiedToken, Verifier};

use crate::{AuthError, AuthenticationFuture, TokenVerifier};

/// The claim that names a session of the embedded authorization server. It is nobody else's business,
/// so an identity's claims are without it.
const SESSION_CLAIM: &str = "tsid";

/// Inspects JSON Web Tokens of one issuer.
pub struct JwtVerifier<K> {
    verifier: Verifier<K>,
    upstream: Option<Arc<dyn UpstreamTokenSource>>,
}

/// Finds the upstream tokens of a caller by what its token says, the claim `tsid` included.
///
/// Only the issuer whose tokens it belongs to may be asked about: it is given to the [`JwtVerifier`] of the
/// embedded authorization server, and to no other.
pub trait UpstreamTokenSource: Send + Sync + 'static {
    /// Where the caller's upstream tokens are had from, if it has any.
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
    /// Tokens that `verifier` accepts.
    #[must_use]
    pub fn new(verifier: Verifier<K>) -> Self {
        Self { verifier, upstream: None }
    }

    /// Callers have the upstream tokens that `source` finds.
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

/// The caller that checked claims are about.
pub(crate) fn identity(claims: Claims, token: &str) -> vmcp_core::IdentityBuilder {
    let name = |claim| claims.text(claim).unwrap_or_default();
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
                tracing::debug!(%error, "a token is refused");
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
