#![doc = include_str!("../README.md")]

mod backend;
mod body;
mod error;
mod identity;
mod mcp;
mod rejection;

pub use self::{
    backend::Backend,
    body::Body,
    error::{BoxError, cause},
    identity::{Caller, Identity},
    mcp::{Generation, LATEST_STATEFUL, McpRequest, STATEFUL, STATELESS, code},
    rejection::Rejection,
};
