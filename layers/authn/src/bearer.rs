//! Authentication by bearer tokens.

use std::future::ready;
use std::sync::Arc;

use http::HeaderMap;
use vmcp_core::Identity;
use vmcp_jwt::{MAX_TOKEN_SIZE, is_jwt};

use crate::{AuthError, AuthenticationFuture, Authenticator, bearer_token};

/// Verifies bearer tokens.
pub trait TokenVerifier: Send + Sync + 'static {
    /// Verifies a token without waiting. `None` requires a call of [`verify`](Self::verify).
    fn try_now(&self, token: &str) -> Option<Result<Identity, AuthError>> {
        _ = token;
        None
    }

    /// Verifies a token.
    fn verify<'a>(&'a self, token: &'a str) -> AuthenticationFuture<'a>;

    /// Returns a number that changes when earlier results may no longer be valid, because the keys changed.
    fn epoch(&self) -> u64 {
        0
    }
}

/// Authenticator for bearer tokens (RFC 6750 section 2.1) that `I` verifies.
///
/// The scheme is case-insensitive. Tokens in the query or in a form are ignored, and several `Authorization` headers
/// are rejected.
#[derive(Clone, Debug)]
pub struct BearerAuthenticator<I>(I);

/// Verifier that passes JSON Web Tokens to `J` and opaque tokens to `O`. A JSON Web Token that `J` rejects is rejected;
/// `O` never sees it.
#[derive(Clone, Debug)]
pub struct JwtOrOpaque<J, O> {
    jwt: J,
    opaque: O,
}

impl<I: TokenVerifier> BearerAuthenticator<I> {
    /// Creates an authenticator for tokens that `verifier` verifies.
    pub fn new(verifier: I) -> Self {
        Self(verifier)
    }
}

impl<I: TokenVerifier> Authenticator for BearerAuthenticator<I> {
    fn try_now(&self, headers: &HeaderMap) -> Option<Result<Identity, AuthError>> {
        match token(headers) {
            Ok(token) => self.0.try_now(token),
            Err(error) => Some(Err(error)),
        }
    }

    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> AuthenticationFuture<'a> {
        match token(headers) {
            Ok(token) => self.0.verify(token),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }
}

impl<J: TokenVerifier, O: TokenVerifier> JwtOrOpaque<J, O> {
    /// Creates a verifier that passes JSON Web Tokens to `jwt` and all others to `opaque`.
    pub fn new(jwt: J, opaque: O) -> Self {
        Self { jwt, opaque }
    }
}

impl<J: TokenVerifier, O: TokenVerifier> TokenVerifier for JwtOrOpaque<J, O> {
    fn try_now(&self, token: &str) -> Option<Result<Identity, AuthError>> {
        if is_jwt(token) { self.jwt.try_now(token) } else { self.opaque.try_now(token) }
    }

    fn verify<'a>(&'a self, token: &'a str) -> AuthenticationFuture<'a> {
        if is_jwt(token) { self.jwt.verify(token) } else { self.opaque.verify(token) }
    }

    fn epoch(&self) -> u64 {
        // Changes with either epoch.
        self.jwt.epoch().rotate_left(1) ^ self.opaque.epoch()
    }
}

impl<I: TokenVerifier + ?Sized> TokenVerifier for Arc<I> {
    fn try_now(&self, token: &str) -> Option<Result<Identity, AuthError>> {
        (**self).try_now(token)
    }

    fn verify<'a>(&'a self, token: &'a str) -> AuthenticationFuture<'a> {
        (**self).verify(token)
    }

    fn epoch(&self) -> u64 {
        (**self).epoch()
    }
}

fn token(headers: &HeaderMap) -> Result<&str, AuthError> {
    Ok(bearer_token(headers, MAX_TOKEN_SIZE)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{claims, token};

    /// Verifier that knows one subject.
    struct KnownSubject(&'static str, u64);

    impl TokenVerifier for KnownSubject {
        fn try_now(&self, _: &str) -> Option<Result<Identity, AuthError>> {
            Some(Ok(Identity::new("https://id.example", self.0)))
        }

        fn verify<'a>(&'a self, token: &'a str) -> AuthenticationFuture<'a> {
            Box::pin(ready(self.try_now(token).unwrap()))
        }

        fn epoch(&self) -> u64 {
            self.1
        }
    }

    #[tokio::test]
    async fn token_form_selects_verifier() {
        let verifier =
            Arc::new(JwtOrOpaque::new(KnownSubject("jwt", 0), KnownSubject("opaque", 0)));
        let jwt = token(&claims(&serde_json::json!({})));
        for (token, subject) in [(jwt.as_str(), "jwt"), ("opaque", "opaque")] {
            let now = verifier.try_now(token).unwrap().unwrap();
            assert_eq!(now.subject(), Some(subject));
            assert_eq!(verifier.verify(token).await.unwrap().subject(), Some(subject));
        }
    }

    #[test]
    fn epoch_changes_with_either_verifier() {
        let epoch = |jwt, opaque| {
            let verifier = JwtOrOpaque::new(KnownSubject("a", jwt), KnownSubject("b", opaque));
            Arc::new(verifier).epoch()
        };
        assert_ne!(epoch(1, 1), epoch(2, 1));
        assert_ne!(epoch(1, 1), epoch(1, 2));
        assert_ne!(epoch(1, 2), epoch(2, 1));
        assert_ne!(epoch(3, 2), epoch(3, 6));
    }
}
