#![doc = include_str!("../README.md")]

mod access_token;
mod audience;
mod auth_server;
mod authorize;
mod callback;
mod client;
mod client_id_metadata;
mod connections;
mod consent;
mod discovery;
mod error;
mod event;
mod extract;
mod introspection;
mod login;
mod page;
mod params;
mod random_tokens;
mod rate_limits;
mod redirect_uri;
mod registration;
mod revocation;
mod revoked_sessions;
mod router;
mod scope;
mod settings;
mod signing_keys;
mod stored_registrations;
mod token;
mod token_claims;
mod upstream;
mod upstream_tokens;
mod userinfo;

pub(crate) use self::page::Pages;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use self::{
    access_token::{AccessToken, AccessTokenError, AccessTokenVerifier},
    audience::{Audience, AudienceError, Audiences},
    auth_server::{AuthServer, Stats},
    client_id_metadata::{ClientMetadataError, MAX_DOCUMENT},
    event::{Event, EventKind, LinkLossReason, Observer, Rejection, ReplayedToken, RevokedBy},
    extract::MAX_BODY,
    random_tokens::{HmacKeyError, HmacKeyRing, MIN_HMAC_SECRET},
    rate_limits::RateLimits,
    redirect_uri::{MAX_REDIRECT_URI, RedirectKind, RedirectUri, RedirectUriError},
    registration::MAX_REDIRECT_URIS,
    scope::{MAX_SCOPES, ScopeError, Scopes},
    settings::{
        IssuerUrl, IssuerUrlError, LifespanError, Lifespans, ProviderCheckError, Settings,
        StartError,
    },
    signing_keys::{MAX_SIGNING_KEYS, SigningKeyError, SigningKeys},
    stored_registrations::StoredRegistrations,
    upstream::Upstream,
};
pub use vmcp_core::Rate;
