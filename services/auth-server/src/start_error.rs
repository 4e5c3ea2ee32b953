//! Errors of the start: contradictory settings and providers.

use vmcp_auth_store::{ProviderIssuer, ProviderName, StoreError};

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
    #[error("issuer or endpoints of upstream provider {0} exceed 2000 characters; shorten them")]
    InvalidIssuer(Box<str>),
    /// A baseline scope is not among the supported scopes.
    #[error("baseline client scope {0} is not supported; remove it or add it to the scopes")]
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
        "redirect URI of upstream provider {provider} has the path of another endpoint, {path}; use another path"
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
