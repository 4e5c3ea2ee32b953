#![doc = include_str!("../README.md")]

mod body;
mod classify;
mod content_negotiation;
pub mod header_value;
mod layer;
mod service;

pub use vmcp_core::{BoxError, ByteBudget, Generation, McpRequest, Rejection};

pub use self::{
    content_negotiation::{prefers_event_stream, require_event_stream},
    layer::DecodeLayer,
    service::Decode,
};
