//! Client of a token endpoint (RFC 6749, RFC 8693).

mod bearer;
mod endpoint;
mod error;
mod form;
mod response;
mod settings;
mod token_type;

pub use self::{
    bearer::{BearerToken, InvalidTokenError},
    endpoint::TokenEndpoint,
    error::{EndpointError, ExchangeError},
    form::Grant,
    settings::{EndpointSettings, EndpointSettingsError, OAuthClient, TokenUrl},
    token_type::TokenType,
};
