//! Authenticators without credentials.

use std::future::ready;

use http::HeaderMap;
use serde_json::{Map, Value};
use vmcp_core::Identity;

use crate::{AuthError, AuthenticationFuture, Authenticator};

/// Issuer of the identities of [`LocalAuthenticator`]. Not a URL, so it is not the issuer of any provider.
const LOCAL_ISSUER: &str = "local";

/// Authenticator that treats all callers as anonymous. Tokens are ignored.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnonymousAuthenticator;

/// Authenticator that treats all callers as the user of this machine, for servers that listen on loopback only. Tokens
/// are ignored.
#[derive(Clone, Debug)]
pub struct LocalAuthenticator(Identity);

impl LocalAuthenticator {
    /// Creates an authenticator for `user`, with the claims `iss` (`local`), `sub` and `name`. An empty name becomes
    /// `local`.
    #[must_use]
    pub fn new(user: &str) -> Self {
        let user = if user.is_empty() { LOCAL_ISSUER } else { user };
        let claims: Map<String, Value> = [("iss", LOCAL_ISSUER), ("sub", user), ("name", user)]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        Self(Identity::builder(LOCAL_ISSUER, user).claims(claims).build())
    }
}

impl Authenticator for AnonymousAuthenticator {
    fn try_now(&self, _: &HeaderMap) -> Option<Result<Identity, AuthError>> {
        Some(Ok(Identity::anonymous()))
    }

    fn authenticate<'a>(&'a self, _: &'a HeaderMap) -> AuthenticationFuture<'a> {
        Box::pin(ready(Ok(Identity::anonymous())))
    }
}

impl Authenticator for LocalAuthenticator {
    fn try_now(&self, _: &HeaderMap) -> Option<Result<Identity, AuthError>> {
        Some(Ok(self.0.clone()))
    }

    fn authenticate<'a>(&'a self, _: &'a HeaderMap) -> AuthenticationFuture<'a> {
        Box::pin(ready(Ok(self.0.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_available_without_waiting() {
        let headers = HeaderMap::new();
        let anonymous = AnonymousAuthenticator.try_now(&headers).unwrap().unwrap();
        assert_eq!(anonymous.subject(), Identity::anonymous().subject());
        let local = LocalAuthenticator::new("ann").try_now(&headers).unwrap().unwrap();
        assert_eq!(local.subject(), Some("ann"));
    }
}
