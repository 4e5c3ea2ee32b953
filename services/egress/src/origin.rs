//! Origin of a URL: scheme, host and port (RFC 6454).

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use http::{HeaderValue, Uri, header::InvalidHeaderValue};
use url::{Host, Url};

use crate::ConfigError;

/// Scheme, host and port of a URL. `Display` never shows user info, path or query, and with
/// [`with_label`](Self::with_label) no part of the URL.
#[derive(Clone)]
pub struct Origin {
    secure: bool,
    host: Host,
    port: u16,
    /// Text for messages in place of the origin; ignored in comparisons.
    label: Option<Arc<str>>,
}

impl Origin {
    /// Returns the origin of `url`.
    ///
    /// # Errors
    ///
    /// The URL is neither `http` nor `https`, has no host, or has user info, which would be
    /// ignored.
    pub fn of(url: &Url) -> Result<Self, ConfigError> {
        let secure = match url.scheme() {
            "http" => false,
            "https" => true,
            other => return Err(ConfigError::Scheme { found: other.to_owned() }),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ConfigError::UserInfo);
        }
        let host = url.host().ok_or(ConfigError::NoHost)?.to_owned();
        let port = url.port_or_known_default().ok_or(ConfigError::NoHost)?;
        Ok(Self { secure, host, port, label: None })
    }

    /// Sets the text for messages, for an origin whose host may be a secret.
    #[must_use]
    pub fn with_label(self, label: impl Into<Arc<str>>) -> Self {
        Self { label: Some(label.into()), ..self }
    }

    /// Returns whether messages must not show the origin itself.
    pub(crate) fn is_hidden(&self) -> bool {
        self.label.is_some()
    }

    /// Returns whether connections use TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Returns whether other machines cannot read requests: they use TLS, or stay on this machine.
    #[must_use]
    pub fn is_confidential(&self) -> bool {
        self.secure || self.is_loopback()
    }

    /// Returns whether the host is this machine: `localhost` or a loopback address.
    pub(crate) fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Domain(name) => name == "localhost",
            Host::Ipv4(v4) => v4.is_loopback(),
            Host::Ipv6(v6) => v6.is_loopback(),
        }
    }

    /// Returns the host: a name or an address.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the port, explicit or implied by the scheme.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL of the origin, which is not for messages.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    pub(crate) fn authority(&self) -> Authority<'_> {
        Authority(self)
    }

    pub(crate) fn host_header(&self) -> Result<HeaderValue, InvalidHeaderValue> {
        HeaderValue::try_from(self.authority().to_string())
    }

    /// Returns whether an absolute `uri` has this origin.
    pub(crate) fn covers(&self, uri: &Uri) -> bool {
        Url::parse(&uri.to_string()).is_ok_and(|url| Self::of(&url).is_ok_and(|it| it == *self))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label.as_deref().unwrap_or(&self.url()))
    }
}

impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        let Self { secure, host, port, label: _ } = self;
        (*secure, host, *port) == (other.secure, &other.host, other.port)
    }
}

impl Eq for Origin {}

impl Hash for Origin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { secure, host, port, label: _ } = self;
        (secure, host, port).hash(state);
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `host` or `host:port`, for the Host header.
pub(crate) struct Authority<'a>(&'a Origin);

impl fmt::Display for Authority<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { secure, host, port, label: _ } = self.0;
        if *port == if *secure { 443 } else { 80 } {
            write!(f, "{host}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}
