#![doc = include_str!("../README.md")]

mod cached;
mod exchange;
mod layer;
mod renewal;
mod service;
mod subject;

pub use self::{
    cached::{Cached, CachedFuture},
    exchange::{Exchange, Exchanged},
    layer::TokenExchangeLayer,
    service::{ResponseFuture, TokenExchange},
    subject::Subject,
};
pub use vmcp_core::{
    BoxError, Clock, CredentialError, CredentialFault, Identity, Once, Resend, Twice, UpstreamKind,
    UpstreamToken,
};
pub use vmcp_token_endpoint::{
    ExchangeFault, IllegalToken, OAuthClient, Outage, Settings, SettingsError, TokenEndpoint,
    TokenType, TokenUrl,
};
