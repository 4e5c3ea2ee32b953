//! Temporary credentials of AWS roles: requested from STS, cached, and used to sign requests.

mod assume;
mod credential_cache;
mod names;
mod sign;
mod sts;

pub(crate) use self::assume::digest;
pub use self::{
    assume::{AssumeError, AssumeRole, Credentials, InvalidCredentialsError, RoleSession},
    credential_cache::CredentialCache,
    names::{NameError, Region, RoleArn, ServiceName, SessionDuration, SessionName},
    sign::SigningError,
    sts::Sts,
};
