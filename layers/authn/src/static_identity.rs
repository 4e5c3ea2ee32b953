//! Callers that present nothing.

use std::future::ready;

use http::HeaderMap;
use serde_json::{Map, Value};
use vmcp_core::Identity;

use crate::{AuthError, AuthenticationFuture, Authenticator};

/// The issuer of [`LocalAuthenticator`]'s identities: no URL, so no provider's.
const LOCAL_ISSUER: &str = "local";

/// Everybody is the anonymous caller. Tokens are not looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnonymousAuthenticator;

/// Everybody is the user of this machine. For a server that listens on loopback only: tokens are not
/// looked at.
#[derive(Clone, Debug)]
pub struct LocalAuthenticator(Identity);

impl LocalAuthenticator {
    /// The caller is `user`, with the claims `iss` (`local`), `sub` and `name`. An empty name becomes
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
