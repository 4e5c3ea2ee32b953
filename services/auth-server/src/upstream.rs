//! What the server needs of an upstream identity provider.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
use http::Uri;
use secrecy::{ExposeSecret, SecretSlice};
use vmcp_upstream::{
    AuthorizationResponse, AuthorizationState, EndpointError, EndpointKind, Login, Plaintext,
    Provider, ProviderError, ReauthParams, RefreshError, RevocationOutcome, Tokens,
};

/// An upstream identity provider; [`Provider`] is one.
pub trait Upstream: Debug + Send + Sync {
    /// Its name, unique among the providers.
    fn name(&self) -> &str;

    /// Where it sends browsers back to.
    fn redirect_uri(&self) -> &Uri;

    /// Its issuer, where the configuration names one. No default: who wraps a provider and forgets it has no
    /// defence against mix-up.
    fn issuer(&self) -> Option<&str>;

    /// Identifies the provider, under whichever name: users are known and tokens are kept under it. No default
    /// either: two providers that share it share their people.
    fn issuer_id(&self) -> &str;

    /// Whether an answer of this provider may name `issuer` in its `iss`, as far as that is known without asking.
    fn may_be(&self, issuer: &str) -> bool;

    /// Where to send a browser whose user is to log in as anew as `freshness` says, and what to give to
    /// [`Upstream::finish`] when it comes back: secrets, to be kept encrypted.
    ///
    /// # Errors
    /// The login cannot be begun.
    fn begin<'a>(
        &'a self,
        state: &'a str,
        freshness: ReauthParams,
    ) -> BoxFuture<'a, Result<(Uri, SecretSlice<u8>), ProviderError>>;

    /// Redeems the answer, and says who logged in. It is first seen whether the answer is this leg's, whatever
    /// it says (RFC 9207 section 2.4).
    ///
    /// # Errors
    /// It is no answer to this leg, reports an error, or does not say credibly who logged in.
    fn finish<'a>(
        &'a self,
        leg: &'a SecretSlice<u8>,
        answer: AuthorizationResponse,
    ) -> BoxFuture<'a, Result<Login, ProviderError>>;

    /// New tokens for old ones.
    ///
    /// # Errors
    /// The grant is over, or the provider cannot be asked.
    fn refresh<'a>(&'a self, tokens: &'a Tokens) -> BoxFuture<'a, Result<Tokens, RefreshError>>;

    /// Tells the provider that the tokens are not to be used any more.
    ///
    /// # Errors
    /// It cannot be told.
    fn revoke<'a>(
        &'a self,
        tokens: &'a Tokens,
    ) -> BoxFuture<'a, Result<RevocationOutcome, ProviderError>>;
}

impl Upstream for Provider {
    fn name(&self) -> &str {
        self.name()
    }

    fn redirect_uri(&self) -> &Uri {
        self.redirect_uri().uri()
    }

    fn issuer(&self) -> Option<&str> {
        self.issuer()
    }

    fn issuer_id(&self) -> &str {
        self.issuer_id()
    }

    fn may_be(&self, issuer: &str) -> bool {
        self.may_be(issuer)
    }

    fn begin<'a>(
        &'a self,
        state: &'a str,
        freshness: ReauthParams,
    ) -> BoxFuture<'a, Result<(Uri, SecretSlice<u8>), ProviderError>> {
        Box::pin(async move {
            let (to, leg) = self.begin_with(state, freshness).await?;
            let kept = serde_json::to_vec(&Plaintext(&leg)).map_err(|_| malformed())?;
            Ok((to, kept.into()))
        })
    }

    fn finish<'a>(
        &'a self,
        leg: &'a SecretSlice<u8>,
        answer: AuthorizationResponse,
    ) -> BoxFuture<'a, Result<Login, ProviderError>> {
        Box::pin(async move {
            let leg: Plaintext<AuthorizationState> =
                serde_json::from_slice(leg.expose_secret()).map_err(|_| malformed())?;
            self.finish(&leg.0, answer).await
        })
    }

    fn refresh<'a>(&'a self, tokens: &'a Tokens) -> BoxFuture<'a, Result<Tokens, RefreshError>> {
        Box::pin(self.refresh(tokens))
    }

    fn revoke<'a>(
        &'a self,
        tokens: &'a Tokens,
    ) -> BoxFuture<'a, Result<RevocationOutcome, ProviderError>> {
        Box::pin(self.revoke(tokens))
    }
}

/// What was kept of a leg was written by another version of this software.
fn malformed() -> ProviderError {
    ProviderError::Unavailable { endpoint: EndpointKind::Token, cause: EndpointError::Unreachable }
}
