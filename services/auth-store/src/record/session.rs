//! Sessions: one login with its upstream tokens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    Ciphertext, ClientId, GrantId, ProviderIssuer, ProviderName, SessionId, Timestamp, UserId,
};

/// Owner of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionHead {
    /// Session identifier.
    pub id: SessionId,
    /// User who logged in.
    pub user: UserId,
    /// Client that requested the login.
    pub client: ClientId,
}

/// Login with its upstream tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Owner of the session.
    pub head: SessionHead,
    /// Grant, once the client has redeemed its code.
    pub grant: Option<GrantId>,
    /// Time at which the first upstream token was stored.
    pub created: Timestamp,
    /// End of the session and all of its tokens.
    pub expires: Timestamp,
    /// Upstream tokens by provider.
    pub rows: BTreeMap<ProviderName, UpstreamTokenRecord>,
}

/// Encrypted tokens of one upstream provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamTokenRecord {
    /// Version, which the store counts within a session and replaces on each write.
    pub version: u64,
    /// Issuer of the tokens: they must not be sent to any other issuer, whatever its name.
    pub issuer: ProviderIssuer,
    /// Encrypted tokens.
    pub sealed: Ciphertext,
    /// Expiry of the access token; `None` if the provider does not report one.
    pub expires: Option<Timestamp>,
    /// Scopes that the provider granted.
    pub scopes: Vec<String>,
    /// Time of the last write.
    pub written: Timestamp,
}

/// Result of locking the tokens of a provider for a refresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamTokenLock {
    /// The caller holds the lock. Contains the current tokens, which another replica may have
    /// refreshed meanwhile.
    Acquired(Option<UpstreamTokenRecord>),
    /// Another owner holds the lock.
    Held,
}
