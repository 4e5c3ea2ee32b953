//! Interface to upstream identity providers.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
use http::Uri;
use secrecy::{ExposeSecret, SecretSlice};
use vmcp_upstream::{
    AuthorizationResponse, AuthorizationState, EndpointError, EndpointKind, Login, Plaintext,
    Provider, ProviderError, ReauthParams, RefreshError, RevocationOutcome, Tokens,
};

/// Upstream identity provider, implemented by [`Provider`].
pub trait Upstream: Debug + Send + Sync {
    /// Returns the name, unique among the providers.
    fn name(&self) -> &str;

    /// Returns the redirect URI, to which the provider redirects browsers.
    fn redirect_uri(&self) -> &Uri;

    /// Returns the issuer, if the configuration names one. Required without a default: a wrapper
    /// that omitted it would disable the defense against mix-up attacks.
    fn issuer(&self) -> Option<&str>;

    /// Returns the identifier of the provider, independent of its name, under which users and tokens are stored. Required
    /// without a default: providers with the same identifier share their users.
    fn issuer_id(&self) -> &str;

    /// Returns `true` if a response of this provider may have `issuer` as its `iss`, as far as known without a request.
    fn may_have_issuer(&self, issuer: &str) -> bool;

    /// Starts a login with the reauthentication options in `reauth`. Returns the address for the browser and the state
    /// for [`Upstream::finish`], which contains secrets and must be stored encrypted.
    ///
    /// # Errors
    /// The login cannot be started.
    fn begin<'a>(
        &'a self,
        state: &'a str,
        reauth: ReauthParams,
    ) -> BoxFuture<'a, Result<(Uri, SecretSlice<u8>), ProviderError>>;

    /// Redeems the response and returns the user who logged in. It first checks that the response belongs to this login,
    /// even for an error response (RFC 9207 section 2.4).
    ///
    /// # Errors
    /// The response does not belong to this login, reports an error, or does not prove who logged in.
    fn finish<'a>(
        &'a self,
        state: &'a SecretSlice<u8>,
        response: AuthorizationResponse,
    ) -> BoxFuture<'a, Result<Login, ProviderError>>;

    /// Exchanges the refresh token for new tokens.
    ///
    /// # Errors
    /// The grant has ended, or the provider is unavailable.
    fn refresh<'a>(&'a self, tokens: &'a Tokens) -> BoxFuture<'a, Result<Tokens, RefreshError>>;

    /// Revokes the tokens at the provider.
    ///
    /// # Errors
    /// The provider cannot revoke them.
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

    fn may_have_issuer(&self, issuer: &str) -> bool {
        self.may_be(issuer)
    }

    fn begin<'a>(
        &'a self,
        state: &'a str,
        reauth: ReauthParams,
    ) -> BoxFuture<'a, Result<(Uri, SecretSlice<u8>), ProviderError>> {
        Box::pin(async move {
            let (to, state) = self.begin_with(state, reauth).await?;
            let state = serde_json::to_vec(&Plaintext(&state));
            let state = state.expect("the state of a login has string keys and infallible values");
            Ok((to, state.into()))
        })
    }

    fn finish<'a>(
        &'a self,
        state: &'a SecretSlice<u8>,
        response: AuthorizationResponse,
    ) -> BoxFuture<'a, Result<Login, ProviderError>> {
        Box::pin(async move {
            let state: Plaintext<AuthorizationState> =
                serde_json::from_slice(state.expose_secret()).map_err(|_| malformed())?;
            self.finish(&state.0, response).await
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

/// Logs a stored login state that another version of this software wrote, and returns the error.
fn malformed() -> ProviderError {
    tracing::warn!("failed to parse stored login state, another version wrote it");
    ProviderError::Unavailable { endpoint: EndpointKind::Token, cause: EndpointError::Unreachable }
}
