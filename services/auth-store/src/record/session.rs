//! Sessions: one login, and its tokens of upstream providers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    Ciphertext, ClientId, GrantId, ProviderIssuer, ProviderName, SessionId, Timestamp, UserId,
};

/// Whose session it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionHead {
    /// Its name.
    pub id: SessionId,
    /// Who logged in.
    pub user: UserId,
    /// For whom.
    pub client: ClientId,
}

/// A login with its tokens of upstream providers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Whose it is.
    pub head: SessionHead,
    /// What the client was granted, once it redeemed its code.
    pub grant: Option<GrantId>,
    /// When its first row came.
    pub created: Timestamp,
    /// When it ends, with all of its rows.
    pub expires: Timestamp,
    /// The rows.
    pub rows: BTreeMap<ProviderName, UpstreamTokenRecord>,
}

/// Tokens of one upstream provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamTokenRecord {
    /// Which writing this is. The store counts, within a session; whatever is handed in is replaced.
    pub version: u64,
    /// Whose tokens they are: no other issuer may get them, whatever its name.
    pub issuer: ProviderIssuer,
    /// The tokens.
    pub sealed: Ciphertext,
    /// When the access token ends; `None` where the provider doesn't say.
    pub expires: Option<Timestamp>,
    /// What the provider granted.
    pub scopes: Vec<String>,
    /// When it was written.
    pub written: Timestamp,
}

/// The answer to who wants to refresh a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamTokenLock {
    /// The lock is the asker's. The row as it is now: somebody may have refreshed it meanwhile.
    Acquired(Option<UpstreamTokenRecord>),
    /// Somebody else's.
    Held,
}
