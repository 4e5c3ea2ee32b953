//! Which tokens will do, without the provider being asked.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use secrecy::{ExposeSecret, SecretString};
use vmcp_auth_store::{Digest, Timestamp};
use vmcp_core::UpstreamKind;
use vmcp_upstream::Tokens;

use super::Stored;

/// A token that expires sooner than this is refreshed before it is used.
const MARGIN: Duration = Duration::from_secs(45);

/// What tokens are wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Want {
    /// The access token, for a while.
    Access,
    /// The id token. It is good for what it says even when the access token is over.
    Id,
    /// Another one than that of this digest, which somebody did not take.
    Other(UpstreamKind, Digest),
    /// To know that the provider has not refused the person since then.
    Checked(Timestamp),
    /// The same, for another session of a person who was refused.
    CheckedToo(Timestamp),
}

// === impl Want ===

impl Want {
    /// Whether these will do, without the provider being asked.
    pub(super) fn is_met(self, stored: &Stored, now: SystemTime) -> bool {
        let tokens = &stored.tokens;
        match self {
            Self::Access => !is_due(tokens, now),
            Self::Id => true,
            Self::Other(UpstreamKind::Access, _) => {
                !self.is_refused(stored) && !is_due(tokens, now)
            }
            Self::Other(UpstreamKind::Id, _) => !self.is_refused(stored),
            Self::Checked(since) | Self::CheckedToo(since) => stored.written >= since,
        }
    }

    pub(super) fn is_another(self) -> bool {
        matches!(self, Self::Other(..))
    }

    /// Whether a refusal is looked for in the person's other sessions already.
    pub(super) fn is_of_others(self) -> bool {
        matches!(self, Self::CheckedToo(_))
    }

    /// Whether it is these that somebody did not take.
    pub(super) fn is_refused(self, stored: &Stored) -> bool {
        let Self::Other(kind, refused) = self else { return false };
        let own = token(&stored.tokens, kind);
        own.is_some_and(|own| Digest::of(own.expose_secret()) == refused)
    }

    /// What is used as long as nothing fresher can be had. A provider that cannot be asked has refused nobody.
    pub(super) fn fallback(self, stored: Arc<Stored>, now: SystemTime) -> Option<Arc<Stored>> {
        let is_good = match self {
            Self::Checked(_) | Self::CheckedToo(_) => true,
            Self::Access | Self::Id | Self::Other(..) => {
                let lives = stored.tokens.expires_at.is_none_or(|at| at > now);
                lives && !self.is_refused(&stored)
            }
        };
        is_good.then_some(stored)
    }
}

fn is_due(tokens: &Tokens, now: SystemTime) -> bool {
    tokens.expires_at.is_some_and(|at| at <= now + MARGIN)
}

pub(super) fn token(tokens: &Tokens, kind: UpstreamKind) -> Option<&SecretString> {
    match kind {
        UpstreamKind::Access => Some(&tokens.access),
        UpstreamKind::Id => tokens.id.as_ref(),
    }
}
