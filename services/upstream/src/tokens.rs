//! What a login brings: who the user is, and the provider's tokens.

use std::fmt;
use std::time::{Duration, SystemTime};

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{AuthorizationState, Scopes};

/// Who logged in, and what this server may do at the provider in that user's name.
#[derive(Clone)]
pub struct Login {
    /// Who the user is at the provider: stable, 256 bytes at most, without control characters. A string as the
    /// provider has it, a number as `#` and its digits, a string that begins with `#` with another one. With
    /// [`is_synthetic`](Self::synthesized) `tk-` and 32 hexadecimal digits.
    pub subject: Box<str>,
    /// What the user is called, 256 characters at most.
    pub name: Option<Box<str>>,
    /// The user's address, 256 characters at most; not one of which the provider says that it isn't
    /// verified.
    pub email: Option<Box<str>>,
    /// Whether the provider verified the address, where it says so. With `false` there is no address.
    pub email_verified: Option<bool>,
    /// When the user proved it to the provider, where that says so (`auth_time`, OpenID Connect Core 1.0 section 2).
    pub authenticated: Option<SystemTime>,
    /// Whether the subject was made up from the access token, so that nobody can be recognised by it.
    pub is_synthetic: bool,
    /// The tokens.
    pub tokens: Tokens,
}

/// A provider's tokens. They are never shown; [`Plaintext`] serialises them, to be sealed.
#[derive(Clone)]
pub struct Tokens {
    /// The access token: visible ASCII, 16 KiB at most.
    pub access: SecretString,
    /// The refresh token.
    pub refresh: Option<SecretString>,
    /// The id token (OpenID Connect), as it was verified at the login or the last refresh that gave one.
    pub id: Option<SecretString>,
    /// When the access token expires, where the provider says so.
    pub expires_at: Option<SystemTime>,
    /// What was granted; what was asked for, where the provider doesn't say.
    pub scopes: Scopes,
    /// The provider that gave them: [`Provider::issuer_id`](crate::Provider::issuer_id).
    pub issuer: Box<str>,
    /// Whose they are: [`Login::subject`].
    pub subject: Box<str>,
    /// The client that got them: no other can refresh them.
    pub client_id: Box<str>,
}

/// Serialises secrets as they are. Whatever it writes has to be encrypted before it is kept.
///
/// It is the only way to serialise [`AuthorizationState`], [`Tokens`] and [`Registration`](crate::Registration), so that
/// each place that does shows.
#[derive(Clone, Debug)]
pub struct Plaintext<T>(pub T);

#[derive(Serialize)]
struct TokensRef<'a> {
    access: &'a str,
    refresh: Option<&'a str>,
    id: Option<&'a str>,
    expires_at: Option<u64>,
    scopes: Vec<&'a str>,
    issuer: &'a str,
    subject: &'a str,
    client_id: &'a str,
}

#[derive(Deserialize)]
struct StoredTokens {
    access: SecretString,
    refresh: Option<SecretString>,
    id: Option<SecretString>,
    expires_at: Option<u64>,
    scopes: Vec<String>,
    issuer: Box<str>,
    subject: Box<str>,
    client_id: Box<str>,
}

#[derive(Serialize)]
struct AuthorizationStateRef<'a> {
    verifier: &'a str,
    nonce: Option<&'a str>,
    issuer_id: &'a str,
    issuer: Option<&'a str>,
    issuer_in_answer: bool,
    client_id: &'a str,
    scopes: Vec<&'a str>,
    begun: u64,
}

#[derive(Deserialize)]
struct StoredAuthorizationState {
    verifier: SecretString,
    nonce: Option<SecretString>,
    issuer_id: Box<str>,
    issuer: Option<Box<str>>,
    issuer_in_answer: bool,
    client_id: Box<str>,
    scopes: Vec<String>,
    begun: u64,
}

// === impl Plaintext ===

impl Serialize for Plaintext<&Tokens> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Tokens { access, refresh, id, expires_at, scopes, issuer, subject, client_id } = self.0;
        let out = TokensRef {
            access: access.expose_secret(),
            refresh: refresh.as_ref().map(ExposeSecret::expose_secret),
            id: id.as_ref().map(ExposeSecret::expose_secret),
            expires_at: expires_at.map(seconds),
            scopes: scopes.iter().collect(),
            issuer,
            subject,
            client_id,
        };
        out.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Plaintext<Tokens> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let StoredTokens { access, refresh, id, expires_at, scopes, issuer, subject, client_id } =
            StoredTokens::deserialize(from)?;
        let scopes = Scopes::new(scopes).map_err(serde::de::Error::custom)?;
        let expires_at = expires_at.map(time).transpose().map_err(serde::de::Error::custom)?;
        Ok(Self(Tokens { access, refresh, id, expires_at, scopes, issuer, subject, client_id }))
    }
}

impl Serialize for Plaintext<&AuthorizationState> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let AuthorizationState {
            verifier,
            nonce,
            issuer_id,
            issuer,
            issuer_in_answer,
            client_id,
            scopes,
            begun,
        } = self.0;
        let out = AuthorizationStateRef {
            verifier: verifier.expose_secret(),
            nonce: nonce.as_ref().map(ExposeSecret::expose_secret),
            issuer_id,
            issuer: issuer.as_deref(),
            issuer_in_answer: *issuer_in_answer,
            client_id,
            scopes: scopes.iter().collect(),
            begun: seconds(*begun),
        };
        out.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Plaintext<AuthorizationState> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let StoredAuthorizationState {
            verifier,
            nonce,
            issuer_id,
            issuer,
            issuer_in_answer,
            client_id,
            scopes,
            begun,
        } = StoredAuthorizationState::deserialize(from)?;
        let scopes = Scopes::new(scopes).map_err(serde::de::Error::custom)?;
        let begun = time(begun).map_err(serde::de::Error::custom)?;
        Ok(Self(AuthorizationState {
            verifier,
            nonce,
            issuer_id,
            issuer,
            issuer_in_answer,
            client_id,
            scopes,
            begun,
        }))
    }
}

/// Whole seconds since 1970, as providers count them.
pub(crate) fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

pub(crate) fn time(seconds: u64) -> Result<SystemTime, &'static str> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).ok_or("beyond all dates")
}

impl fmt::Debug for Login {
    /// Neither name nor address: they are the user's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("synthesized", &self.is_synthetic)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens")
            .field("refresh", &self.refresh.is_some())
            .field("id", &self.id.is_some())
            .field("expires_at", &self.expires_at)
            .field("scopes", &self.scopes)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}
