//! Grants: a family of refresh tokens, one of which is current.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Client, ClientId, Digest, GrantId, Profile, Revocation, SessionId, Timestamp, UserId};

/// Grant to a client. One record for all refreshes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Identifier of the grant.
    pub id: GrantId,
    /// Client that received the grant.
    pub client: ClientId,
    /// User who granted it.
    pub user: UserId,
    /// Profile of the user.
    pub profile: Profile,
    /// Session of the login.
    pub session: SessionId,
    /// Granted scopes.
    pub scopes: Vec<String>,
    /// Audience of access tokens.
    pub audience: Vec<String>,
    /// Time at which the user was authenticated.
    pub authenticated: Timestamp,
    /// Lifespan of access tokens. The session lasts as long as the last of them.
    #[serde(with = "millis")]
    pub access_lifespan: Duration,
    /// Absolute end. Without refresh tokens: the end of the access token.
    pub ends: Timestamp,
    /// Refresh tokens; `None` if the client gets none.
    pub refresh: Option<RefreshTokens>,
}

/// Refresh tokens of a grant: the current one and its predecessor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshTokens {
    /// Time after which an unused token expires.
    #[serde(with = "millis")]
    pub idle: Duration,
    /// Expiry of the current token unless it is used; at most the end of the grant.
    pub idle_end: Timestamp,
    /// Number of predecessors of the current token.
    pub generation: u32,
    /// Digest of the current token.
    pub current: Digest,
    /// Predecessor of the current token.
    pub previous: Option<PreviousRefreshToken>,
}

/// Refresh token in a request, signed by this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresentedRefreshToken {
    /// Digest of the token.
    pub digest: Digest,
    /// Number of its predecessors.
    pub generation: u32,
}

/// Refresh token that has a successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousRefreshToken {
    /// Digest of the token.
    pub digest: Digest,
    /// Time of its rotation.
    pub rotated: Timestamp,
}

/// Result of looking up a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantLookup {
    /// Grant, of any client; `None` if it ended or was revoked.
    pub grant: Option<Grant>,
    /// Client that presents it, if it is registered.
    pub client: Option<Client>,
}

/// Outcome of presenting a refresh token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RotationOutcome {
    /// The token was current and is now replaced by its successor. A token of a later generation
    /// than the current one is accepted as well: this server signed it, so the record is stale, as
    /// after a failover to a replica of the store that lagged behind.
    Rotated(Box<Grant>),
    /// The token was rotated within the grace period and its successor is unused: the same response
    /// can be sent again.
    Repeated(Box<Grant>),
    /// The token was rotated before. The grant and its session are now revoked (RFC 9700 section
    /// 4.14.2).
    Replayed(Revocation),
    /// The grant does not exist, has ended, or has no refresh tokens.
    NotFound,
}

/// Serializes a duration as a number of milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}
