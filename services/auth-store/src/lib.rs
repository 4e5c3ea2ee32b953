#![doc = include_str!("../README.md")]

#[cfg(any(test, feature = "contract"))]
#[macro_use]
pub mod contract;
mod id;
mod limits;
mod memory;
mod record;
mod sealed;
mod store;
mod time;
mod vault;

pub use id::{
    Challenge, ClientId, Digest, GrantId, InvalidId, LockOwner, ProviderIssuer, ProviderName,
    SessionId, SubjectName, UserId,
};
pub use limits::Limits;
pub use memory::Memory;
pub use record::client::{ApplicationType, Client, ClientAuth};
pub use record::code::{CodeAnswer, Seed, Started, Taken};
pub use record::grant::{Grant, GrantAnswer, Presented, Previous, Refresh, Rotation};
pub use record::login::{Aim, Fresh, Login, Request, Stage};
pub use record::session::{Row, RowLock, Session, SessionHead};
pub use record::user::{Browser, Consent, Profile, Subject, User};
pub use sealed::Sealed;
pub use store::{Answer, Counts, Revocation, Store, StoreError};
pub use time::Timestamp;
pub use vault::{Label, Vault, VaultError};
