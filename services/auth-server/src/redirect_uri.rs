//! Redirect URIs of clients (OAuth 2.1 section 2.3.1, RFC 8252 section 7).

use std::fmt;
use std::sync::Arc;

use url::Url;

/// Maximum length of a redirect URI, in bytes.
pub const MAX_REDIRECT_URI: usize = 2048;

/// Schemes of desktop applications that register a redirect URI whose scheme has no dot, although RFC 8252 section 7.1
/// requires one. Only that application handles the scheme.
const DOTLESS_APP_SCHEMES: [&str; 4] = ["cursor", "vscode", "vscode-insiders", "windsurf"];

/// Redirect URI: https, http on loopback, or a private-use scheme.
///
/// The text is stored unchanged and compared by its bytes; only the port of a loopback URI may vary (RFC 8252 section 7.3).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RedirectUri {
    text: Arc<str>,
    kind: RedirectKind,
}

/// Kind of a redirect URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RedirectKind {
    /// Website, over https.
    Web,
    /// Program that listens on a port of the user's machine. Other programs on the machine could listen there too.
    Loopback,
    /// Application that the operating system opens by its scheme.
    App,
}

/// Error of a redirect URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedirectUriError {
    /// The URI is longer than [`MAX_REDIRECT_URI`], not absolute, or has characters that are not allowed.
    #[error(
        "redirect URI is malformed: use an absolute URI of at most {MAX_REDIRECT_URI} characters"
    )]
    Malformed,
    /// The URI has a fragment.
    #[error("redirect URI has a fragment: remove it")]
    Fragment,
    /// The URI has a user name or password.
    #[error("redirect URI has a user name or password: remove it")]
    UserInfo,
    /// An http URI with a host other than `localhost`, `127.0.0.1` or `[::1]`.
    #[error(
        "redirect URI uses http for a host other than localhost, 127.0.0.1 or [::1]: use https"
    )]
    Http,
    /// The scheme is neither http, https nor a private-use scheme.
    #[error(
        "redirect URI has a scheme without a domain: use a reversed domain name such as com.example.app"
    )]
    Scheme,
    /// The URI is a link that makes an application act, such as `vscode:mcp/install`, and does not receive a response.
    #[error(
        "redirect URI is a link that installs an MCP server: use the callback of the application"
    )]
    DeepLink,
}

/// Components of a loopback URI.
struct LoopbackUri<'a> {
    host: &'a str,
    /// Path and query, unparsed.
    rest: &'a str,
}

// === impl RedirectUri ===

impl RedirectUri {
    /// Parses a redirect URI.
    ///
    /// # Errors
    /// Returns the first rule that the URI breaks.
    pub fn parse(text: &str) -> Result<Self, RedirectUriError> {
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"\\\"<>`{}|^".contains(&byte);
        if text.len() > MAX_REDIRECT_URI || !text.bytes().all(plain) {
            return Err(RedirectUriError::Malformed);
        }
        if text.contains('#') {
            return Err(RedirectUriError::Fragment);
        }
        let url = Url::parse(text).map_err(|_| RedirectUriError::Malformed)?;
        if !url.username().is_empty() || url.password().is_some() || authority(text).contains('@') {
            return Err(RedirectUriError::UserInfo);
        }
        let kind = match url.scheme() {
            "https" if has_canonical_host(text, &url) => RedirectKind::Web,
            "https" => return Err(RedirectUriError::Malformed),
            "http" if LoopbackUri::parse(text).is_some() => RedirectKind::Loopback,
            "http" => return Err(RedirectUriError::Http),
            scheme if is_private_use_scheme(scheme) => RedirectKind::App,
            _ => return Err(RedirectUriError::Scheme),
        };
        if is_deep_link(text, kind) {
            return Err(RedirectUriError::DeepLink);
        }
        Ok(Self { text: text.into(), kind })
    }

    /// Returns the URI as text, unchanged.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the kind of the URI.
    #[must_use]
    pub fn kind(&self) -> RedirectKind {
        self.kind
    }

    /// Returns `true` if a request may use `asked` where this URI is registered.
    #[must_use]
    pub fn matches(&self, asked: &Self) -> bool {
        if self == asked {
            return true;
        }
        let (Some(own), Some(asked)) =
            (LoopbackUri::parse(&self.text), LoopbackUri::parse(&asked.text))
        else {
            return false;
        };
        own.host.eq_ignore_ascii_case(asked.host) && own.rest == asked.rest
    }

