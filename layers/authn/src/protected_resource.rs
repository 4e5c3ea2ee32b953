//! Protected resource metadata (RFC 9728) and Bearer challenges (RFC 6750).

mod bearer;
mod challenge;
mod error_response;
mod resource;
mod scope;

pub use self::{
    bearer::{BearerError, bearer_token},
    challenge::BearerChallenge,
    error_response::error_response,
    resource::{ProtectedResource, ResourceError, ResourceOptions},
    scope::is_scope,
};
