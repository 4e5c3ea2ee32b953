#![doc = include_str!("../README.md")]

mod bearer;
mod challenge;
mod problem;
mod resource;
mod scope;

pub use self::{
    bearer::{BearerFault, bearer_token},
    challenge::BearerChallenge,
    problem::problem,
    resource::{ProtectedResource, ResourceError, ResourceRules},
    scope::is_scope,
};
