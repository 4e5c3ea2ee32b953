//! What a code gave: a family of refresh tokens, of which one is current.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Client, ClientId, Digest, GrantId, Profile, Revocation, SessionId, Timestamp, UserId};

/// What a client was granted. One record, however often it is refreshed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its name.
    pub id: GrantId,
    /// To whom.
    pub client: ClientId,
    /// By whom.
    pub user: UserId,
    /// What is known of them.
    pub profile: Profile,
    /// The session behind it.
    pub session: SessionId,
    /// What was granted.
    pub scopes: Vec<String>,
    /// Whom access tokens are for.
    pub audience: Vec<String>,
    /// When the person was authenticated.
    pub authenticated: Timestamp,
    /// How long its access tokens are good for: the session lasts for as long as the last of them.
    #[serde(with = "millis")]
    pub access_lifespan: Duration,
    /// When it ends, whatever is done. Without refresh tokens: when the access token does.
    pub ends: Timestamp,
    /// Its refresh tokens; `None` when the client gets none.
    pub refresh: Option<RefreshTokens>,
}

/// The refresh tokens of a grant: the current one and the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshTokens {
    /// How long the current token may lie unused.
    #[serde(with = "millis")]
    pub idle: Duration,
    /// When the current token ends unless it is used; never later than the grant.
    pub idle_end: Timestamp,
    /// How many came before the current one.
    pub generation: u32,
    /// The current one's digest.
    pub current: Digest,
    /// The one before.
    pub previous: Option<PreviousRefreshToken>,
}

/// A refresh token that somebody presents, and that this server signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresentedRefreshToken {
    /// Its digest.
    pub digest: Digest,
    /// How many came before it.
    pub generation: u32,
}

/// A refresh token that has a successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousRefreshToken {
    /// Its digest.
    pub digest: Digest,
    /// When the successor took its place.
    pub rotated: Timestamp,
}

/// The answer to who looks for a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantLookup {
    /// The grant, whoever it was given to; `None` when it ended or was revoked.
    pub grant: Option<Grant>,
    /// The client that asks, if it is registered.
    pub client: Option<Client>,
}

/// What becomes of a refresh token that is presented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RotationOutcome {
    /// It was current; now its successor is. So is one of a later generation than the current one:
    /// this server signed it, so what the store remembers is older, as it is where a replica of the
    /// store took over before it had heard of everything.
    Rotated(Box<Grant>),
    /// It was rotated a moment ago and its successor is unused: the same answer can be given again.
    Repeated(Box<Grant>),
    /// It was rotated before. The grant is revoked, and its session (RFC 9700 section 4.14.2).
    Replayed(Revocation),
    /// There is no such grant, it ended, or it has no refresh tokens.
    NotFound,
}

/// A duration as a number of milliseconds.
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
