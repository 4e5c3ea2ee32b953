#![doc = include_str!("../README.md")]

mod filter;
mod gate;
mod hints;
mod layer;
mod policy;
mod service;

pub use vmcp_core::{Admission, BoxError, Hints, Identity, Item, ItemKind, Rejection, Verdict};

pub use self::{
    layer::AuthorizeLayer,
    policy::{Admitting, Policy, Purpose},
    service::{Authorize, ResponseFuture},
};
