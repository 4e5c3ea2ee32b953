#![doc = include_str!("../README.md")]

mod challenge;
mod resource;
mod scope;

pub use self::{
    challenge::BearerChallenge,
    resource::{ProtectedResource, ResourceError, ResourceRules},
    scope::is_scope,
};
