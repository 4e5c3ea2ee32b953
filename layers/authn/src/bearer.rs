//! Who presents a token.

use std::future::ready;
use std::sync::Arc;

use http::HeaderMap;
use vmcp_core::Identity;
use vmcp_jwt::{MAX_TOKEN_SIZE, is_jwt};
use vmcp_protected_resource::bearer_token;

use crate::{AuthError, AuthenticationFuture, Authenticator};

/// Tells whose a bearer token is.
pub trait TokenVerifier: Send + Sync + 'static {
    /// The answer, where it takes no waiting.
    fn try_now(&self, token: &str) -> Option<Result<Identity, AuthError>> {
        _ = token;
        None
    }

    /// The answer.
    fn verify<'a>(&'a self, token: &'a str) -> AuthenticationFuture<'a>;

    /// Another number when answers that were given may not hold any more, because the keys have
    /// changed.
    fn epoch(&self) -> u64 {
        0
    }
}

/// Authenticates by a bearer token (RFC 6750 section 2.1) that `I` inspects.
///
/// The scheme is read in any case. Tokens in the query or in a form are not read, and two
/// `Authorization` headers are refused.
#[derive(Clone, Debug)]
pub struct BearerAuthenticator<I>(I);

/// Has JSON Web Tokens inspected by `J` and opaque tokens by `O`. A JSON Web Token that `J` refuses
/// is refused: nobody else is asked.
#[derive(Clone, Debug)]
pub struct JwtOrOpaque<J, O> {
    jwt: J,
    opaque: O,
}

impl<I: TokenVerifier> BearerAuthenticator<I> {
    /// Tokens are inspected by `inspect`.
    pub fn new(inspect: I) -> Self {
        Self(inspect)
    }
}

impl<I: TokenVerifier> Authenticator for BearerAuthenticator<I> {
    fn try_now(&self, headers: &HeaderMap) -> Option<Result<Identity, AuthError>> {
        match token(headers) {
            Ok(token) => self.0.try_now(token),
            Err(refusal) => Some(Err(refusal)),
        }
    }

    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> AuthenticationFuture<'a> {
        match token(headers) {
            Ok(token) => self.0.verify(token),
            Err(refusal) => Box::pin(ready(Err(refusal))),
        }
    }
}

impl<J: TokenVerifier, O: TokenVerifier> JwtOrOpaque<J, O> {
    /// `jwt` inspects JSON Web Tokens, `opaque` all others.
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
        // One that changes with either.
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
