#![doc = include_str!("../README.md")]

mod body;
mod layer;
mod rejection;
mod service;
mod subject;

pub use vmcp_core::{
    BoxError, Caller, Clock, CredentialError, CredentialErrorKind, Identity, UpstreamKind,
};

pub use self::{
    body::ResponseBody,
    layer::AwsStsLayer,
    service::{AwsSts, ResponseFuture},
    subject::Subject,
};
pub use vmcp_aws_credentials::{
    AssumeError, AssumeRole, CredentialCache, Credentials, InvalidCredentialsError, NameError,
    Region, RoleArn, RoleSession, ServiceName, SessionDuration, SessionName, SigningError, Sts,
};
pub use vmcp_role_mapping::{MappingError, MatcherError, RoleError, RoleMappingsError, RoleMatch};

/// Mappings from claims to AWS roles.
pub type RoleMappings = vmcp_role_mapping::RoleMappings<RoleArn>;

/// Mapping of matching callers to one AWS role.
pub type RoleMapping = vmcp_role_mapping::RoleMapping<RoleArn>;
