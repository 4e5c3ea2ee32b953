//! What the claims of a token must say.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use vmcp_core::{Claim, Claims};

use crate::TokenFault;

/// How far two clocks may differ, unless told otherwise.
pub const LEEWAY: Duration = Duration::from_secs(30);

/// A token that was issued later than this from now is a mistake, or a forgery by a wrong clock.
const FUTURE: Duration = Duration::from_secs(300);

/// Seconds since 1970 at the end of the year 9999: what is beyond is no date.
const LAST_DATE: u64 = 253_402_300_799;

/// What the claims `token_use` (Amazon Cognito, Ory Hydra) and `typ` (Keycloak) say of access tokens, in any case.
const ACCESS_TOKEN: [&str; 6] =
    ["access", "access_token", "at+jwt", "application/at+jwt", "bearer", "jwt"];

/// What they say of id tokens.
const ID_TOKEN: [&str; 2] = ["id", "id_token"];

/// Whose tokens are accepted, and what they must say (RFC 7519 section 4.1, RFC 9068 section 4).
#[derive(Clone, Debug)]
pub struct Rules {
    issuer: Box<str>,
    audience: Box<str>,
    leeway: Duration,
    id_tokens: bool,
}

/// The claims that rules are about.
#[derive(Default)]
struct Checked<'a> {
    issuer: Option<Cow<'a, str>>,
    audience: Option<Claim<'a>>,
    subject: Option<Cow<'a, str>>,
    expires: Option<Claim<'a>>,
    begins: Option<Claim<'a>>,
    issued: Option<Claim<'a>>,
    /// There is a `cnf`.
    bound: bool,
    /// There is what only id tokens have.
    id_token: bool,
    /// It is neither an access token nor an id token: it says so, as refresh tokens do, or it has `events` (RFC 8417),
    /// as logout tokens do.
    other_kind: bool,
}

impl Rules {
    /// Tokens whose `iss` is exactly `issuer`, by code point, and whose `aud` is `audience` or a list
    /// with it.
    #[must_use]
    pub fn new(issuer: &str, audience: &str) -> Self {
        Self { issuer: issuer.into(), audience: audience.into(), leeway: LEEWAY, id_tokens: false }
    }

    /// How far the issuer's clock may be off; 30 s unless set.
    #[must_use]
    pub fn leeway(mut self, leeway: Duration) -> Self {
        self.leeway = leeway;
        self
    }

    /// Accepts id tokens (OpenID Connect Core section 2) too. They say who logged in at a client, not
    /// what that client may do here, so they are refused unless this is called.
    #[must_use]
    pub fn accept_id_tokens(mut self) -> Self {
        self.id_tokens = true;
        self
    }

    /// The issuer.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Checks `claims` at `now`; answers until when they hold, if they say so.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(
        &self,
        claims: &Claims,
        now: SystemTime,
    ) -> Result<Option<SystemTime>, TokenFault> {
        let claims = Checked::of(claims);
        if claims.issuer.as_deref() != Some(&*self.issuer) {
            return Err(TokenFault::Issuer);
        }
        self.check_audience(claims.audience)?;
        let no_name = |subject: &str| subject.is_empty() || subject.contains('\0');
        if claims.subject.as_deref().is_none_or(no_name) {
            return Err(TokenFault::Subject);
        }
        self.check_kind(&claims)?;
        self.check_times(&claims, now)
    }

    fn check_audience(&self, aud: Option<Claim<'_>>) -> Result<(), TokenFault> {
        let ours = |one: Claim<'_>| one.text().as_deref() == Some(&*self.audience);
        let found = match aud {
            Some(list) if list.is_array() => {
                list.items().all(Claim::is_string) && list.items().any(ours)
            }
            Some(one) => ours(one),
            None => false,
        };
        if found { Ok(()) } else { Err(TokenFault::Audience) }
    }

    /// Tokens that mean something else, by what only they contain (RFC 8725 section 3.12).
    fn check_kind(&self, claims: &Checked<'_>) -> Result<(), TokenFault> {
        // Proof of possession (RFC 7800) is not checked here, so such a token would be worth more in
        // a thief's hand than its issuer meant.
        if claims.bound {
            return Err(TokenFault::Bound);
        }
        if claims.other_kind || (claims.id_token && !self.id_tokens) {
            return Err(TokenFault::Type);
        }
        Ok(())
    }

    fn check_times(
        &self,
        claims: &Checked<'_>,
        now: SystemTime,
    ) -> Result<Option<SystemTime>, TokenFault> {
        let expires = date(claims.expires).map_err(|()| TokenFault::Expiry)?;
        if expires.is_some_and(|at| at + self.leeway <= now) {
            return Err(TokenFault::Expired);
        }
        let begins = date(claims.begins).map_err(|()| TokenFault::NotYetValid)?;
        if begins.is_some_and(|at| at > now + self.leeway) {
            return Err(TokenFault::NotYetValid);
        }
        let issued = date(claims.issued).map_err(|()| TokenFault::IssuedInFuture)?;
        if issued.is_some_and(|at| at > now + FUTURE) {
            return Err(TokenFault::IssuedInFuture);
        }
        Ok(expires.map(|at| at + self.leeway))
    }
}

impl<'a> Checked<'a> {
    /// Goes through the claims once, rather than looking each of these up.
    fn of(claims: &'a Claims) -> Self {
        let mut checked = Self::default();
        for (name, value) in claims.iter() {
            match &*name {
                "iss" => checked.issuer = value.text(),
                "aud" => checked.audience = Some(value),
                "sub" => checked.subject = value.text(),
                "exp" => checked.expires = Some(value),
                "nbf" => checked.begins = Some(value),
                "iat" => checked.issued = Some(value),
                "cnf" => checked.bound = true,
                "events" => checked.other_kind = true,
                "nonce" | "at_hash" => checked.id_token = true,
                "token_use" | "typ" => match value.text().as_deref() {
                    Some(kind) if is_one_of(kind, &ACCESS_TOKEN) => {}
                    Some(kind) if is_one_of(kind, &ID_TOKEN) => checked.id_token = true,
                    _ => checked.other_kind = true,
                },
                _ => {}
            }
        }
        checked
    }
}

fn is_one_of(kind: &str, kinds: &[&str]) -> bool {
    kinds.iter().any(|known| known.eq_ignore_ascii_case(kind))
}

/// A `NumericDate`: seconds since 1970, which may have a fraction (RFC 7519 section 2).
fn date(claim: Option<Claim<'_>>) -> Result<Option<SystemTime>, ()> {
    let Some(claim) = claim else { return Ok(None) };
    let seconds = if let Ok(whole) = claim.json().parse() {
        whole
    } else {
        let fraction = claim.value().as_f64().filter(|seconds| *seconds >= 0.0).ok_or(())?;
        Duration::try_from_secs_f64(fraction).map_err(|_| ())?.as_secs()
    };
    if seconds > LAST_DATE {
        return Err(());
    }
    Ok(Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests;
