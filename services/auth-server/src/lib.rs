#![doc = include_str!("../README.md")]

mod authorize;
mod callback;
mod cimd;
mod client;
mod connections;
mod consent;
mod error;
mod event;
mod flow;
mod intake;
mod introspect;
mod keys;
mod limit;
mod metadata;
mod opaque;
mod own;
mod page;
mod params;
mod redirect;
mod register;
mod registrations;
mod resource;
mod revoke;
mod revoked_sessions;
mod router;
mod rows;
mod scope;
mod server;
mod settings;
mod token;
mod tokens;
mod upstream;
mod userinfo;

pub(crate) use self::page::Pages;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use self::{
    cimd::{CimdFault, MAX_DOCUMENT},
    event::{Event, Happened, Lost, Observer, Refusal, Reused, Revoker},
    intake::MAX_BODY,
    keys::{Keys, MAX_SIGNING_KEYS, SigningKeyFault},
    limit::Rates,
    opaque::{HmacFault, HmacRing, MIN_HMAC_SECRET},
    own::{OwnFault, OwnToken, OwnTokens},
    redirect::{MAX_REDIRECT_URI, RedirectFault, RedirectKind, RedirectUri},
    register::MAX_REDIRECT_URIS,
    registrations::StoredRegistrations,
    resource::{Audience, AudienceFault, Audiences},
    scope::{MAX_SCOPES, ScopeFault, Scopes},
    server::{AuthServer, Sizes},
    settings::{
        IssuerFault, IssuerUrl, LifespanFault, Lifespans, ProviderFault, Settings, StartFault,
    },
    upstream::Upstream,
};
pub use vmcp_core::Rate;
