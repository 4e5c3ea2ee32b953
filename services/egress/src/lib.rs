#![doc = include_str!("../README.md")]

mod address;
mod client;
mod client_settings;
mod collect;
mod connect;
mod egress;
mod error;
mod exchange;
mod fetch;
mod http2;
mod incoming;
mod json_completeness;
mod origin;
mod pool;
mod read_phase;
mod reaper;
mod redirect;
mod settings;
mod shared;
mod stream;
mod tls;

pub use self::{
    address::AddressPolicy,
    client::{Client, ResponseFuture},
    client_settings::{ClientSettings, Versions},
    collect::collect,
    egress::{Egress, Gauges},
    error::{ConfigError, ConnectCause, Error},
    fetch::{FetchAddresses, FetchError, FetchFuture, FetchPolicy, Fetcher},
    incoming::Incoming,
    origin::Origin,
    redirect::{Redirect, RedirectFuture, RedirectLayer},
    settings::Settings,
};
