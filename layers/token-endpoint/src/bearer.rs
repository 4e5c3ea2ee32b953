//! The token that was given out.

use std::time::SystemTime;

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use crate::{EndpointError, ExchangeError};

/// The longest token, in bytes. It has to go into a header, and servers bound those.
const MAX_TOKEN_LEN: usize = 16 * 1024;

/// A bearer token (RFC 6750), prepared for the header. Never shown by `Debug`; cheap to clone.
#[derive(Clone, Debug)]
pub struct BearerToken {
    value: HeaderValue,
    expires_at: Option<SystemTime>,
}

/// The token is empty, longer than 16 KiB, or has bytes other than visible ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token cannot stand in a header")]
pub struct InvalidTokenError;

// === impl Bearer ===

impl BearerToken {
    /// A token (RFC 6750 section 2.1) and when it stops being valid, if that is known.
    ///
    /// # Errors
    /// No header can carry it.
    pub fn new(
        token: &SecretString,
        expires_at: Option<SystemTime>,
    ) -> Result<Self, InvalidTokenError> {
        let token = token.expose_secret();
        let is_valid = (1..=MAX_TOKEN_LEN).contains(&token.len())
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_valid {
            return Err(InvalidTokenError);
        }
        let mut value =
            HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| InvalidTokenError)?;
        // Never indexed by HPACK, never shown.
        value.set_sensitive(true);
        Ok(Self { value, expires_at })
    }

    /// `BearerToken`, a space and the token; marked sensitive.
    #[must_use]
    pub fn value(&self) -> &HeaderValue {
        &self.value
    }

    /// When it stops being valid, where the authorization server said so.
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
