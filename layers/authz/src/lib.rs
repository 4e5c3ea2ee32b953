#![doc = include_str!("../README.md")]

mod annotations;
mod filter;
mod gate;
mod layer;
mod policy;
mod service;

pub use vmcp_core::{
    BoxError, CallerPermissions, Decision, Identity, Item, ItemKind, Rejection, ToolAnnotations,
};

pub use self::{
    layer::AuthorizationLayer,
    policy::{Action, PermissionsFuture, Policy},
    service::{Authorization, ResponseFuture},
};
