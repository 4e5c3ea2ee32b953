//! Token audiences: resource indicators (RFC 8707).

use std::fmt;
use std::sync::Arc;

use url::Url;

/// Identifier of a protected resource, as in the `aud` claim: an absolute http or https URI without a fragment.
#[derive(Clone, PartialEq, Eq)]
pub struct Audience {
    text: Arc<str>,
    canonical: Url,
}

/// Error of a resource identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a resource must be an absolute https or http URI without a fragment or user name, of at most 2048 characters"
)]
pub struct AudienceError;

/// Resources that tokens are issued for, at least one. The first is that of requests that name none.
#[derive(Clone, Debug)]
pub struct Audiences(Vec<Audience>);

impl Audience {
    /// Parses an identifier.
    ///
    /// # Errors
    /// The text is not a valid identifier.
    pub fn parse(text: &str) -> Result<Self, AudienceError> {
        let canonical = canonical(text).ok_or(AudienceError)?;
        Ok(Self { text: text.into(), canonical })
    }

    /// Returns the configured text, which is also the value of the `aud` claim.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns scheme, host and port.
    pub(crate) fn origin(&self) -> String {
        self.canonical.origin().ascii_serialization()
    }
}

impl Audiences {
    /// Creates the set; `None` if `audiences` is empty.
    #[must_use]
    pub fn new(audiences: Vec<Audience>) -> Option<Self> {
        (!audiences.is_empty()).then_some(Self(audiences))
    }

    /// Returns the audience that `resource` names. Case of scheme and host, a default port and a lone `/` are ignored (RFC
    /// 3986 section 6.2); any other difference counts. `None` selects the first audience.
    pub(crate) fn find(&self, resource: Option<&str>) -> Option<&Audience> {
        match resource {
            Some(resource) => {
                let asked = canonical(resource)?;
                self.0.iter().find(|known| known.canonical == asked)
            }
            None => self.0.first(),
        }
    }

    /// Returns `true` if `text` is one of the audiences, as configured.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        self.iter().any(|known| known.as_str() == text)
    }

    /// Returns an iterator over the audiences.
    pub fn iter(&self) -> impl Iterator<Item = &Audience> {
        self.0.iter()
    }
}

impl fmt::Debug for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

fn canonical(text: &str) -> Option<Url> {
    if text.len() > 2048 || text.contains('#') || !text.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return None;
    }
    // A URL parser resolves dot segments and reads backslashes as slashes; both change more than RFC 3986 treats as
    // equivalent.
    if text.contains('\\') || text.split(['/', '?']).any(|part| part == "." || part == "..") {
        return None;
    }
    let url = Url::parse(text).ok()?;
    let plain = url.username().is_empty() && url.password().is_none();
    let web = matches!(url.scheme(), "http" | "https") && text.contains("://");
    (plain && web && url.has_host()).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audiences(list: &[&str]) -> Audiences {
        Audiences::new(list.iter().map(|text| Audience::parse(text).unwrap()).collect()).unwrap()
    }

    #[test]
    fn ignores_host_case_default_port_and_slash() {
        let known = audiences(&["https://mcp.example"]);
        for asked in ["https://mcp.example", "HTTPS://MCP.example:443/"] {
            assert_eq!(known.find(Some(asked)).unwrap().as_str(), "https://mcp.example", "{asked}");
        }
    }

    #[test]
    fn distinguishes_other_resource_differences() {
        let known = audiences(&["https://mcp.example/mcp"]);
        for asked in [
            "https://mcp.example/mcp/",
            "https://mcp.example/MCP",
            "https://mcp.example/mcp?a",
            "https://mcp.example/mcp#",
            "https://mcp.example/x/../mcp",
            "https://mcp.example\\mcp",
            "https://mcp.example:8443/mcp",
            "http://mcp.example/mcp",
            "https://user@mcp.example/mcp",
            "mcp.example/mcp",
            "urn:mcp",
        ] {
            assert!(known.find(Some(asked)).is_none(), "{asked}");
        }
    }

    #[test]
    fn first_audience_is_the_default() {
        assert!(audiences(&["https://a.example"]).find(None).is_some());
        let found = audiences(&["https://a.example", "https://b.example"]);
        assert_eq!(found.find(None).map(Audience::as_str), Some("https://a.example"));
        assert!(Audiences::new(Vec::new()).is_none());
    }
}
