#![doc = include_str!("../README.md")]

mod address;
mod begun;
mod client;
mod collect;
mod connect;
mod egress;
mod error;
mod exchange;
mod fetch;
mod incoming;
mod json_end;
mod multiplex;
mod origin;
mod pool;
mod reaper;
mod redirect;
mod settings;
mod stream;
mod taking;
mod tls;

pub use self::{
    address::AddressPolicy,
    client::{Client, ResponseFuture},
    collect::collect,
    egress::{Egress, Gauges, Target, Versions},
    error::{ConfigError, ConnectCause, Error},
    fetch::{FetchAddresses, FetchError, FetchFuture, FetchPolicy, Fetcher},
    incoming::Incoming,
    origin::Origin,
    redirect::{Redirect, RedirectFuture, RedirectLayer},
    settings::Settings,
};
