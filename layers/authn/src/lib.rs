#![doc = include_str!("../README.md")]

mod authenticator;
mod bearer;
mod body;
mod challenge;
mod error;
mod introspection;
mod jwt;
mod layer;
mod protected_resource;
mod scopes;
mod service;
mod static_identity;
mod token_cache;

#[cfg(test)]
mod testing;

pub use vmcp_core::{Claims, Clock, Identity, Rate, RevocationFuture, UpstreamTokens};

pub use self::{
    authenticator::{AuthenticationFuture, Authenticator},
    bearer::{BearerAuthenticator, JwtOrOpaque, TokenVerifier},
    body::ResponseBody,
    error::AuthError,
    jwt::{JwtVerifier, UpstreamTokenSource},
    layer::AuthenticationLayer,
    protected_resource::{
        BearerChallenge, BearerError, ProtectedResource, ResourceError, ResourceOptions,
        bearer_token, error_response, is_scope,
    },
    service::{Authentication, ResponseFuture},
    static_identity::{AnonymousAuthenticator, LocalAuthenticator},
    token_cache::CachedVerifier,
};
pub use vmcp_oauth_client::introspection::{EndpointUrlError, IntrospectionClient};
