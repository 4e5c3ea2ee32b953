#![doc = include_str!("../README.md")]

#[cfg(any(test, feature = "contract"))]
#[macro_use]
pub mod contract;
mod ciphertext;
mod encryption;
mod id;
mod limits;
mod memory;
mod record;
mod store;
mod timestamp;

pub use ciphertext::Ciphertext;
pub use encryption::{EncryptionContext, EncryptionError, EncryptionKeyRing};
pub use id::{
    ClientId, CodeChallenge, Digest, GrantId, InvalidIdError, LockOwner, ProviderIssuer,
    ProviderName, SessionId, SubjectName, UserId,
};
pub use limits::Limits;
pub use memory::MemoryStore;
pub use record::client::{ApplicationType, Client, ClientAuth};
pub use record::code::{AuthorizationCodeData, CodeRedemption, GrantInsertOutcome, RedeemOutcome};
pub use record::grant::{
    Grant, GrantLookup, PresentedRefreshToken, PreviousRefreshToken, RefreshTokens, RotationOutcome,
};
pub use record::login::{AuthorizationRequest, Login, LoginPurpose, ReauthOptions, Stage};
pub use record::session::{Session, SessionHead, UpstreamTokenLock, UpstreamTokenRecord};
pub use record::user::{Browser, Consent, Profile, Subject, User};
pub use store::{Counts, Revocation, Store, StoreError, StoreFuture};
pub use timestamp::Timestamp;
