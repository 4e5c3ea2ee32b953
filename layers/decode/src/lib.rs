#![doc = include_str!("../README.md")]

mod classify;
mod layer;
mod media;
pub mod name;
mod read;
mod service;

pub use vmcp_core::{BoxError, ByteBudget, Generation, McpRequest, Rejection};

pub use self::{
    layer::DecodeLayer,
    media::{accepts_events, prefers_events},
    service::Decode,
};
