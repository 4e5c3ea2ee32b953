//! Settings of the authorization server and their validation.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use url::Url;
use vmcp_auth_store::{ProviderIssuer, ProviderName, StoreError};

use crate::discovery::path;
use crate::{Audiences, HmacKeyRing, RateLimits, Scopes, SigningKeys};

/// Settings of an authorization server, except for its store and its upstream providers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Issuer identifier; the address of every endpoint begins with it.
    pub issuer: IssuerUrl,
    /// Base address of the authorization endpoint, if it differs from the issuer's.
    pub authorization_base: Option<IssuerUrl>,
    /// Resources that tokens are issued for.
    pub audiences: Audiences,
    /// All scopes that a client may have.
    pub scopes: Scopes,
    /// Scopes that each registered client has in addition to its own.
    pub baseline_scopes: Scopes,
    /// Lifespans of tokens and codes.
    pub lifespans: Lifespans,
    /// Interval at which a refresh asks the first upstream provider whether it still knows the user.
    pub upstream_check_interval: Duration,
    /// Signing keys of tokens.
    pub keys: SigningKeys,
    /// Secrets of codes and refresh tokens.
    pub hmac: HmacKeyRing,
    /// Name of this server on pages.
    pub display_name: String,
    /// Rate limits for one client address.
    pub rate_limits: RateLimits,
}

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

/// Lifespans of tokens and codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifespans {
    access: Duration,
    refresh: Duration,
    code: Duration,
}

/// Error of a lifespan that is too short or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LifespanError {
    /// The lifespan of access tokens is out of range.
    #[error("access token lifespan must be 1 minute to 24 hours")]
    Access,
    /// The lifespan of refresh tokens is out of range.
    #[error("refresh token lifespan must be 1 hour to 30 days")]
    Refresh,
    /// The lifespan of authorization codes is out of range.
    #[error("authorization code lifespan must be 30 seconds to 10 minutes")]
    Code,
}

/// Error that prevents the start of an authorization server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The list of upstream providers is empty, so users cannot log in.
    #[error("no upstream provider is configured; add one")]
    NoProvider,
    /// Two upstream providers have the same name.
    #[error("two upstream providers have the name {0}; rename one")]
    DuplicateName(Box<str>),
    /// The name of a provider is empty or too long.
    #[error("{0} is not a valid name of an upstream provider; change it")]
    InvalidName(Box<str>),
    /// The issuer of a provider is empty or too long.
    #[error(
        "issuer or endpoints of upstream provider {0} exceed 2000 \
     characters; shorten them"
    )]
    InvalidIssuer(Box<str>),
    /// A baseline scope is not among the supported scopes.
    #[error(
        "baseline client scope {0} is not supported; remove it or add it to \
     the scopes"
    )]
    UnsupportedBaselineScope(Box<str>),
    /// The redirect URI of a provider has an origin that is neither that of the authorization endpoint nor that of the
    /// issuer or of a resource, so this server may not be reachable there.
    #[error(
        "redirect URI of upstream provider {provider} has the unknown origin \
         {callback}; use the origin of the authorization endpoint, {authorization_origin}, of the issuer, or of a \
         resource"
    )]
    ForeignRedirectUri {
        /// Name of the provider.
        provider: Box<str>,
        /// Origin of its redirect URI.
        callback: Box<str>,
        /// Origin of the authorization endpoint.
        authorization_origin: Box<str>,
    },
    /// The redirect URI of a provider has the path of another endpoint.
    #[error(
        "redirect URI of upstream provider {provider} has the path of another \
         endpoint, {path}; use another path"
    )]
    RedirectUriPathTaken {
        /// Name of the provider.
        provider: Box<str>,
        /// Path of the redirect URI.
        path: Box<str>,
    },
}

/// Error that makes logins through the configured providers unsafe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderCheckError {
    /// The store is unavailable.
    #[error("failed to compare upstream providers with the store: {0}")]
    Store(#[from] StoreError),
    /// The store has users and tokens of another provider under this name.
    #[error(
        "failed to use upstream provider {provider}: users and tokens of {known} are stored under this name, but \
         {configured} is configured; give {configured} another name, or restore the provider"
    )]
    IssuerChanged {
        /// Name of the provider.
        provider: ProviderName,
        /// Issuer in the store, or token endpoint and fingerprint.
        known: ProviderIssuer,
        /// Configured issuer.
        configured: ProviderIssuer,
    },
}

// === impl Settings ===

impl Settings {
    /// Creates settings with default lifespans and rates, and the scopes `openid profile email offline_access`.
    #[must_use]
    pub fn new(
        issuer: IssuerUrl,
        audiences: Audiences,
        keys: SigningKeys,
        hmac: HmacKeyRing,
    ) -> Self {
        let scopes = Scopes::new(["openid", "profile", "email", "offline_access"]);
        Self {
            issuer,
            authorization_base: None,
            audiences,
            scopes: scopes.unwrap_or_default(),
            baseline_scopes: Scopes::default(),
            lifespans: Lifespans::default(),
            upstream_check_interval: Duration::from_secs(3600),
            keys,
            hmac,
            display_name: "vmcp".to_owned(),
            rate_limits: RateLimits::default(),
        }
    }

