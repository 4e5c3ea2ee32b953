//! Errors of upstream providers, as the client receives them.

use std::time::Duration;

use vmcp_upstream::{AuthorizationDenied, ProviderError};

use crate::error::{ErrorCode, OAuthError};

/// Error for the client when the user cancelled at a provider or was rejected there.
pub(crate) const DENIED_BY_PROVIDER: OAuthError = OAuthError::new(
    ErrorCode::AccessDenied,
    "the user cancelled the login at the identity provider, or the provider denied it",
);

/// Error for the client when a provider does not match its configuration.
pub(crate) const CONFIG_MISMATCH: OAuthError = OAuthError::new(
    ErrorCode::ServerError,
    "the identity provider and this server have mismatched configurations; contact the operator",
);

/// Converts an upstream provider's error for the client, without any text of the provider.
pub(crate) fn provider_error(error: &ProviderError) -> OAuthError {
    match error.error() {
        "access_denied" if *error == ProviderError::Denied(AuthorizationDenied::AccessDenied) => {
            DENIED_BY_PROVIDER
        }
        "access_denied" => OAuthError::new(
            ErrorCode::AccessDenied,
            "the login at the identity provider failed; log in again",
        ),
        "temporarily_unavailable" => OAuthError::temporarily_unavailable(
            "the identity provider is unavailable; retry later",
            Duration::from_secs(30),
        ),
        _ => CONFIG_MISMATCH,
    }
}
