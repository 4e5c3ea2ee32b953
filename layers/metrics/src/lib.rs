#![doc = include_str!("../README.md")]

pub mod names;

mod client;
mod http;
mod labels;
mod outcome;
mod series;
mod server;
#[cfg(test)]
mod testing;

pub use self::{
    client::{BackendMetrics, ClientMetrics, ClientSeries, legacy_action},
    http::HttpMetrics,
    labels::{NAME_ATTRIBUTES, target_attributes},
    outcome::{ErrorType, Outcome},
    series::{BoundInstruments, MAX_NAME_LEN, MAX_NAMES, MAX_SERIES},
    server::{ServerMetrics, ServerSeries},
};
