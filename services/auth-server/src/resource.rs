//! Who tokens are for: resource indicators (RFC 8707).

use std::fmt;
use std::sync::Arc;

use url::Url;

/// The identifier of a protected resource, as the `aud` claim has it: an absolute http or https URI without
/// a fragment.
#[derive(Clone, PartialEq, Eq)]
pub struct Audience {
    text: Arc<str>,
    canonical: Url,
}

/// What is no identifier of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a resource must be an absolute https or http URI without a fragment or user name, of at most 2048 characters"
)]
pub struct AudienceFault;

/// The resources that tokens are issued for, at least one.
#[derive(Clone, Debug)]
pub struct Audiences(Vec<Audience>);

impl Audience {
    /// Reads an identifier.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Self, AudienceFault> {
        let canonical = canonical(text).ok_or(AudienceFault)?;
        Ok(Self { text: text.into(), canonical })
    }

    /// As it was configured, which is how the `aud` claim has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Audiences {
    /// These; `None` if there are none.
    #[must_use]
    pub fn new(audiences: Vec<Audience>) -> Option<Self> {
        (!audiences.is_empty()).then_some(Self(audiences))
    }

    /// The one that `resource` asks for. Scheme and host in another case, a default port and a lone `/` are
    /// no difference (RFC 3986 section 6.2); everything else is. The only one there is need not be asked
    /// for.
    pub(crate) fn find(&self, resource: Option<&str>) -> Option<&Audience> {
        match resource {
            Some(resource) => {
                let asked = canonical(resource)?;
                self.0.iter().find(|known| known.canonical == asked)
            }
            None => self.0.first().filter(|_| self.0.len() == 1),
        }
    }

    /// Whether `text` is one of them, as it was configured.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        self.iter().any(|known| known.as_str() == text)
    }

    /// Them.
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
    // A URL parser resolves dots and reads backslashes as slashes, which is more than is no difference.
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
    fn the_case_of_a_host_a_default_port_and_a_lone_slash_are_no_difference() {
        let known = audiences(&["https://mcp.example"]);
        for asked in ["https://mcp.example", "HTTPS://MCP.example:443/"] {
            assert_eq!(known.find(Some(asked)).unwrap().as_str(), "https://mcp.example", "{asked}");
        }
    }

    #[test]
    fn everything_else_is_a_difference() {
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
    fn the_only_one_need_not_be_asked_for() {
        assert!(audiences(&["https://a.example"]).find(None).is_some());
        assert!(audiences(&["https://a.example", "https://b.example"]).find(None).is_none());
        assert!(Audiences::new(Vec::new()).is_none());
    }
}
