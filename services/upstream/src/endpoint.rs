//! URLs of an identity provider.

use std::fmt;
use std::net::Ipv4Addr;

use http::Uri;
use http::uri::Scheme;

use crate::SettingsError;

/// Absolute `https` or `http` URL without user information and fragment (RFC 6749 section 3.1).
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint(Uri);

/// Issuer identifier, compared by code point (OpenID Connect Discovery 1.0 section 4.3, RFC 8414
/// section 3.3): an [`Endpoint`] without a query.
#[derive(Clone, PartialEq, Eq)]
pub struct Issuer {
    name: Box<str>,
    endpoint: Endpoint,
}

// === impl Endpoint ===

impl Endpoint {
    /// Parses an `https` URL, or an `http` URL on loopback (`localhost`, 127.0.0.0/8, `[::1]`).
    ///
    /// # Errors
    /// [`SettingsError::Url`] or [`SettingsError::Insecure`].
    pub fn new(url: &str) -> Result<Self, SettingsError> {
        let endpoint = Self::allowing_http(url)?;
        if endpoint.is_https() || endpoint.is_loopback() {
            Ok(endpoint)
        } else {
            Err(SettingsError::Insecure)
        }
    }

    /// Parses an `https` or `http` URL. With `http`, secrets, codes and tokens cross the network
    /// unencrypted.
    ///
    /// # Errors
    /// [`SettingsError::Url`].
    pub fn allowing_http(url: &str) -> Result<Self, SettingsError> {
        // The parser drops a fragment silently.
        let uri = Uri::try_from(url).ok().filter(|_| !url.contains('#'));
        let uri = uri.ok_or(SettingsError::Url)?;
        let http = uri.scheme() == Some(&Scheme::HTTP) || uri.scheme() == Some(&Scheme::HTTPS);
        let host = uri.authority().is_some_and(|authority| {
            !authority.host().is_empty() && !authority.as_str().contains('@')
        });
        if http && host { Ok(Self(uri)) } else { Err(SettingsError::Url) }
    }

    /// Returns the URL.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.0
    }

    /// Returns scheme, host and port, in the form of a Content Security Policy source.
    #[must_use]
    pub fn origin(&self) -> String {
        let scheme = self.0.scheme_str().unwrap_or_default();
        let authority = self.0.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        format!("{scheme}://{}", authority.to_ascii_lowercase())
    }

    pub(crate) fn is_https(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.0.host().unwrap_or_default();
        let v4 = host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
        v4 || host.eq_ignore_ascii_case("localhost") || host == "[::1]"
    }

    /// Returns whether scheme, host and port are equal.
    pub(crate) fn shares_origin(&self, other: &Self) -> bool {
        let port = |uri: &Uri| uri.port_u16().unwrap_or(if self.is_https() { 443 } else { 80 });
        let host = |uri: &Uri| uri.host().unwrap_or_default().to_ascii_lowercase();
        self.0.scheme() == other.0.scheme()
            && host(&self.0) == host(&other.0)
            && port(&self.0) == port(&other.0)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

impl fmt::Display for Endpoint {
    /// Omits the query, which may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.0.path())
    }
}

// === impl Issuer ===

impl Issuer {
    /// Parses an `https` URL without a query, or an `http` one on loopback.
    ///
    /// # Errors
    /// [`SettingsError::Url`] or [`SettingsError::Insecure`].
    pub fn new(name: &str) -> Result<Self, SettingsError> {
        Self::of(name, Endpoint::new(name)?)
    }

    /// Parses an `https` or `http` URL without a query.
    ///
    /// # Errors
    /// [`SettingsError::Url`].
    pub fn allowing_http(name: &str) -> Result<Self, SettingsError> {
        Self::of(name, Endpoint::allowing_http(name)?)
    }

    fn of(name: &str, endpoint: Endpoint) -> Result<Self, SettingsError> {
        if endpoint.0.query().is_some() {
            return Err(SettingsError::Url);
        }
        Ok(Self { name: name.into(), endpoint })
    }

    /// Returns the identifier as configured.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns the URLs of the metadata: appended as in OpenID Connect Discovery 1.0 section 4,
    /// inserted as in RFC 8414 section 3, and inserted for OpenID Connect as in its section 5.
    pub(crate) fn metadata_urls(&self) -> Vec<Endpoint> {
        const OPENID: &str = "/.well-known/openid-configuration";
        const OAUTH: &str = "/.well-known/oauth-authorization-server";
        let path = self.endpoint.0.path().trim_end_matches('/');
        let mut paths =
            vec![format!("{path}{OPENID}"), format!("{OAUTH}{path}"), format!("{OPENID}{path}")];
        if path.is_empty() {
            paths.truncate(2);
        }
        let at = |path: String| {
            let mut parts = self.endpoint.0.clone().into_parts();
            parts.path_and_query = path.parse().ok();
            Uri::from_parts(parts).ok().map(Endpoint)
        };
        paths.into_iter().filter_map(at).collect()
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Issuer({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_is_https_or_loopback_by_default() {
        for url in
            ["https://id.example/a?b=1", "http://127.0.0.1:9/", "http://[::1]/", "http://localhost"]
        {
            assert!(Endpoint::new(url).is_ok(), "{url}");
        }
        for url in ["http://id.example/", "http://localhost.evil/", "http://10.0.0.1/"] {
            assert_eq!(Endpoint::new(url), Err(SettingsError::Insecure), "{url}");
            assert!(Endpoint::allowing_http(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn rejects_invalid_endpoints_and_issuers() {
        for url in [
            "",
            "/a",
            "id.example",
            "ftp://id.example/",
            "https://u:p@id.example/",
            "https://id.example/#f",
        ] {
            assert_eq!(Endpoint::allowing_http(url), Err(SettingsError::Url), "{url}");
        }
        assert_eq!(Issuer::new("https://id.example?tenant=1"), Err(SettingsError::Url));
    }

    #[test]
    fn compares_origins() {
        let at = |url: &str| Endpoint::allowing_http(url).unwrap();
        assert_eq!(at("https://ID.example/a?b").origin(), "https://id.example");
        let home = at("https://id.example/t1");
        for (url, same) in [
            ("https://ID.example:443/x", true),
            ("http://id.example/x", false),
            ("https://id.example:8443/x", false),
            ("https://id.example.evil/x", false),
        ] {
            assert_eq!(at(url).shares_origin(&home), same, "{url}");
        }
    }

    #[test]
    fn display_omits_the_query() {
        let endpoint = Endpoint::new("https://id.example/a?key=s3cr3t").unwrap();
        assert_eq!(format!("{endpoint} {endpoint:?}").matches("s3cr3t").count(), 0);
    }

    #[test]
    fn metadata_urls_follow_the_standards() {
        let places = |issuer: &str| -> Vec<String> {
            let issuer = Issuer::new(issuer).unwrap();
            issuer.metadata_urls().iter().map(|place| place.uri().to_string()).collect()
        };
        let root = [
            "https://id.example/.well-known/openid-configuration",
            "https://id.example/.well-known/oauth-authorization-server",
        ];
        assert_eq!(places("https://id.example"), root);
        let tenant = [
            "https://id.example/t1/.well-known/openid-configuration",
            "https://id.example/.well-known/oauth-authorization-server/t1",
            "https://id.example/.well-known/openid-configuration/t1",
        ];
        assert_eq!(places("https://id.example/t1/"), tenant);
    }
}
