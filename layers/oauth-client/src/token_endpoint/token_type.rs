//! Types of tokens.

use std::str::FromStr;

use vmcp_core::UpstreamKind;

use crate::token_endpoint::EndpointSettingsError;

/// Type of the subject token (RFC 8693 section 3). Parsed from the URN or its last part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TokenType {
    /// An access token.
    #[default]
    AccessToken,
    /// An OpenID Connect id token.
    IdToken,
    /// Any JWT.
    Jwt,
}

/// Prefix of the URNs of token types.
const URN: &str = "urn:ietf:params:oauth:token-type:";

// === impl TokenType ===

impl TokenType {
    /// Returns the URN.
    #[must_use]
    pub fn urn(self) -> &'static str {
        match self {
            Self::AccessToken => "urn:ietf:params:oauth:token-type:access_token",
            Self::IdToken => "urn:ietf:params:oauth:token-type:id_token",
            Self::Jwt => "urn:ietf:params:oauth:token-type:jwt",
        }
    }

    /// Returns the kind of an upstream provider's token of this type.
    #[must_use]
    pub fn upstream_kind(self) -> UpstreamKind {
        match self {
            Self::AccessToken | Self::Jwt => UpstreamKind::Access,
            Self::IdToken => UpstreamKind::Id,
        }
    }
}

impl FromStr for TokenType {
    type Err = EndpointSettingsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix(URN).unwrap_or(text) {
            "access_token" => Ok(Self::AccessToken),
            "id_token" => Ok(Self::IdToken),
            "jwt" => Ok(Self::Jwt),
            _ => Err(EndpointSettingsError::TokenType),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_both_forms_of_token_types() {
        for kind in [TokenType::AccessToken, TokenType::IdToken, TokenType::Jwt] {
            let urn = kind.urn();
            assert_eq!(urn.parse(), Ok(kind));
            assert_eq!(urn.strip_prefix(URN).unwrap().parse(), Ok(kind));
        }
        for text in ["", "refresh_token", "urn:x:access_token", "ACCESS_TOKEN"] {
            assert!(text.parse::<TokenType>().is_err(), "{text}");
        }
    }
}
