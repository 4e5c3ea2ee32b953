#![doc = include_str!("../README.md")]

mod assume;
mod cached;
mod names;
mod sign;
mod sts;

pub use self::{
    assume::{AssumeError, AssumeRole, Assumption, Credentials, MalformedCredentials, digest},
    cached::Cached,
    names::{NameError, Region, RoleArn, ServiceName, SessionDuration, SessionName},
    sign::UnsignableRequest,
    sts::Sts,
};
