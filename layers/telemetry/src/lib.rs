#![doc = include_str!("../README.md")]

mod attributes;
mod body;
mod incoming;
mod outgoing;
mod recorder;
mod request_observer;
mod response_error;
#[cfg(test)]
mod testing;
mod trace_link;

pub use vmcp_core::BoxError;

pub use self::{
    attributes::Route,
    body::ResponseBody,
    incoming::{ServerResponseFuture, ServerTelemetry, ServerTelemetryLayer},
    outgoing::{ClientResponseFuture, ClientTelemetry, ClientTelemetryLayer, ErrorClassifier},
    recorder::{EndedSpan, Recorder, SpanRecorder, TelemetryOptions},
};
