#![doc = include_str!("../README.md")]

#[cfg(feature = "cedar")]
mod cedar;
mod digest;
mod filter;
mod gate;
mod hints;
mod layer;
mod policy;
mod service;

#[cfg(feature = "cedar")]
pub use self::cedar::{Cedar, Deciding, Explanation, Fault, PolicyFaults};
pub use self::{
    layer::AuthorizeLayer,
    policy::{Admitting, Policy, Purpose},
    service::{Authorize, ResponseFuture},
};
