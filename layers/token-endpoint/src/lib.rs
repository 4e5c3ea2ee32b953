#![doc = include_str!("../README.md")]

mod answer;
mod bearer;
mod endpoint;
mod fault;
mod form;
mod kind;
mod settings;

pub use self::{
    bearer::{Bearer, IllegalToken},
    endpoint::TokenEndpoint,
    fault::{ExchangeFault, Outage},
    form::Grant,
    kind::TokenType,
    settings::{OAuthClient, Settings, SettingsError, TokenUrl},
};
