#![doc = include_str!("../README.md")]

pub mod names;

mod client;
mod labels;
mod outcome;
mod series;
mod server;
#[cfg(test)]
mod testing;

pub use self::{
    client::{BackendMetrics, ClientMetrics, ClientSeries, action},
    labels::target,
    outcome::{Fault, Outcome},
    series::{MAX_NAME, MAX_NAMES, MAX_SERIES, Slot},
    server::{ServerMetrics, ServerSeries},
};