    /// Returns the destination for display: a host, or the scheme of an application.
    #[must_use]
    pub fn destination(&self) -> &str {
        match self.kind {
            RedirectKind::Web => authority(&self.text),
            RedirectKind::Loopback => LoopbackUri::parse(&self.text).map_or("", |uri| uri.host),
            RedirectKind::App => self.text.split(':').next().unwrap_or_default(),
        }
    }

    /// Returns the form that a stored consent is bound to: the URI, without the port of a loopback one.
    pub(crate) fn without_port(&self) -> String {
        match LoopbackUri::parse(&self.text) {
            Some(LoopbackUri { host, rest }) => {
                format!("http://{}{rest}", host.to_ascii_lowercase())
            }
            None => self.text.to_string(),
        }
    }

    /// Returns the URI with these parameters added to its query.
    pub(crate) fn with_query(&self, parameters: &[(&str, &str)]) -> String {
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(parameters.iter().filter(|(_, value)| !value.is_empty()))
            .finish();
        let text = &*self.text;
        let joint = match text.split_once('?') {
            None => "?",
            Some((_, "")) => "",
            Some((_, known)) if known.ends_with('&') => "",
            Some(_) => "&",
        };
        format!("{text}{joint}{query}")
    }
}

impl fmt::Debug for RedirectUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

// === impl LoopbackUri ===

impl<'a> LoopbackUri<'a> {
    /// Parses the text itself, since a URL parser reads `127.1` and `0x7f000001` as `127.0.0.1`.
    fn parse(text: &'a str) -> Option<Self> {
        let after = text.strip_prefix("http://")?;
        let end = after.find(['/', '?']).unwrap_or(after.len());
        let (authority, rest) = after.split_at(end);
        let (host, port) = match authority.strip_prefix("[::1]") {
            Some(port) => ("[::1]", port),
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let known =
            host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1" || host == "[::1]";
        let port_fits = match port.strip_prefix(':') {
            None => port.is_empty(),
            Some(port) => {
                port.bytes().all(|byte| byte.is_ascii_digit())
                    && port.parse::<u16>().is_ok_and(|port| port > 0)
            }
        };
        (known && port_fits).then_some(Self { host, rest })
    }
}

/// Returns the text between `//` and the path, unparsed.
fn authority(text: &str) -> &str {
    let after = text.split_once("://").map_or("", |(_, after)| after);
    after.split(['/', '?']).next().unwrap_or_default()
}

/// Returns `true` if the host has the URL parser's normal form: otherwise the page shows one host and the browser opens
/// another.
fn has_canonical_host(text: &str, url: &Url) -> bool {
    let authority = text.strip_prefix("https://").map(|_| authority(text)).unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    url.host_str().is_some_and(|read| read.eq_ignore_ascii_case(host))
}

/// Returns `true` if an application acts on the link itself: editors install an MCP server at `…/mcp/install`, and Visual
/// Studio Code at any link that begins with `vscode:mcp/`. A website that forwards such a link counts as well.
fn is_deep_link(text: &str, kind: RedirectKind) -> bool {
    let decode = |text: &str| {
        form_urlencoded::parse(text.as_bytes())
            .fold(String::new(), |decoded, (name, value)| decoded + &name + "/" + &value + "/")
    };
    let rest = text.split_once(':').map_or("", |(_, rest)| rest);
    // A forwarding website decodes a value that was encoded twice.
    let decoded = decode(&decode(rest)).to_ascii_lowercase();
    let parts = decoded.split(['/', '\\', '?', ':']).filter(|part| !["", "."].contains(part));
    let parts: Vec<_> = parts.collect();
    let first = parts.first().is_some_and(|first| *first == "mcp");
    kind == RedirectKind::App && (first || parts.contains(&".."))
        || parts.windows(2).any(|pair| pair == ["mcp", "install"])
}

/// Returns `true` for a reverse domain name or a known application's scheme.
fn is_private_use_scheme(scheme: &str) -> bool {
    let reverse_domain = scheme.contains('.') && scheme.split('.').all(|label| !label.is_empty());
    reverse_domain || DOTLESS_APP_SCHEMES.contains(&scheme)
}

#[cfg(test)]
mod tests;
