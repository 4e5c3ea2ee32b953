//! Requirements that decide whether stored tokens suffice without a request to the provider.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use secrecy::ExposeSecret;
use vmcp_auth_store::{Digest, Timestamp};
use vmcp_core::UpstreamKind;
use vmcp_upstream::Tokens;

use super::stored_tokens::StoredTokens;

/// Minimum remaining lifetime: a token that expires sooner is refreshed before use.
const REFRESH_MARGIN: Duration = Duration::from_secs(45);

/// Requirement on upstream tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Requirement {
    /// A valid access token.
    Access,
    /// The ID token. Its claims remain useful after the access token has expired.
    Id,
    /// A token other than the one with this digest, which a backend rejected.
    Replacement(UpstreamKind, Digest),
    /// Confirmation that the provider has not rejected the user since this time.
    ConfirmedSince(Timestamp),
    /// The same confirmation, for another session of a rejected user.
    ConfirmedInChain(Timestamp),
}

// === impl Requirement ===

impl Requirement {
    /// Returns `true` if these tokens suffice without a request to the provider.
    pub(crate) fn is_satisfied_by(self, stored: &StoredTokens, now: SystemTime) -> bool {
        let tokens = &stored.tokens;
        match self {
            Self::Access => !is_expiring(tokens, now),
            Self::Id => true,
            Self::Replacement(UpstreamKind::Access, _) => {
                !self.is_rejected_token(stored) && !is_expiring(tokens, now)
            }
            Self::Replacement(UpstreamKind::Id, _) => !self.is_rejected_token(stored),
            Self::ConfirmedSince(since) | Self::ConfirmedInChain(since) => stored.written >= since,
        }
    }

    pub(crate) fn is_replacement(self) -> bool {
        matches!(self, Self::Replacement(..))
    }

    /// Returns `true` if the check of a rejected user's other sessions is already running.
    pub(crate) fn is_chained_check(self) -> bool {
        matches!(self, Self::ConfirmedInChain(_))
    }

    /// Returns `true` if these are the tokens that a backend rejected.
    pub(crate) fn is_rejected_token(self, stored: &StoredTokens) -> bool {
        let Self::Replacement(kind, refused) = self else { return false };
        let own = stored.token(kind);
        own.is_some_and(|own| Digest::of(own.expose_secret()) == refused)
    }

    /// Returns the tokens to use if a refresh is impossible. An unavailable provider does not count as a rejection.
    pub(crate) fn fallback(
        self,
        stored: Arc<StoredTokens>,
        now: SystemTime,
    ) -> Option<Arc<StoredTokens>> {
        let is_good = match self {
            Self::ConfirmedSince(_) | Self::ConfirmedInChain(_) => true,
            Self::Access | Self::Id | Self::Replacement(..) => {
                let lives = stored.tokens.expires_at.is_none_or(|at| at > now);
                lives && !self.is_rejected_token(&stored)
            }
        };
        is_good.then_some(stored)
    }
}

fn is_expiring(tokens: &Tokens, now: SystemTime) -> bool {
    tokens.expires_at.is_some_and(|at| at <= now + REFRESH_MARGIN)
}
