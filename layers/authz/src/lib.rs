#![doc = include_str!("../README.md")]

mod annotations;
mod filter;
mod gate;
mod layer;
mod policy;
mod service;

pub use vmcp_core::{Admission, BoxError, Hints, Identity, Item, ItemKind, Rejection, Verdict};

pub use self::{
    layer::AuthorizationLayer,
    policy::{Action, PermissionsFuture, Policy},
    service::{Authorization, ResponseFuture},
};
