//! Whose token is exchanged, and which.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use secrecy::ExposeSecret;
use vmcp_core::{Identity, UpstreamToken};

/// A caller and the token that is exchanged (RFC 8693 section 2.1, `subject_token`): the caller's own,
/// or one that an upstream provider gave out for the caller. Cheap to clone.
#[derive(Clone)]
pub struct Subject {
    identity: Identity,
    upstream: Option<Arc<UpstreamToken>>,
}

// === impl Subject ===

impl Subject {
    /// The caller with the token that it came with; `None` if it came without.
    #[must_use]
    pub fn from_identity(identity: &Identity) -> Option<Self> {
        identity.token()?;
        Some(Self { identity: identity.clone(), upstream: None })
    }

    /// The caller with a token of an upstream provider.
    #[must_use]
    pub fn with_upstream(identity: &Identity, token: UpstreamToken) -> Self {
        Self { identity: identity.clone(), upstream: Some(Arc::new(token)) }
    }

    /// The caller.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The token. It is a secret: not for logs, and not for a backend as it is.
    #[must_use]
    pub fn expose_token(&self) -> &str {
        let token = match &self.upstream {
            Some(token) => Some(&token.value),
            None => self.identity.token(),
        };
        // There is one, or there would be no subject.
        token.map_or("", ExposeSecret::expose_secret)
    }

    /// When that token stops being valid. What it is exchanged for is not used longer.
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
