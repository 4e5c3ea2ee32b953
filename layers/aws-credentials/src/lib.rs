#![doc = include_str!("../README.md")]

mod assume;
mod credential_cache;
mod names;
mod sign;
mod sts;

pub use self::{
    assume::{AssumeError, AssumeRole, Credentials, InvalidCredentialsError, RoleSession, digest},
    credential_cache::CredentialCache,
    names::{NameError, Region, RoleArn, ServiceName, SessionDuration, SessionName},
    sign::SigningError,
    sts::Sts,
};
