//! The token in the `Authorization` header, and nowhere else.

use std::future::ready;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use vmcp_core::Identity;
use vmcp_jwt::{MAX_TOKEN, is_jwt};

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
    let refuse = |why: &'static str| Err(Refusal::InvalidRequest(why.into()));
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Err(Refusal::NoCredentials) };
    if values.next().is_some() {
        return refuse("there is more than one Authorization header");
    }
    if value.len() > MAX_TOKEN + "Bearer ".len() {
        return refuse("the Authorization header is too long");
    }
    let form = "the Authorization header must be: Bearer <token>";
    let Ok(text) = value.to_str() else { return refuse(form) };
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return refuse(form);
    }
    let token = token.trim_matches(' ');
    if token.is_empty() { refuse("the bearer token is empty") } else { Ok(token) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(values: &[&str]) -> Result<String, Refusal> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        token(&headers).map(str::to_owned)
    }

    #[test]
    fn the_scheme_is_read_in_any_case() {
        for value in ["Bearer abc", "bearer abc", "BEARER  abc "] {
            assert_eq!(read(&[value]).as_deref(), Ok("abc"), "{value}");
        }
    }

    #[test]
    fn what_is_no_single_bearer_token_is_refused() {
        let long = format!("Bearer {}", "x".repeat(20 * 1024));
        for values in [
            &["Basic abc"][..],
            &["Bearer"],
            &["Bearer  "],
            &[""],
            &["abc"],
            &["Bearer a", "Bearer a"],
            &["Bearer \u{e9}"],
            &[&long],
        ] {
            assert!(matches!(read(values), Err(Refusal::InvalidRequest(_))), "{values:?}");
        }
        assert_eq!(read(&[]), Err(Refusal::NoCredentials));
    }

    proptest! {
        #[test]
        fn no_header_breaks_the_reader(value in "[\\x20-\\x7e\\x80-\\xff]{0,80}") {
            _ = read(&[&value]);
        }
    }
}
