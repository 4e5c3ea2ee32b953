//! Result of a login: the user and the provider's tokens.

use std::fmt;
use std::time::{Duration, SystemTime};

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{AuthorizationState, Scopes};

/// User who logged in, with the tokens of the provider.
#[derive(Clone)]
pub struct Login {
    /// Subject at the provider: stable, at most 256 bytes, without control characters. A string as
    /// the provider reports it, a number as `#` and its digits, a string that begins with `#` with
    /// a second one. With [`is_synthetic`](Self::is_synthetic), `tk-` and 32 hexadecimal digits.
    pub subject: Box<str>,
    /// Display name, at most 256 characters.
    pub name: Option<Box<str>>,
    /// Email address, at most 256 characters; omitted if the provider reports it as unverified.
    pub email: Option<Box<str>>,
    /// `true` if the provider verified the address; `None` if it does not report that. `email` is
    /// `None` for `false`.
    pub email_verified: Option<bool>,
    /// Time of the authentication, if the provider reports it (`auth_time`, OpenID Connect Core 1.0
    /// section 2).
    pub authenticated: Option<SystemTime>,
    /// `true` if the subject is derived from the access token and differs at each login.
    pub is_synthetic: bool,
    /// Tokens of the provider.
    pub tokens: Tokens,
}

/// Tokens of a provider. `Debug` omits them; [`Plaintext`] serializes them for encryption.
#[derive(Clone)]
pub struct Tokens {
    /// Access token: visible ASCII, at most 16 KiB.
    pub access: SecretString,
    /// Refresh token.
    pub refresh: Option<SecretString>,
    /// ID token (OpenID Connect), verified at the login or at the last refresh that returned one.
    pub id: Option<SecretString>,
    /// Expiry of the access token, if the provider reports it.
    pub expires_at: Option<SystemTime>,
    /// Granted scopes; the requested ones if the provider does not report any.
    pub scopes: Scopes,
    /// Identity of the provider: [`Provider::issuer_id`](crate::Provider::issuer_id).
    pub issuer: Box<str>,
    /// Subject of the user: [`Login::subject`].
    pub subject: Box<str>,
    /// Client that received the tokens; no other client can refresh them.
    pub client_id: Box<str>,
}

/// Serializes secrets unencrypted. Encrypt the output before you store it.
///
/// The only way to serialize [`AuthorizationState`], [`Tokens`] and
/// [`Registration`](crate::Registration), so that each use is visible in the code.
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

/// Returns whole seconds since 1970.
pub(crate) fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

pub(crate) fn time(seconds: u64) -> Result<SystemTime, &'static str> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).ok_or("beyond all dates")
}

impl fmt::Debug for Login {
    /// Omits name and address, which are personal data.
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
