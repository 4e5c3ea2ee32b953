#![doc = include_str!("../README.md")]
#![allow(dead_code, clippy::unused_async, reason = "the signatures come first")]

mod client;
mod endpoint;
mod fault;
mod leg;
mod mapping;
mod provider;
mod registration;
mod settings;
mod tokens;

pub use self::{
    client::{Dynamic, Fixed, RegistrationPlace},
    endpoint::{Endpoint, Issuer},
    fault::{AnswerFault, Blame, Fault, IdentityFault, Outage, Place, RefreshFault},
    leg::{Answer, Leg},
    mapping::{FieldMapping, Headers, Method, Path, TokenMapping, UserInfo},
    provider::{Provider, Revocation},
    registration::{
        AuthMethod, InProcess, Registration, RegistrationKey, Registrations, RegistrationsFuture,
    },
    settings::{Client, Kind, Oauth2, Oidc, Params, Scopes, Settings, SettingsError},
    tokens::{Exposed, Login, Tokens},
};
