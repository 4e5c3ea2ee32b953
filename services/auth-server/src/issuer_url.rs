//! Issuer identifier.

use std::fmt;
use std::sync::Arc;

use url::Url;

/// Issuer identifier (RFC 8414 section 2): https, or http on loopback, without query, fragment, user name or trailing
/// slash. Comparison is by characters.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuerUrl {
    text: Arc<str>,
    url: Url,
}

/// Error of an issuer identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuerUrlError {
    /// The text is not an absolute URL.
    #[error("issuer must be an absolute https URL")]
    NotUrl,
    /// The scheme is neither https nor http on loopback.
    #[error("issuer must use https, or http on localhost, 127.0.0.1 or [::1]")]
    Scheme,
    /// The URL has a query, a fragment or a user name.
    #[error("issuer must not have a query, a fragment or a user name")]
    ForbiddenComponent,
    /// The URL ends with a slash or is not in normal form.
    #[error("issuer must have a lower-case host, no default port and no trailing slash")]
    NotCanonical,
}

impl IssuerUrl {
    /// Parses an issuer identifier.
    ///
    /// # Errors
    /// Returns the first rule that the text breaks.
    pub fn parse(text: &str) -> Result<Self, IssuerUrlError> {
        let url = Url::parse(text).map_err(|_| IssuerUrlError::NotUrl)?;
        let host = url.host_str().ok_or(IssuerUrlError::NotUrl)?;
        let loopback = ["localhost", "127.0.0.1", "[::1]"].contains(&host);
        if url.scheme() != "https" && !(url.scheme() == "http" && loopback) {
            return Err(IssuerUrlError::Scheme);
        }
        let plain = url.username().is_empty() && url.password().is_none();
        if !plain || text.contains(['?', '#', '@']) {
            return Err(IssuerUrlError::ForbiddenComponent);
        }
        let path = if url.path() == "/" { "" } else { url.path() };
        let normal = format!("{}{path}", url.origin().ascii_serialization());
        if path.ends_with('/') || normal != text {
            return Err(IssuerUrlError::NotCanonical);
        }
        Ok(Self { text: text.into(), url })
    }

    /// Returns the identifier as text, unchanged.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the path, which may be empty.
    #[must_use]
    pub fn path(&self) -> &str {
        match self.url.path() {
            "/" => "",
            path => path,
        }
    }

    /// Returns scheme, host and port.
    #[must_use]
    pub fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Returns `true` if the scheme is https.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }
}

impl fmt::Debug for IssuerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuer_is_https_or_http_on_loopback() {
        for good in [
            "https://as.example",
            "https://as.example/tenant",
            "https://as.example:8443",
            "http://localhost:4483",
            "http://127.0.0.1:4483/a/b",
            "http://[::1]:4483",
        ] {
            assert_eq!(
                IssuerUrl::parse(good).map(|url| url.as_str().to_owned()),
                Ok(good.to_owned())
            );
        }
        for (bad, error) in [
            ("", IssuerUrlError::NotUrl),
            ("as.example", IssuerUrlError::NotUrl),
            ("http://as.example", IssuerUrlError::Scheme),
            ("http://localhost.evil.example", IssuerUrlError::Scheme),
            ("ftp://as.example", IssuerUrlError::Scheme),
            ("https://as.example?a=1", IssuerUrlError::ForbiddenComponent),
            ("https://as.example?", IssuerUrlError::ForbiddenComponent),
            ("https://as.example#", IssuerUrlError::ForbiddenComponent),
            ("https://user@as.example", IssuerUrlError::ForbiddenComponent),
            ("https://as.example/", IssuerUrlError::NotCanonical),
            ("https://as.example/t/", IssuerUrlError::NotCanonical),
            ("https://AS.example", IssuerUrlError::NotCanonical),
            ("https://as.example:443", IssuerUrlError::NotCanonical),
            ("https://as.example/a/../b", IssuerUrlError::NotCanonical),
        ] {
            assert_eq!(IssuerUrl::parse(bad), Err(error), "{bad}");
        }
    }
}
