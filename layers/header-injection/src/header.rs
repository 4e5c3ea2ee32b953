//! Names of headers that may carry a credential.

use std::str::FromStr;

use http::HeaderName;
use http::header::AUTHORIZATION;

/// Name of a header that may carry a credential. `Authorization` by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialHeader(HeaderName);

/// The error of a name that cannot carry a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The name is not a token (RFC 9110 section 5.6.2).
    #[error("a header name consists of letters, digits and !#$%&'*+-.^_`|~")]
    Illegal,
    /// The header is used by the transport.
    #[error("the header {name} is reserved for the transport: choose another one")]
    Reserved {
        /// The name.
        name: HeaderName,
    },
}

/// Headers that frame and route a message or state its origin. Sorted.
const RESERVED: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "last-event-id",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];

/// Prefix of MCP's own headers: session, version, method, name, parameters.
const PROTOCOL: &str = "mcp-";

impl CredentialHeader {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &HeaderName {
        &self.0
    }
}

impl Default for CredentialHeader {
    fn default() -> Self {
        Self(AUTHORIZATION)
    }
}

impl TryFrom<HeaderName> for CredentialHeader {
    type Error = HeaderError;

    fn try_from(name: HeaderName) -> Result<Self, HeaderError> {
        let reserved = RESERVED.binary_search(&name.as_str()).is_ok();
        if reserved || name.as_str().starts_with(PROTOCOL) {
            return Err(HeaderError::Reserved { name });
        }
        Ok(Self(name))
    }
}

impl FromStr for CredentialHeader {
    type Err = HeaderError;

    fn from_str(name: &str) -> Result<Self, HeaderError> {
        HeaderName::from_str(name).map_err(|_| HeaderError::Illegal)?.try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_are_sorted() {
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn rejects_reserved_names_in_any_case() {
        for name in
            ["Host", "Content-Length", "X-Forwarded-For", "Mcp-Session-Id", "MCP-Protocol-Version"]
        {
            let error = name.parse::<CredentialHeader>().unwrap_err();
            assert!(error.to_string().contains(&name.to_ascii_lowercase()), "{error}");
        }
    }

    #[test]
    fn rejects_names_that_are_not_tokens() {
        for name in ["", "x key", "x\r\ny", "x:y", "schlüssel", "x\0"] {
            assert_eq!(name.parse::<CredentialHeader>(), Err(HeaderError::Illegal), "{name:?}");
        }
    }

    #[test]
    fn accepts_usual_credential_headers() {
        for name in ["Authorization", "X-Api-Key", "Cookie", "PRIVATE-TOKEN"] {
            assert!(name.parse::<CredentialHeader>().is_ok(), "{name}");
        }
    }
}
