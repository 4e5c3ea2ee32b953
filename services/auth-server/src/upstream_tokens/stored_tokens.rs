//! Upstream tokens, decrypted from the store.

use vmcp_auth_store::Timestamp;
use vmcp_upstream::Tokens;

/// Upstream tokens, decrypted from the store.
pub(super) struct StoredTokens {
    pub(super) tokens: Tokens,
    /// Time at which the provider last confirmed the tokens.
    pub(super) written: Timestamp,
}
