//! Registrations of this server at providers, and their storage.

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::time::SystemTime;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use vmcp_core::BoxError;

use crate::Plaintext;
use crate::tokens::{seconds, time};

/// Storage of registrations, shared by all replicas and across restarts. Implementations have to
/// encrypt a registration, serialized as [`Plaintext`](crate::Plaintext).
pub trait Registrations: Send + Sync {
    /// Returns the registration under `key`.
    fn get<'a>(&'a self, key: &'a RegistrationKey)
    -> RegistrationsFuture<'a, Option<Registration>>;

    /// Stores `registration` under `key` until it expires, unless a registration of a client other
    /// than `instead_of` is stored. Returns the stored registration: replicas that register at the
    /// same time continue with the same client.
    fn put<'a>(
        &'a self,
        key: &'a RegistrationKey,
        registration: &'a Registration,
        instead_of: Option<&'a str>,
    ) -> RegistrationsFuture<'a, Registration>;
}

/// Storage that keeps nothing: each process registers for itself, and again after a restart.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryRegistrations;

/// Future of a [`Registrations`] method.
pub type RegistrationsFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send + 'a>>;

/// Key of a registration: another issuer, provider, redirect URI, set of scopes or endpoint needs
/// another registration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegistrationKey {
    /// Issuer of the provider; its registration endpoint without discovery.
    pub issuer: Box<str>,
    /// Identity of the provider: [`Provider::issuer_id`](crate::Provider::issuer_id).
    pub issuer_id: Box<str>,
    /// Name of the provider in the configuration.
    pub provider: Box<str>,
    /// Redirect URI of this server.
    pub redirect_uri: Box<str>,
    /// SHA-256 of the sorted scopes, separated by line feeds, in base64url.
    pub scopes: Box<str>,
}

/// Registered client of this server (RFC 7591 section 3.2.1).
#[derive(Clone)]
pub struct Registration {
    /// Client identifier.
    pub client_id: Box<str>,
    /// Client secret; `None` for a public client.
    pub secret: Option<SecretString>,
    /// Authentication method at the token endpoint.
    pub method: AuthMethod,
    /// Expiry of the secret, if it expires.
    pub expires_at: Option<SystemTime>,
}

/// Client authentication method at the token endpoint (RFC 7591 section 2,
/// `token_endpoint_auth_method`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AuthMethod {
    /// HTTP Basic.
    #[serde(rename = "client_secret_basic")]
    Basic,
    /// Client secret in the body.
    #[serde(rename = "client_secret_post")]
    Post,
    /// No authentication: a public client.
    #[serde(rename = "none")]
    None,
}

#[derive(Serialize)]
struct RegistrationRef<'a> {
    client_id: &'a str,
    secret: Option<&'a str>,
    method: AuthMethod,
    expires_at: Option<u64>,
}

#[derive(Deserialize)]
struct StoredRegistration {
    client_id: Box<str>,
    secret: Option<SecretString>,
    method: AuthMethod,
    expires_at: Option<u64>,
}

impl Registrations for MemoryRegistrations {
    fn get<'a>(&'a self, _: &'a RegistrationKey) -> RegistrationsFuture<'a, Option<Registration>> {
        Box::pin(ready(Ok(None)))
    }

    fn put<'a>(
        &'a self,
        _: &'a RegistrationKey,
        registration: &'a Registration,
        _: Option<&'a str>,
    ) -> RegistrationsFuture<'a, Registration> {
        Box::pin(ready(Ok(registration.clone())))
    }
}

impl AuthMethod {
    /// Returns the name in metadata and registrations.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
            Self::None => "none",
        }
    }
}

impl Serialize for Plaintext<&Registration> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Registration { client_id, secret, method, expires_at } = self.0;
        let secret = secret.as_ref().map(ExposeSecret::expose_secret);
        RegistrationRef { client_id, secret, method: *method, expires_at: expires_at.map(seconds) }
            .serialize(to)
    }
}

impl<'de> Deserialize<'de> for Plaintext<Registration> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let StoredRegistration { client_id, secret, method, expires_at } =
            StoredRegistration::deserialize(from)?;
        let expires_at = expires_at.map(time).transpose().map_err(serde::de::Error::custom)?;
        Ok(Self(Registration { client_id, secret, method, expires_at }))
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("client_id", &self.client_id)
            .field("method", &self.method)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}
