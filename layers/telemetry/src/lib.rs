#![doc = include_str!("../README.md")]

mod attributes;
mod body;
mod client;
pub mod metrics;
mod recorder;
mod request_observer;
mod response_error;
mod server;
#[cfg(test)]
mod testing;
pub mod trace_context;
mod trace_link;
pub mod workflow;

pub use vmcp_core::{Backend, BoxError, RequestContext};

pub use self::trace_link::{later_context, trace_context_of};

pub use self::{
    attributes::Route,
    body::ResponseBody,
    client::{ClientResponseFuture, ClientTelemetry, ClientTelemetryLayer, ErrorClassifier},
    recorder::{EndedSpan, Recorder, SpanRecorder, TelemetryOptions},
    server::{ServerResponseFuture, ServerTelemetry, ServerTelemetryLayer},
};
