#![doc = include_str!("../README.md")]

mod cached;
mod endpoint;
mod exchange;
mod fault;
mod layer;
mod resend;
mod service;
mod subject;

pub use self::{
    cached::{Cached, CachedFuture},
    endpoint::{OAuthClient, Settings, SettingsError, TokenEndpoint, TokenUrl},
    exchange::{Exchange, Exchanged, IllegalToken},
    fault::{ExchangeFault, Outage},
    layer::TokenExchangeLayer,
    resend::{Once, Resend, Twice},
    service::{ResponseFuture, TokenExchange},
    subject::{Subject, TokenType},
};
