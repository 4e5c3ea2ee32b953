#![doc = include_str!("../README.md")]

mod body;
mod credentials;
mod layer;
mod rejection;
pub mod role_mapping;
mod service;
mod subject;

pub use vmcp_core::{
    BoxError, Caller, Claims, Clock, CredentialError, CredentialErrorKind, HttpClient, Identity,
    UpstreamKind,
};

pub use self::{
    body::ResponseBody,
    credentials::{
        AssumeError, AssumeRole, CredentialCache, Credentials, InvalidCredentialsError, NameError,
        Region, RoleArn, RoleSession, ServiceName, SessionDuration, SessionName, SigningError, Sts,
    },
    layer::AwsStsLayer,
    role_mapping::{MappingError, MatcherError, RoleError, RoleMappingsError, RoleMatch},
    service::{AwsSts, ResponseFuture},
    subject::Subject,
};

/// Mappings from claims to AWS roles.
pub type RoleMappings = role_mapping::RoleMappings<RoleArn>;

/// Mapping of matching callers to one AWS role.
pub type RoleMapping = role_mapping::RoleMapping<RoleArn>;
