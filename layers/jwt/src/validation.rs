//! Validation of claims.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use vmcp_core::{Claim, Claims};

use crate::TokenError;

/// Default leeway between the clocks of issuer and server.
pub const LEEWAY: Duration = Duration::from_secs(30);

/// Maximum time that `iat` may be in the future. A later one is an error or a forgery.
const MAX_ISSUED_AHEAD: Duration = Duration::from_mins(5);

/// The end of the year 9999 in seconds since 1970, the last valid date.
const MAX_DATE: u64 = 253_402_300_799;

/// Values of the claims `token_use` (Amazon Cognito, Ory Hydra) and `typ` (Keycloak) in access tokens, in any case.
const ACCESS_TOKEN: [&str; 6] =
    ["access", "access_token", "at+jwt", "application/at+jwt", "bearer", "jwt"];

/// Their values in id tokens.
const ID_TOKEN: [&str; 2] = ["id", "id_token"];

/// Issuer, audience and further requirements of accepted tokens (RFC 7519 section 4.1, RFC 9068 section 4).
#[derive(Clone, Debug)]
pub struct ValidationOptions {
    issuer: Box<str>,
    audience: Box<str>,
    leeway: Duration,
    accepts_id_tokens: bool,
}

/// Claims that are validated.
#[derive(Default)]
struct ValidatedClaims<'a> {
    issuer: Option<Cow<'a, str>>,
    audience: Option<Claim<'a>>,
    subject: Option<Cow<'a, str>>,
    expires_at: Option<Claim<'a>>,
    not_before: Option<Claim<'a>>,
    issued_at: Option<Claim<'a>>,
    /// Set if `cnf` is present.
    has_confirmation: bool,
    /// Set if a mark of id tokens is present.
    is_id_token: bool,
    /// Set if the token is marked as neither access token nor id token, like refresh tokens, or has `events` (RFC
    /// 8417), like logout tokens.
    is_other_kind: bool,
}

impl ValidationOptions {
    /// Creates options for tokens whose `iss` equals `issuer` by code point and whose `aud` is `audience` or a list
    /// that contains it.
    #[must_use]
    pub fn new(issuer: &str, audience: &str) -> Self {
        Self {
            issuer: issuer.into(),
            audience: audience.into(),
            leeway: LEEWAY,
            accepts_id_tokens: false,
        }
    }

    /// Sets the leeway; 30 s by default.
    #[must_use]
    pub fn leeway(mut self, leeway: Duration) -> Self {
        self.leeway = leeway;
        self
    }

    /// Accepts id tokens (OpenID Connect Core section 2) too. They prove a login at a client, not permissions at this
    /// server, so they are rejected by default.
    #[must_use]
    pub fn accept_id_tokens(mut self) -> Self {
        self.accepts_id_tokens = true;
        self
    }

    /// Returns the issuer.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Validates `claims` at the time `now` and returns the end of their validity, if they contain one.
    ///
    /// # Errors
    /// Returns the first violated rule.
    pub fn validate(
        &self,
        claims: &Claims,
        now: SystemTime,
    ) -> Result<Option<SystemTime>, TokenError> {
        let claims = ValidatedClaims::read(claims);
        if claims.issuer.as_deref() != Some(&*self.issuer) {
            return Err(TokenError::Issuer);
        }
        self.validate_audience(claims.audience)?;
        let is_invalid = |subject: &str| subject.is_empty() || subject.contains('\0');
        if claims.subject.as_deref().is_none_or(is_invalid) {
            return Err(TokenError::Subject);
        }
        self.validate_kind(&claims)?;
        self.validate_times(&claims, now)
    }

    fn validate_audience(&self, aud: Option<Claim<'_>>) -> Result<(), TokenError> {
        let is_audience = |one: Claim<'_>| one.text().as_deref() == Some(&*self.audience);
        let is_match = match aud {
            Some(list) if list.is_array() => {
                list.items().all(Claim::is_string) && list.items().any(is_audience)
            }
            Some(one) => is_audience(one),
            None => false,
        };
        if is_match { Ok(()) } else { Err(TokenError::Audience) }
    }

    /// Rejects other kinds of tokens by their distinctive claims (RFC 8725 section 3.12).
    fn validate_kind(&self, claims: &ValidatedClaims<'_>) -> Result<(), TokenError> {
        // Proof of possession (RFC 7800) is not supported. Accepting the token without it would let a thief use it.
        if claims.has_confirmation {
            return Err(TokenError::Bound);
        }
        if claims.is_other_kind || (claims.is_id_token && !self.accepts_id_tokens) {
            return Err(TokenError::Type);
        }
        Ok(())
    }

    fn validate_times(
        &self,
        claims: &ValidatedClaims<'_>,
        now: SystemTime,
    ) -> Result<Option<SystemTime>, TokenError> {
        let expires_at = numeric_date(claims.expires_at).map_err(|()| TokenError::Expiry)?;
        if expires_at.is_some_and(|at| at + self.leeway <= now) {
            return Err(TokenError::Expired);
        }
        let not_before = numeric_date(claims.not_before).map_err(|()| TokenError::NotYetValid)?;
        if not_before.is_some_and(|at| at > now + self.leeway) {
            return Err(TokenError::NotYetValid);
        }
        let issued_at = numeric_date(claims.issued_at).map_err(|()| TokenError::IssuedInFuture)?;
        if issued_at.is_some_and(|at| at > now + MAX_ISSUED_AHEAD) {
            return Err(TokenError::IssuedInFuture);
        }
        Ok(expires_at.map(|at| at + self.leeway))
    }
}

impl<'a> ValidatedClaims<'a> {
    /// Collects the claims in one pass instead of looking each one up.
    fn read(claims: &'a Claims) -> Self {
        let mut validated = Self::default();
        for (name, value) in claims.iter() {
            match &*name {
                "iss" => validated.issuer = value.text(),
                "aud" => validated.audience = Some(value),
                "sub" => validated.subject = value.text(),
                "exp" => validated.expires_at = Some(value),
                "nbf" => validated.not_before = Some(value),
                "iat" => validated.issued_at = Some(value),
                "cnf" => validated.has_confirmation = true,
                "events" => validated.is_other_kind = true,
                "nonce" | "at_hash" => validated.is_id_token = true,
                "token_use" | "typ" => match value.text().as_deref() {
                    Some(kind) if is_one_of(kind, &ACCESS_TOKEN) => {}
                    Some(kind) if is_one_of(kind, &ID_TOKEN) => validated.is_id_token = true,
                    _ => validated.is_other_kind = true,
                },
                _ => {}
            }
        }
        validated
    }
}

fn is_one_of(kind: &str, kinds: &[&str]) -> bool {
    kinds.iter().any(|known| known.eq_ignore_ascii_case(kind))
}

/// Parses a `NumericDate`: seconds since 1970, possibly with a fraction (RFC 7519 section 2).
fn numeric_date(claim: Option<Claim<'_>>) -> Result<Option<SystemTime>, ()> {
    let Some(claim) = claim else { return Ok(None) };
    let seconds = if let Ok(whole) = claim.json().parse() {
        whole
    } else {
        let fraction = claim.value().as_f64().filter(|seconds| *seconds >= 0.0).ok_or(())?;
        Duration::try_from_secs_f64(fraction).map_err(|_| ())?.as_secs()
    };
    if seconds > MAX_DATE {
        return Err(());
    }
    Ok(Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests;
