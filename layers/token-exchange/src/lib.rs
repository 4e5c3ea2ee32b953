#![doc = include_str!("../README.md")]

mod exchange;
mod layer;
mod service;
mod subject;
mod subject_token_source;
mod token_cache;

pub use self::{
    exchange::{AccessToken, Exchange},
    layer::TokenExchangeLayer,
    service::{ResponseFuture, TokenExchange},
    subject::Subject,
    token_cache::{CachedExchange, CachedExchangeFuture},
};
pub use vmcp_core::{
    BoxError, Clock, CredentialError, CredentialErrorKind, Identity, NoRetry, RetryOnUnauthorized,
    RetryPolicy, UpstreamKind, UpstreamToken,
};
pub use vmcp_oauth_client::token_endpoint::{
    EndpointError, EndpointSettings, EndpointSettingsError, ExchangeError, InvalidTokenError,
    OAuthClient, TokenEndpoint, TokenType, TokenUrl,
};
