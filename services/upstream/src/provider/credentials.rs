//! Client authentication at a provider.

use std::sync::atomic::Ordering;

use super::Inner;
use super::resolved::{AdvertisedAuthMethods, ClientRef, ResolvedProvider};
use crate::form::{self, Credentials};
use crate::token_response::{self, TokenResponse};
use crate::{
    AuthMethod, AuthorizationResponseError, EndpointError, EndpointKind, ProviderError,
    StaticClient,
};

impl Inner {
    /// Returns the credentials of the client `id` at an endpoint, and whether the method is a
    /// guess.
    pub(super) async fn credentials(
        &self,
        resolved: &ResolvedProvider<'_>,
        id: &str,
        place: EndpointKind,
    ) -> Result<(Credentials, bool), ProviderError> {
        let other = ProviderError::Response(AuthorizationResponseError::OtherClient);
        match resolved.client() {
            ClientRef::Static(fixed) if *fixed.id == *id => self.fixed(resolved, fixed, place),
            ClientRef::Static(_) => Err(other),
            ClientRef::Registered(registrar) => {
                let registration = registrar.find(id).await?.ok_or(other)?;
                let (id, secret) = (registration.client_id, registration.secret);
                Ok((Credentials { id, secret, method: registration.method }, false))
            }
        }
    }

    fn fixed(
        &self,
        resolved: &ResolvedProvider<'_>,
        fixed: &StaticClient,
        place: EndpointKind,
    ) -> Result<(Credentials, bool), ProviderError> {
        let StaticClient { id, secret } = fixed;
        // A token endpoint with a nonstandard response format probably expects the secret in the
        // body.
        let sends_secret_in_body =
            resolved.mapping().is_some() || self.sends_secret_in_body.load(Ordering::Relaxed);
        let (method, guessed) = match resolved.auth_methods(place) {
            AdvertisedAuthMethods::Known(listed) => {
                (form::method(secret.is_some(), listed)?, false)
            }
            AdvertisedAuthMethods::Unknown if secret.is_none() => (AuthMethod::None, false),
            AdvertisedAuthMethods::Unknown if sends_secret_in_body => (AuthMethod::Post, true),
            AdvertisedAuthMethods::Unknown => (AuthMethod::Basic, true),
        };
        Ok((Credentials { id: id.clone(), secret: secret.clone(), method }, guessed))
    }

    /// Requests tokens. If the authentication method is a guess and the endpoint rejects the
    /// client, retries with the other method: the endpoint authenticates the client before it
    /// processes the grant (RFC 6749 section 4.1.3).
    pub(super) async fn request_tokens(
        &self,
        resolved: &ResolvedProvider<'_>,
        client_id: &str,
        pairs: &[(&str, &str)],
    ) -> Result<TokenResponse, ProviderError> {
        let (mut credentials, guessed) =
            self.credentials(resolved, client_id, EndpointKind::Token).await?;
        let first = self.post(resolved, &credentials, pairs).await;
        if let (ClientRef::Registered(registrar), Err(error)) = (resolved.client(), &first)
            && is_unknown_client(error)
        {
            registrar.refused(client_id);
        }
        if !guessed || !first.as_ref().is_err_and(rejects_client) {
            return first;
        }
        credentials.method = match credentials.method {
            AuthMethod::Post => AuthMethod::Basic,
            AuthMethod::Basic | AuthMethod::None => AuthMethod::Post,
        };
        let second = self.post(resolved, &credentials, pairs).await;
        if !second.as_ref().is_err_and(rejects_client) {
            self.sends_secret_in_body
                .store(credentials.method == AuthMethod::Post, Ordering::Relaxed);
        }
        second
    }

    async fn post(
        &self,
        resolved: &ResolvedProvider<'_>,
        credentials: &Credentials,
        pairs: &[(&str, &str)],
    ) -> Result<TokenResponse, ProviderError> {
        let (endpoint, http_client) = resolved.token()?;
        let request = form::request(endpoint, credentials, pairs);
        let asked_at = self.clock.now();
        let response = http_client.send(EndpointKind::Token, request).await?;
        token_response::parse(&response, resolved.mapping(), asked_at)
    }
}

/// Returns whether the provider reports an unknown client. The second code is that of GitHub.
pub(super) fn is_unknown_client(error: &ProviderError) -> bool {
    const CODES: [&str; 2] = ["invalid_client", "incorrect_client_credentials"];
    matches!(error, ProviderError::Rejected { endpoint: EndpointKind::Token, code } if CODES.contains(&&**code))
}

/// Returns whether the provider rejects the client, also with a 401 without a code.
fn rejects_client(error: &ProviderError) -> bool {
    is_unknown_client(error)
        || *error == ProviderError::at(EndpointKind::Token, EndpointError::Status(401))
}
