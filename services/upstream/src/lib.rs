#![doc = include_str!("../README.md")]

mod answer;
mod client;
mod discovery;
mod endpoint;
mod fault;
mod form;
mod freshness;
mod id_token;
mod leg;
mod mapping;
mod provider;
mod registrar;
mod registration;
mod settings;
mod tokens;
mod user;
mod web;

#[cfg(test)]
mod testing;

pub use self::{
    client::{Dynamic, Fixed, RegistrationPlace},
    endpoint::{Endpoint, Issuer},
    fault::{AnswerFault, Blame, Declined, Fault, IdentityFault, Outage, Place, RefreshFault},
    freshness::Freshness,
    leg::{Answer, Leg},
    mapping::{FieldMapping, Headers, Method, Path, TokenMapping, UserInfo},
    provider::{Provider, Revocation},
    registration::{
        AuthMethod, InProcess, Registration, RegistrationKey, Registrations, RegistrationsFuture,
    },
    settings::{Client, Kind, Oauth2, Oidc, Params, Scopes, Settings, SettingsError},
    tokens::{Exposed, Login, Tokens},
};
