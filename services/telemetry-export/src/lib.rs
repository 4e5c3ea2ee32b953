#![doc = include_str!("../README.md")]

mod id_generator;
mod otlp;
mod resource;
mod scrape;
mod settings;
mod spans;
mod telemetry;

pub use self::{
    scrape::Scrape,
    settings::{Endpoint, Headers, Protocol, SamplingRatio, Settings, SettingsError},
    telemetry::{BuildError, Builder, EXPORT_FAILURES, METRICS, ShutdownError, Telemetry},
};
