#![doc = include_str!("../README.md")]

mod assume;
mod body;
mod cached;
mod layer;
mod names;
mod refusal;
mod roles;
mod service;
mod sign;
mod sts;
mod subject;

pub use self::{
    assume::{AssumeError, AssumeRole, Assumption, Credentials, MalformedCredentials},
    body::ResponseBody,
    cached::Cached,
    layer::AwsStsLayer,
    names::{NameError, Region, RoleArn, ServiceName, SessionDuration, SessionName},
    roles::{MappingError, MatcherError, NoRole, RoleMapping, RoleMatch, Roles, RolesError},
    service::{AwsSts, ResponseFuture},
    sign::UnsignableRequest,
    sts::Sts,
    subject::Subject,
};
