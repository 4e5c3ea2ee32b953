//! Upstream tokens, decrypted from the store.

use secrecy::SecretString;
use vmcp_auth_store::Timestamp;
use vmcp_core::UpstreamKind;
use vmcp_upstream::Tokens;

/// Upstream tokens, decrypted from the store.
pub(crate) struct StoredTokens {
    pub(crate) tokens: Tokens,
    /// Time at which the provider last confirmed the tokens.
    pub(crate) written: Timestamp,
}

impl StoredTokens {
    pub(crate) fn token(&self, kind: UpstreamKind) -> Option<&SecretString> {
        match kind {
            UpstreamKind::Access => Some(&self.tokens.access),
            UpstreamKind::Id => self.tokens.id.as_ref(),
        }
    }
}
