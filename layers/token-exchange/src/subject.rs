//! Whose token is exchanged, and which.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use secrecy::ExposeSecret;
use vmcp_core::{Identity, UpstreamKind, UpstreamToken};

/// A caller and the token that is exchanged (RFC 8693 section 2.1, `subject_token`): the caller's own,
/// or one that an upstream provider gave out for the caller. Cheap to clone.
#[derive(Clone)]
pub struct Subject {
    identity: Identity,
    upstream: Option<Arc<UpstreamToken>>,
}

/// What the token that is exchanged is (RFC 8693 section 3). From its URN or the last part of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TokenType {
    /// An access token.
    #[default]
    AccessToken,
    /// An id token of OpenID Connect.
    IdToken,
    /// A JWT of whatever kind.
    Jwt,
}

/// What every token type's URN begins with.
const URN: &str = "urn:ietf:params:oauth:token-type:";

// === impl Subject ===

impl Subject {
    /// The caller with the token that it came with; `None` if it came without.
    #[must_use]
    pub fn of(identity: &Identity) -> Option<Self> {
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

// === impl TokenType ===

impl TokenType {
    /// Its name on the wire.
    #[must_use]
    pub fn urn(self) -> &'static str {
        match self {
            Self::AccessToken => "urn:ietf:params:oauth:token-type:access_token",
            Self::IdToken => "urn:ietf:params:oauth:token-type:id_token",
            Self::Jwt => "urn:ietf:params:oauth:token-type:jwt",
        }
    }

    /// Which of an upstream provider's tokens is of this type.
    #[must_use]
    pub fn of_upstream(self) -> UpstreamKind {
        match self {
            Self::AccessToken | Self::Jwt => UpstreamKind::Access,
            Self::IdToken => UpstreamKind::Id,
        }
    }
}

impl FromStr for TokenType {
    type Err = crate::SettingsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix(URN).unwrap_or(text) {
            "access_token" => Ok(Self::AccessToken),
            "id_token" => Ok(Self::IdToken),
            "jwt" => Ok(Self::Jwt),
            _ => Err(crate::SettingsError::TokenType),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_types_are_read_in_both_forms() {
        for kind in [TokenType::AccessToken, TokenType::IdToken, TokenType::Jwt] {
            let urn = kind.urn();
            assert_eq!(urn.parse(), Ok(kind));
            assert_eq!(urn.strip_prefix(URN).unwrap().parse(), Ok(kind));
        }
        for text in ["", "refresh_token", "urn:x:access_token", "ACCESS_TOKEN"] {
            assert!(text.parse::<TokenType>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_caller_without_a_token_is_no_subject() {
        assert!(Subject::of(&Identity::anonymous()).is_none());
        assert!(Subject::of(&Identity::new("https://idp", "ann")).is_none());
    }
}
