//! Who presents a token.

use std::future::ready;
use std::sync::Arc;

use http::HeaderMap;
use vmcp_core::Identity;
use vmcp_jwt::{MAX_TOKEN, is_jwt};
use vmcp_protected_resource::bearer_token;

use crate::{Authenticate, AuthenticateFuture, Refusal};

/// Tells whose a bearer token is.
pub trait Inspect: Send + Sync + 'static {
    /// The answer, where it takes no waiting.
    fn at_once(&self, token: &str) -> Option<Result<Identity, Refusal>> {
        _ = token;
        None
    }

    /// The answer.
    fn inspect<'a>(&'a self, token: &'a str) -> AuthenticateFuture<'a>;

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
pub struct Bearer<I>(I);

/// Has JSON Web Tokens inspected by `J` and opaque tokens by `O`. A JSON Web Token that `J` refuses
/// is refused: nobody else is asked.
#[derive(Clone, Debug)]
pub struct ByShape<J, O> {
    jwt: J,
    opaque: O,
}

impl<I: Inspect> Bearer<I> {
    /// Tokens are inspected by `inspect`.
    pub fn new(inspect: I) -> Self {
        Self(inspect)
    }
}

impl<I: Inspect> Authenticate for Bearer<I> {
    fn at_once(&self, headers: &HeaderMap) -> Option<Result<Identity, Refusal>> {
        match token(headers) {
            Ok(token) => self.0.at_once(token),
            Err(refusal) => Some(Err(refusal)),
        }
    }

    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> AuthenticateFuture<'a> {
        match token(headers) {
            Ok(token) => self.0.inspect(token),
            Err(refusal) => Box::pin(ready(Err(refusal))),
        }
    }
}

impl<J: Inspect, O: Inspect> ByShape<J, O> {
    /// `jwt` inspects JSON Web Tokens, `opaque` all others.
    pub fn new(jwt: J, opaque: O) -> Self {
        Self { jwt, opaque }
    }
}

impl<J: Inspect, O: Inspect> Inspect for ByShape<J, O> {
    fn at_once(&self, token: &str) -> Option<Result<Identity, Refusal>> {
        if is_jwt(token) { self.jwt.at_once(token) } else { self.opaque.at_once(token) }
    }

    fn inspect<'a>(&'a self, token: &'a str) -> AuthenticateFuture<'a> {
        if is_jwt(token) { self.jwt.inspect(token) } else { self.opaque.inspect(token) }
    }

    fn epoch(&self) -> u64 {
        // One that changes with either.
        self.jwt.epoch().rotate_left(1) ^ self.opaque.epoch()
    }
}

impl<I: Inspect + ?Sized> Inspect for Arc<I> {
    fn at_once(&self, token: &str) -> Option<Result<Identity, Refusal>> {
        (**self).at_once(token)
    }

    fn inspect<'a>(&'a self, token: &'a str) -> AuthenticateFuture<'a> {
        (**self).inspect(token)
    }

    fn epoch(&self) -> u64 {
        (**self).epoch()
    }
}

fn token(headers: &HeaderMap) -> Result<&str, Refusal> {
    Ok(bearer_token(headers, MAX_TOKEN)?)
}