    /// Returns the base address of the authorization endpoint.
    pub(crate) fn authorization_issuer(&self) -> &IssuerUrl {
        self.authorization_base.as_ref().unwrap_or(&self.issuer)
    }

    /// Returns the origins at which this server is known to be reachable.
    pub(crate) fn origins(&self) -> BTreeSet<String> {
        let resources =
            self.audiences.iter().filter_map(|audience| Url::parse(audience.as_str()).ok());
        let resources = resources.map(|url| url.origin().ascii_serialization());
        resources.chain([self.authorization_issuer().origin(), self.issuer.origin()]).collect()
    }

    /// Returns the prefix of return paths: a callback at another origin than ](Self::authorization_issuer) redirects to it, so
    /// that the browser sends its cookie.
    pub(crate) fn return_path(&self) -> String {
        format!("{}{}", self.authorization_issuer().path(), path::RETURN)
    }

    /// Rejects settings that cannot work, and warns of secrets that end with the process.
    pub(crate) fn check(&self) -> Result<(), StartError> {
        if let Some(scope) = self.baseline_scopes.first_missing(&self.scopes) {
            return Err(StartError::UnsupportedBaselineScope(scope.into()));
        }
        if self.keys.is_ephemeral() {
            tracing::warn!(
                "using generated signing key: tokens end with this process and other replicas reject them; configure \
                 signing keys"
            );
        }
        if self.hmac.is_ephemeral() {
            tracing::warn!(
                "using generated HMAC secret: codes and refresh tokens end with this process and other replicas \
                 reject them; configure HMAC secrets"
            );
        }
        Ok(())
    }
}

// === impl IssuerUrl ===

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

// === impl Lifespans ===

/// Lifespan of a grant, regardless of refreshes: the user must then log in again.
const GRANT_LIFESPAN: Duration = Duration::from_secs(90 * 24 * 3600);

/// Maximum lifespan of an access token.
pub(crate) const MAX_ACCESS_LIFESPAN: Duration = Duration::from_secs(24 * 3600);

impl Lifespans {
    /// Creates lifespans of access tokens, unused refresh tokens and codes.
    ///
    /// # Errors
    /// Returns the lifespan that is out of range.
    pub fn new(access: Duration, refresh: Duration, code: Duration) -> Result<Self, LifespanError> {
        let within = |value: Duration, least: u64, most: u64| {
            (Duration::from_secs(least)..=Duration::from_secs(most)).contains(&value)
        };
        if !within(access, 60, MAX_ACCESS_LIFESPAN.as_secs()) {
            return Err(LifespanError::Access);
        }
        if !within(refresh, 3600, 30 * 24 * 3600) {
            return Err(LifespanError::Refresh);
        }
        if !within(code, 30, 600) {
            return Err(LifespanError::Code);
        }
        Ok(Self { access, refresh, code })
    }

    /// Returns the lifespan of access tokens.
    #[must_use]
    pub fn access(&self) -> Duration {
        self.access
    }

    /// Returns the lifespan of an unused refresh token.
    #[must_use]
    pub fn refresh(&self) -> Duration {
        self.refresh
    }

    /// Returns the lifespan of codes.
    #[must_use]
    pub fn code(&self) -> Duration {
        self.code
    }

    /// Returns the lifespan of a grant, regardless of refreshes: 90 days.
    #[must_use]
    pub fn grant(&self) -> Duration {
        GRANT_LIFESPAN
    }
}

impl Default for Lifespans {
    /// Returns an hour, a week and ten minutes.
    fn default() -> Self {
        let hour = Duration::from_secs(3600);
        Self { access: hour, refresh: 168 * hour, code: Duration::from_secs(600) }
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

    #[test]
    fn names_lifespan_that_is_out_of_range() {
        let minutes = |count: u64| Duration::from_secs(count * 60);
        let day = minutes(24 * 60);
        for (access, refresh, code, error) in [
            (minutes(1), minutes(60), minutes(10), None),
            (day, day * 30, Duration::from_secs(30), None),
            (Duration::from_secs(59), day, minutes(1), Some(LifespanError::Access)),
            (day * 2, day, minutes(1), Some(LifespanError::Access)),
            (minutes(1), minutes(59), minutes(1), Some(LifespanError::Refresh)),
            (minutes(1), day * 31, minutes(1), Some(LifespanError::Refresh)),
            (minutes(1), day, minutes(11), Some(LifespanError::Code)),
            (minutes(1), day, Duration::from_secs(29), Some(LifespanError::Code)),
        ] {
            assert_eq!(Lifespans::new(access, refresh, code).err(), error);
        }
    }
}
