//! Bearer tokens.

use std::time::SystemTime;

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use crate::token_endpoint::{EndpointError, ExchangeError};
use crate::token_response::is_bearer_token;

/// Bearer token (RFC 6750), prepared as a header value. Hidden in `Debug` output; cheap to clone.
#[derive(Clone, Debug)]
pub struct BearerToken {
    value: HeaderValue,
    expires_at: Option<SystemTime>,
}

/// The error of a token that is empty, longer than 16 KiB, or contains bytes other than visible ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token is not a valid header value")]
pub struct InvalidTokenError;

// === impl BearerToken ===

impl BearerToken {
    /// Creates a token (RFC 6750 section 2.1) with its expiry, if known.
    ///
    /// # Errors
    /// The token is not a valid header value.
    pub fn new(
        token: &SecretString,
        expires_at: Option<SystemTime>,
    ) -> Result<Self, InvalidTokenError> {
        let token = token.expose_secret();
        if !is_bearer_token(token) {
            return Err(InvalidTokenError);
        }
        let mut value =
            HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| InvalidTokenError)?;
        // Not indexed by HPACK, hidden in `Debug` output.
        value.set_sensitive(true);
        Ok(Self { value, expires_at })
    }

    /// Returns `Bearer`, a space and the token; marked sensitive.
    #[must_use]
    pub fn value(&self) -> &HeaderValue {
        &self.value
    }

    /// Returns the expiry, if the authorization server stated one.
    #[must_use]
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.expires_at
    }
}

impl From<InvalidTokenError> for ExchangeError {
    fn from(_: InvalidTokenError) -> Self {
        Self::Unavailable(EndpointError::NoToken)
    }
}
