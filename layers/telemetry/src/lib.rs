#![doc = include_str!("../README.md")]

pub mod names;

mod answer;
mod attributes;
mod body;
mod client_side;
mod context;
mod ids;
mod incoming;
mod operation;
#[cfg(feature = "otlp")]
mod otlp;
mod outgoing;
mod propagate;
mod resource;
#[cfg(feature = "prometheus")]
mod scrape;
mod series;
mod server_side;
mod settings;
mod telemetry;
#[cfg(test)]
mod testing;
mod trace;

#[cfg(feature = "prometheus")]
pub use self::scrape::Scrape;
pub use self::{
    body::ResponseBody,
    context::TraceContext,
    incoming::{Incoming, IncomingFuture, IncomingLayer},
    operation::Operation,
    outgoing::{Classify, Outgoing, OutgoingFuture, OutgoingLayer},
    propagate::{HeaderOnly, InMessage, Propagate},
    series::{MAX_NAME, MAX_NAMES},
    settings::{Endpoint, Headers, Protocol, SamplingRatio, Settings, SettingsError},
    telemetry::{BuildError, Builder, ShutdownError, Telemetry},
    trace::Trace,
};
