//! Subjects of an exchange.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use secrecy::ExposeSecret;
use vmcp_core::{Identity, UpstreamToken};

/// Caller with its subject token (RFC 8693 section 2.1): the caller's own token, or one that an upstream provider
/// issued to the caller. Cheap to clone.
#[derive(Clone)]
pub struct Subject {
    identity: Identity,
    upstream: Option<Arc<UpstreamToken>>,
}

// === impl Subject ===

impl Subject {
    /// Creates a subject with the caller's own token; `None` without one.
    #[must_use]
    pub fn from_identity(identity: &Identity) -> Option<Self> {
        identity.token()?;
        Some(Self { identity: identity.clone(), upstream: None })
    }

    /// Creates a subject with a token of an upstream provider.
    #[must_use]
    pub fn with_upstream(identity: &Identity, token: UpstreamToken) -> Self {
        Self { identity: identity.clone(), upstream: Some(Arc::new(token)) }
    }

    /// Returns the caller.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the token. It is a secret: do not log it or send it to a backend.
    #[must_use]
    pub fn expose_token(&self) -> &str {
        let token = match &self.upstream {
            Some(token) => Some(&token.value),
            None => self.identity.token(),
        };
        // Both constructors require a token.
        token.map_or("", ExposeSecret::expose_secret)
    }

    /// Returns the expiry of the token, which also limits the use of the exchanged one.
    #[must_use]
    pub fn expires_at(&self) -> Option<SystemTime> {
        match &self.upstream {
            Some(token) => token.expires_at,
            None => self.identity.expires_at(),
        }
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject")
            .field("identity", &self.identity)
            .field("upstream", &self.upstream.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caller_without_token_has_no_subject() {
        assert!(Subject::from_identity(&Identity::anonymous()).is_none());
        assert!(Subject::from_identity(&Identity::new("https://idp", "ann")).is_none());
    }
}
