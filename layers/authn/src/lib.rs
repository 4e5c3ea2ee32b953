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
mod metadata;
mod refusal;
mod scopes;
mod service;

#[cfg(test)]
mod testing;

pub use self::{
    authenticate::{Authenticate, AuthenticateFuture},
    bearer::{Bearer, ByShape, Inspect},
    body::ResponseBody,
    cached::Cached,
    fixed::{Anonymous, Local},
    introspection::{Introspection, IntrospectionError},
    jwt::{Jwt, UpstreamSource},
    layer::AuthenticateLayer,
    metadata::{ProtectedResource, ResourceError, ResourceRules},
    refusal::Refusal,
    service::{Authenticated, ResponseFuture},
};
