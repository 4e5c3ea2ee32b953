//! What exchanges tokens, and what comes of it.

use std::time::SystemTime;

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use crate::{ExchangeFault, Subject};

/// The longest token, in bytes. It has to go into a header, and servers bound those.
const MAX_LENGTH: usize = 16 * 1024;

/// Exchanges a caller's token for one that the backend accepts. Closures that take a [`Subject`] and
/// return such a future do so too.
pub trait Exchange: Send + Sync + 'static {
    /// Gives the token. How long it may take is for the exchange to bound.
    type Future: Future<Output = Result<Exchanged, ExchangeFault>> + Send + 'static;

    /// The backend's token for the caller.
    fn exchange(&self, subject: Subject) -> Self::Future;

    /// The gateway's own token, for probes and refreshes. `None`: it has none, and they go without.
    fn own(&self) -> Option<Self::Future> {
        None
    }

    /// The backend did not take `token`: it is not to be given out again. Whether another one can
    /// be had by asking once more.
    fn refused(&self, token: &Exchanged) -> bool {
        _ = token;
        false
    }
}

/// A token for a backend, prepared for the header. Never shown by `Debug`; cheap to clone.
#[derive(Clone, Debug)]
pub struct Exchanged {
    value: HeaderValue,
    expires_at: Option<SystemTime>,
    /// Under which key it is kept.
    pub(crate) kept: Option<crate::cached::Key>,
}

/// The token is empty, longer than 16 KiB, or has bytes other than visible ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token cannot stand in a header")]
pub struct IllegalToken;

impl<F, Fut> Exchange for F
where
    F: Fn(Subject) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Exchanged, ExchangeFault>> + Send + 'static,
{
    type Future = Fut;

    fn exchange(&self, subject: Subject) -> Fut {
        self(subject)
    }
}

impl Exchanged {
    /// A bearer token (RFC 6750 section 2.1) and when it stops being valid, if that is known.
    ///
    /// # Errors
    /// No header can carry it.
    pub fn new(token: &SecretString, expires_at: Option<SystemTime>) -> Result<Self, IllegalToken> {
        let token = token.expose_secret();
        let legal = (1..=MAX_LENGTH).contains(&token.len())
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !legal {
            return Err(IllegalToken);
        }
        let mut value =
            HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| IllegalToken)?;
        // Never indexed by HPACK, never shown.
        value.set_sensitive(true);
        Ok(Self { value, expires_at, kept: None })
    }

    /// `Bearer`, a space and the token; marked sensitive.
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

impl From<IllegalToken> for ExchangeFault {
    fn from(_: IllegalToken) -> Self {
        Self::Unavailable(crate::Outage::NoToken)
    }
}
