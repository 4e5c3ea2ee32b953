//! What a provider knows this server as after a registration, and where that is kept.

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::time::SystemTime;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use vmcp_core::BoxError;

use crate::Plaintext;
use crate::tokens::{seconds, time};

/// Keeps registrations over restarts and for all replicas. A registration is sealed as
/// [`Plaintext`](crate::Plaintext) before it is written.
pub trait Registrations: Send + Sync {
    /// The registration kept under `key`, if there is one.
    fn get<'a>(&'a self, key: &'a RegistrationKey)
    -> RegistrationsFuture<'a, Option<Registration>>;

    /// Keeps `registration` under `key` until it expires, unless one is kept already that is of another client
    /// than `instead_of`. Answers which one is kept now: so replicas that register at the same time go on as
    /// the same client.
    fn put<'a>(
        &'a self,
        key: &'a RegistrationKey,
        registration: &'a Registration,
        instead_of: Option<&'a str>,
    ) -> RegistrationsFuture<'a, Registration>;
}

/// Keeps nothing: each process registers once for itself, and again after a restart.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryRegistrations;

/// The answer of a [`Registrations`] method.
pub type RegistrationsFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send + 'a>>;

/// What a registration is kept under: another issuer, provider, redirect URI or set of scopes, or other
/// endpoints, need another registration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegistrationKey {
    /// The provider's issuer; without discovery, its registration endpoint.
    pub issuer: Box<str>,
    /// Where the client is used: [`Provider::issuer_id`](crate::Provider::issuer_id).
    pub issuer_id: Box<str>,
    /// The provider's name here.
    pub provider: Box<str>,
    /// Where the provider sends users back to.
    pub redirect_uri: Box<str>,
    /// SHA-256 of the sorted scopes with line feeds between, in base64url.
    pub scopes: Box<str>,
}

/// The client that a provider made of this server (RFC 7591 section 3.2.1).
#[derive(Clone)]
pub struct Registration {
    /// Its identifier.
    pub client_id: Box<str>,
    /// Its secret. `None` is a public client.
    pub secret: Option<SecretString>,
    /// How it authenticates at the token endpoint.
    pub method: AuthMethod,
    /// When the secret expires, if it does.
    pub expires_at: Option<SystemTime>,
}

/// How a client authenticates at the token endpoint (RFC 7591 section 2, `token_endpoint_auth_method`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AuthMethod {
    /// HTTP Basic.
    #[serde(rename = "client_secret_basic")]
    Basic,
    /// In the body.
    #[serde(rename = "client_secret_post")]
    Post,
    /// Not at all: a public client.
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
    /// As metadata and registrations name it.
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
