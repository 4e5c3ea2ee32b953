//! Settings of the authorization server and their validation.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::audience::{Audience, Audiences};
use crate::issuer_url::IssuerUrl;
use crate::lifespans::Lifespans;
use crate::path;
use crate::random_tokens::HmacKeyRing;
use crate::rate_limits::RateLimits;
use crate::scope::Scopes;
use crate::signing_keys::SigningKeys;
use crate::start_error::StartError;

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
        let scopes = ["openid", "profile", "email", "offline_access"].map(str::to_owned);
        Self {
            issuer,
            authorization_base: None,
            audiences,
            scopes: Scopes::from_stored(&scopes),
            baseline_scopes: Scopes::default(),
            lifespans: Lifespans::default(),
            upstream_check_interval: Duration::from_hours(1),
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
        let resources = self.audiences.iter().map(Audience::origin);
        resources.chain([self.authorization_issuer().origin(), self.issuer.origin()]).collect()
    }

    /// Returns the prefix of return paths: a callback at another origin than
    /// [`authorization_issuer`](Self::authorization_issuer) redirects to it, so that the browser sends its cookie.
    pub(crate) fn return_path(&self) -> String {
        format!("{}{}", self.authorization_issuer().path(), path::RETURN)
    }

    /// Returns the address of a page.
    pub(crate) fn page_url(&self, path: &str) -> String {
        format!("{}{path}", self.authorization_issuer().as_str())
    }

    /// Returns the paths of a page: below the issuer's address, and below that of the authorization endpoint.
    pub(crate) fn page_paths(&self, page: &str) -> BTreeSet<String> {
        [self.issuer.path(), self.authorization_issuer().path()]
            .map(|base| format!("{base}{page}"))
            .into()
    }

    /// Returns the paths of a discovery document (RFC 8414 section 3.1, OpenID Connect Discovery 1.0 section 4.1): before
    /// the issuer's path, after it, and at the root for clients that do not insert the path.
    pub(crate) fn document_paths(&self, document: &str) -> BTreeSet<String> {
        let issuer = self.issuer.path();
        [format!("{document}{issuer}"), format!("{issuer}{document}"), document.to_owned()].into()
    }

    /// Returns all paths except the providers' callbacks.
    pub(crate) fn fixed_paths(&self) -> BTreeSet<String> {
        let issuer = self.issuer.path();
        let endpoints = [
            path::TOKEN,
            path::REVOKE,
            path::INTROSPECT,
            path::REGISTER,
            path::USERINFO,
            path::JWKS,
        ];
        let mut paths: BTreeSet<_> =
            endpoints.iter().map(|path| format!("{issuer}{path}")).collect();
        for page in [path::AUTHORIZE, path::CONSENT, path::CONNECTIONS] {
            paths.extend(self.page_paths(page));
        }
        for document in [path::OAUTH, path::OPENID] {
            paths.extend(self.document_paths(document));
        }
        paths
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
