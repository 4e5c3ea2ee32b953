#![doc = include_str!("../README.md")]

mod authorization_state;
mod client;
mod discovery;
mod endpoint;
mod error;
mod form;
mod id_token;
mod mapping;
mod provider;
mod provider_http;
mod reauth_params;
mod registrar;
mod registration;
mod settings;
mod token_response;
mod tokens;
mod user;

#[cfg(test)]
mod testing;

pub use self::{
    authorization_state::{AuthorizationResponse, AuthorizationState},
    client::{DynamicClient, RegistrationSource, StaticClient},
    endpoint::{Endpoint, Issuer},
    error::{
        AuthorizationDenied, AuthorizationResponseError, EndpointError, EndpointKind, FaultParty,
        IdentityError, ProviderError, RefreshError,
    },
    mapping::{FieldMapping, Headers, Method, Path, TokenMapping, UserInfo},
    provider::{Provider, RevocationOutcome},
    reauth_params::ReauthParams,
    registration::{
        AuthMethod, MemoryRegistrations, Registration, RegistrationKey, Registrations,
        RegistrationsFuture,
    },
    settings::{Client, Kind, Oauth2, Oidc, Params, Scopes, Settings, SettingsError},
    tokens::{Login, Plaintext, Tokens},
};
