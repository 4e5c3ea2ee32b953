#![doc = include_str!("../README.md")]

mod body;
mod layer;
mod refusal;
mod service;
mod subject;

pub use vmcp_core::{
    BoxError, Caller, Clock, CredentialError, CredentialFault, Identity, UpstreamKind,
};

pub use self::{
    body::ResponseBody,
    layer::AwsStsLayer,
    service::{AwsSts, ResponseFuture},
    subject::Subject,
};
pub use vmcp_aws_credentials::{
    AssumeError, AssumeRole, Assumption, Cached, Credentials, MalformedCredentials, NameError,
    Region, RoleArn, ServiceName, SessionDuration, SessionName, Sts, UnsignableRequest,
};
pub use vmcp_role_mapping::{MappingError, MatcherError, NoRole, RoleMatch, RolesError};

/// Which AWS role whose claims lead to.
pub type Roles = vmcp_role_mapping::Roles<RoleArn>;

/// Whom an AWS role is for.
pub type RoleMapping = vmcp_role_mapping::RoleMapping<RoleArn>;
