//! Discovery of the key set's URL by the issuer's metadata.

use http::Uri;
use http::uri::{Authority, Scheme};
use serde::Deserialize;

use crate::KeySourceError;

/// Maximum length of an issuer in logs, in characters.
const MAX_LOGGED_ISSUER: usize = 200;

/// The error of an invalid issuer or key set URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The URL is not an absolute `http` or `https` URL.
    #[error("use an absolute http or https URL")]
    NotAbsolute,
    /// An issuer has a query or fragment (RFC 8414 section 2), or a URL has user info.
    #[error("use a URL without user info, query and fragment")]
    Extra,
}

/// Issuer with the location of its metadata.
#[derive(Clone, Debug)]
pub(crate) struct Issuer {
    name: Box<str>,
    scheme: Scheme,
    authority: Authority,
    /// Path without a trailing slash; may be empty.
    path: Box<str>,
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

impl Issuer {
    pub(crate) fn parse(name: &str) -> Result<Self, SourceError> {
        let uri = parse_url(name)?;
        if uri.query().is_some() {
            return Err(SourceError::Extra);
        }
        let path = uri.path().trim_end_matches('/').into();
        let parts = uri.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else {
            return Err(SourceError::NotAbsolute);
        };
        Ok(Self { name: name.into(), scheme, authority, path })
    }

    /// Returns the URLs of the metadata in order of preference: appended as in OpenID Connect Discovery 1.0 section 4,
    /// inserted as in RFC 8414 section 3, and as in its section 5 for OpenID Connect.
    pub(crate) fn metadata_urls(&self) -> Vec<Uri> {
        const OPENID: &str = "/.well-known/openid-configuration";
        const OAUTH: &str = "/.well-known/oauth-authorization-server";
        let path = &self.path;
        let mut paths =
            vec![format!("{path}{OPENID}"), format!("{OAUTH}{path}"), format!("{OPENID}{path}")];
        paths.dedup();
        if path.is_empty() {
            paths.truncate(2);
        }
        paths
            .into_iter()
            .filter_map(|path| {
                Uri::builder()
                    .scheme(self.scheme.clone())
                    .authority(self.authority.clone())
                    .path_and_query(path)
                    .build()
                    .ok()
            })
            .collect()
    }

    pub(crate) fn host(&self) -> &str {
        self.authority.host()
    }

    /// Returns the URL of the key set from the metadata in `json`.
    pub(crate) fn jwks_uri(&self, json: &[u8]) -> Result<Uri, KeySourceError> {
        let metadata: Metadata =
            serde_json::from_slice(json).map_err(|_| KeySourceError::Malformed)?;
        if *metadata.issuer != *self.name {
            // Often they differ in a trailing slash only: log both for the operator.
            let found: String = metadata.issuer.chars().take(MAX_LOGGED_ISSUER).collect();
            tracing::warn!(configured = &*self.name, found, "issuer_mismatch");
            return Err(KeySourceError::WrongIssuer);
        }
        parse_url(&metadata.jwks_uri).map_err(|_| KeySourceError::Malformed)
    }

    /// Returns `true` if `uri` has the issuer's own origin, which is trusted like the issuer.
    pub(crate) fn is_same_origin(&self, uri: &Uri) -> bool {
        let port = |scheme: &Scheme, port: Option<u16>| {
            port.unwrap_or(if *scheme == Scheme::HTTPS { 443 } else { 80 })
        };
        uri.scheme() == Some(&self.scheme)
            && uri.host().is_some_and(|host| host.eq_ignore_ascii_case(self.authority.host()))
            && port(&self.scheme, uri.port_u16()) == port(&self.scheme, self.authority.port_u16())
    }
}

/// Parses an absolute URL without user info and fragment.
pub(crate) fn parse_url(text: &str) -> Result<Uri, SourceError> {
    // `Uri` drops the fragment.
    if text.contains('#') {
        return Err(SourceError::Extra);
    }
    let uri: Uri = text.parse().map_err(|_| SourceError::NotAbsolute)?;
    let known = uri.scheme() == Some(&Scheme::HTTP) || uri.scheme() == Some(&Scheme::HTTPS);
    match uri.authority() {
        Some(authority) if known && !authority.host().is_empty() => {
            if authority.as_str().contains('@') {
                return Err(SourceError::Extra);
            }
        }
        _ => return Err(SourceError::NotAbsolute),
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_standard_metadata_urls() {
        let metadata_urls = |issuer: &str| -> Vec<String> {
            Issuer::parse(issuer).unwrap().metadata_urls().iter().map(Uri::to_string).collect()
        };
        let root = [
            "https://id.example/.well-known/openid-configuration",
            "https://id.example/.well-known/oauth-authorization-server",
        ];
        assert_eq!(metadata_urls("https://id.example"), root);
        assert_eq!(metadata_urls("https://id.example/"), root);
        let tenant = [
            "https://id.example/t1/.well-known/openid-configuration",
            "https://id.example/.well-known/oauth-authorization-server/t1",
            "https://id.example/.well-known/openid-configuration/t1",
        ];
        assert_eq!(metadata_urls("https://id.example/t1"), tenant);
        assert_eq!(metadata_urls("https://id.example/t1/"), tenant);
    }

    #[test]
    fn requires_exact_issuer_in_metadata() {
        let issuer = Issuer::parse("https://id.example/t1").unwrap();
        let keys = |named: &str| {
            let json = format!(r#"{{"issuer":"{named}","jwks_uri":"https://id.example/keys"}}"#);
            issuer.jwks_uri(json.as_bytes()).map(|uri| uri.to_string())
        };
        assert_eq!(keys("https://id.example/t1").as_deref(), Ok("https://id.example/keys"));
        for other in ["https://id.example/t1/", "https://ID.example/t1", "https://id.example/t2"] {
            assert_eq!(keys(other), Err(KeySourceError::WrongIssuer), "{other}");
        }
    }

    #[test]
    fn compares_origins() {
        let issuer = Issuer::parse("https://id.example/t1").unwrap();
        for (uri, is_same_origin) in [
            ("https://ID.example:443/x", true),
            ("http://id.example/x", false),
            ("https://id.example:8443/x", false),
            ("https://id.example.evil/x", false),
        ] {
            assert_eq!(issuer.is_same_origin(&uri.parse().unwrap()), is_same_origin, "{uri}");
        }
    }

    #[test]
    fn rejects_invalid_issuer_urls() {
        for (name, fault) in [
            ("id.example", SourceError::NotAbsolute),
            ("/path", SourceError::NotAbsolute),
            ("ftp://id.example", SourceError::NotAbsolute),
            ("https://user@id.example", SourceError::Extra),
            ("https://id.example?x", SourceError::Extra),
            ("https://id.example#x", SourceError::Extra),
        ] {
            assert_eq!(Issuer::parse(name).unwrap_err(), fault, "{name}");
        }
    }
}
