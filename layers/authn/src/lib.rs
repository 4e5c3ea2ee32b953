#![doc = include_str!("../README.md")]

mod authenticate;
mod bearer;
mod body;
mod cached;
mod challenge;
mod fixed;
mod introspection;
mod jwt;
mod layer;
mod refusal;
mod scopes;
mod service;

#[cfg(test)]
mod testing;

pub use vmcp_core::{Claims, Clock, EndingFuture, Identity, Rate, UpstreamTokens};

pub use self::{
    authenticate::{Authenticate, AuthenticateFuture},
    bearer::{Bearer, ByShape, Inspect},
    body::ResponseBody,
    cached::Cached,
    fixed::{Anonymous, Local},
    jwt::{Jwt, UpstreamSource},
    layer::AuthenticateLayer,
    refusal::Refusal,
    service::{Authenticated, ResponseFuture},
};
pub use vmcp_introspection::{EndpointError, Introspection};
pub use vmcp_protected_resource::{ProtectedResource, ResourceError, ResourceRules};
