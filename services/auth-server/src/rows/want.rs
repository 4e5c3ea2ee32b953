//! Requirements that decide whether stored tokens suffice without a request to the provider.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use secrecy::{ExposeSecret, SecretString};
use vmcp_auth_store::{Digest, Timestamp};
use vmcp_core::UpstreamKind;
use vmcp_upstream::Tokens;

use super::Stored;

/// Minimum remaining lifetime: a token that expires sooner is refreshed before use.
const MARGIN: Duration = Duration::from_secs(45);

/// Requirement on upstream tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Want {
    /// A valid access token.
    Access,
    /// The ID token. Its claims remain useful after the access token has expired.
    Id,
    /// A token other than the one with this digest, which a backend rejected.
    Other(UpstreamKind, Digest),
    /// Confirmation that the provider has not rejected the user since this time.
    Checked(Timestamp),
    /// The same confirmation, for another session of a rejected user.
    CheckedToo(Timestamp),
}

// === impl Want ===

impl Want {
    /// Returns `true` if these tokens suffice without a request to the provider.
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

    /// Returns `true` if the check of a rejected user's other sessions is already running.
    pub(super) fn is_of_others(self) -> bool {
        matches!(self, Self::CheckedToo(_))
    }

    /// Returns `true` if these are the tokens that a backend rejected.
    pub(super) fn is_refused(self, stored: &Stored) -> bool {
        let Self::Other(kind, refused) = self else { return false };
        let own = token(&stored.tokens, kind);
        own.is_some_and(|own| Digest::of(own.expose_secret()) == refused)
    }

    /// Returns the tokens to use if a refresh is impossible. An unavailable provider does not count as a rejection.
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
