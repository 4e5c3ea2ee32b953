//! Callers that present nothing.

use std::future::ready;

use http::HeaderMap;
use serde_json::{Map, Value};
use vmcp_core::Identity;

use crate::{Authenticate, AuthenticateFuture, Refusal};

/// The issuer of [`Local`]'s identities: no URL, so no provider's.
const LOCAL: &str = "local";

/// Everybody is the anonymous caller. Tokens are not looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anonymous;

/// Everybody is the user of this machine. For a server that listens on loopback only: tokens are not
/// looked at.
#[derive(Clone, Debug)]
pub struct Local(Identity);

impl Local {
    /// The caller is `user`, with the claims `iss` (`local`), `sub` and `name`. An empty name becomes
    /// `local`.
    #[must_use]
    pub fn new(user: &str) -> Self {
        let user = if user.is_empty() { LOCAL } else { user };
        let claims: Map<String, Value> = [("iss", LOCAL), ("sub", user), ("name", user)]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        Self(Identity::builder(LOCAL, user).claims(claims).build())
    }
}

impl Authenticate for Anonymous {
    fn at_once(&self, _: &HeaderMap) -> Option<Result<Identity, Refusal>> {
        Some(Ok(Identity::anonymous()))
    }

    fn authenticate<'a>(&'a self, _: &'a HeaderMap) -> AuthenticateFuture<'a> {
        Box::pin(ready(Ok(Identity::anonymous())))
    }
}

impl Authenticate for Local {
    fn at_once(&self, _: &HeaderMap) -> Option<Result<Identity, Refusal>> {
        Some(Ok(self.0.clone()))
    }

    fn authenticate<'a>(&'a self, _: &'a HeaderMap) -> AuthenticateFuture<'a> {
        Box::pin(ready(Ok(self.0.clone())))
    }
}
