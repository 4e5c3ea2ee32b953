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
    client::{BackendMetrics, ClientMetrics, ClientSeries, action},
    http::HttpMetrics,
    labels::{NAME_ATTRIBUTES, target},
    outcome::{Fault, Outcome},
    series::{MAX_NAME, MAX_NAMES, MAX_SERIES, Slot},
    server::{ServerMetrics, ServerSeries},
};
