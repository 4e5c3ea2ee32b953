//! Credentials and their sources.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::timeout;
use vmcp_core::{Caller, CredentialErrorKind, UpstreamError, UpstreamKind, UpstreamTokens};

/// Longest accepted secret or token in bytes.
const MAX_SECRET_LEN: usize = 16 * 1024;

/// Scheme and separator before a token (RFC 6750 section 2.1).
const BEARER: &str = "Bearer ";

/// Timeout of the upstream token store, which may have to refresh a token.
const UPSTREAM_TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Source of header values. Implemented by closures that take an `Option<&Caller>` and return a future with the
/// same output.
pub trait CredentialProvider: Send + Sync + 'static {
    /// The future of a value; `None` sends the request without the header.
    type Future: Future<Output = Result<Option<HeaderValue>, CredentialErrorKind>> + Send + 'static;

    /// Returns the value for a request on behalf of `caller`, or for an unknown caller if `None`.
    fn value(&self, caller: Option<&Caller>) -> Self::Future;

    /// Returns the upstream provider that issued the value, if there is one.
    fn provider(&self) -> Option<&Arc<str>> {
        None
    }

    /// Returns another value than `rejected`, which a backend answered with 401. Called only if
    /// [`provider`](Self::provider) returns a provider. Without another value, the layer returns the backend's 401.
    fn refresh(&self, caller: Option<&Caller>, rejected: &HeaderValue) -> Option<Self::Future> {
        _ = (caller, rejected);
        None
    }
}

/// Built-in credentials. See the [crate docs](crate) for a table.
#[derive(Clone, Debug)]
pub struct Credential(CredentialKind);

#[derive(Clone, Debug)]
enum CredentialKind {
    /// Marked sensitive, so that `Debug` does not show it.
    Static(HeaderValue),
    Upstream(Arc<str>),
}

/// The error of a secret that is not a valid header value. Never contains the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The secret is empty.
    #[error("the secret is empty")]
    Empty,
    /// The secret contains a line break, often as the last byte of a file.
    #[error("the secret contains a line break; check for one at the end of the file")]
    LineBreak,
    /// The secret contains characters that are invalid in a header or that receivers interpret differently.
    #[error("the secret contains characters other than visible ASCII")]
    Illegal,
    /// The secret is longer than servers accept.
    #[error("the secret is longer than {MAX_SECRET_LEN} bytes")]
    TooLong,
}

/// Future of [`Credential`]. Ready immediately, except for upstream tokens.
pub struct CredentialFuture(FutureState);

enum FutureState {
    /// `None` after completion.
    Ready(Option<Result<Option<HeaderValue>, CredentialErrorKind>>),
    Pending(Pin<Box<dyn Future<Output = Result<Option<HeaderValue>, CredentialErrorKind>> + Send>>),
}

// === impl CredentialProvider ===

impl<F, Fut> CredentialProvider for F
where
    F: Fn(Option<&Caller>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Option<HeaderValue>, CredentialErrorKind>> + Send + 'static,
{
    type Future = Fut;

    fn value(&self, caller: Option<&Caller>) -> Fut {
        self(caller)
    }
}

// === impl Credential ===

impl Credential {
    /// Creates a credential that sends the secret unchanged with every request.
    ///
    /// # Errors
    /// The secret is not a valid header value.
    pub fn fixed(secret: &SecretString) -> Result<Self, SecretError> {
        let secret = secret.expose_secret();
        check_header_value(secret)?;
        sensitive(secret).map(CredentialKind::Static).map(Self)
    }

    /// Creates a credential that sends the secret as a bearer token (RFC 6750 section 2.1) with every request.
    ///
    /// # Errors
    /// The secret is not a valid token.
    pub fn bearer(secret: &SecretString) -> Result<Self, SecretError> {
        bearer(secret.expose_secret()).map(CredentialKind::Static).map(Self)
    }

    /// Creates a credential that sends the caller's access token of `provider` as a bearer token. Requests of the
    /// gateway itself are sent without a token.
    #[must_use]
    pub fn upstream(provider: &str) -> Self {
        Self(CredentialKind::Upstream(provider.into()))
    }
}

impl CredentialProvider for Credential {
    type Future = CredentialFuture;

    fn value(&self, caller: Option<&Caller>) -> CredentialFuture {
        let provider = match &self.0 {
            CredentialKind::Static(value) => {
                return CredentialFuture::ready(Ok(Some(value.clone())));
            }
            CredentialKind::Upstream(provider) => provider,
        };
        let identity = match caller {
            Some(Caller::Gateway) => return CredentialFuture::ready(Ok(None)),
            Some(Caller::User(identity)) if identity.subject().is_some() => identity,
            Some(Caller::User(_)) | None => {
                return CredentialFuture::ready(Err(CredentialErrorKind::NoCaller));
            }
        };
        let Some(tokens) = identity.upstream() else {
            return CredentialFuture::ready(Err(not_linked(provider)));
        };
        let token = fetch_token(Arc::clone(tokens), Arc::clone(provider));
        CredentialFuture(FutureState::Pending(Box::pin(token)))
    }

    fn refresh(&self, caller: Option<&Caller>, rejected: &HeaderValue) -> Option<CredentialFuture> {
        let (CredentialKind::Upstream(provider), Some(Caller::User(identity))) = (&self.0, caller)
        else {
            return None;
        };
        let tokens = Arc::clone(identity.upstream()?);
        let rejected = rejected.to_str().ok()?.strip_prefix(BEARER)?.into();
        let token = refresh_token(tokens, Arc::clone(provider), rejected);
        Some(CredentialFuture(FutureState::Pending(Box::pin(token))))
    }

    fn provider(&self) -> Option<&Arc<str>> {
        match &self.0 {
            CredentialKind::Static(_) => None,
            CredentialKind::Upstream(provider) => Some(provider),
        }
    }
}

async fn fetch_token(
    tokens: Arc<dyn UpstreamTokens>,
    provider: Arc<str>,
) -> Result<Option<HeaderValue>, CredentialErrorKind> {
    let Ok(result) =
        timeout(UPSTREAM_TOKEN_TIMEOUT, tokens.token(&provider, UpstreamKind::Access)).await
    else {
        return Err(CredentialErrorKind::Unavailable {
            reason: "timed out waiting for the provider's token",
        });
    };
    let token = result.map_err(|error| match error {
        UpstreamError::NotLinked => not_linked(&provider),
        UpstreamError::Unavailable => CredentialErrorKind::Unavailable {
            reason: "tokens of the provider are unavailable at the moment",
        },
    })?;
    let value = bearer(token.value.expose_secret());
    value.map(Some).map_err(|_| CredentialErrorKind::Unavailable {
        reason: "the provider's token is not a valid header value",
    })
}

/// Returns a fresh token. `None` returns the backend's 401 to the caller; a revoked grant is an error, since the user
/// can link the account again.
async fn refresh_token(
    tokens: Arc<dyn UpstreamTokens>,
    provider: Arc<str>,
    rejected: SecretString,
) -> Result<Option<HeaderValue>, CredentialErrorKind> {
    let refreshed = tokens.refresh(&provider, UpstreamKind::Access, &rejected);
    match timeout(UPSTREAM_TOKEN_TIMEOUT, refreshed).await {
        Ok(Ok(token)) => Ok(bearer(token.value.expose_secret()).ok()),
        Ok(Err(UpstreamError::NotLinked)) => Err(not_linked(&provider)),
        Ok(Err(UpstreamError::Unavailable)) | Err(_) => Ok(None),
    }
}

fn not_linked(provider: &str) -> CredentialErrorKind {
    CredentialErrorKind::NoUpstreamToken { provider: provider.into() }
}

fn bearer(token: &str) -> Result<HeaderValue, SecretError> {
    check_bytes(token, b'!')?;
    sensitive(&format!("{BEARER}{token}"))
}

/// Checks a complete header value.
pub(crate) fn check_header_value(secret: &str) -> Result<(), SecretError> {
    if secret.starts_with(' ') || secret.ends_with(' ') {
        // Receivers strip surrounding spaces (RFC 9110 section 5.5).
        return Err(SecretError::Illegal);
    }
    check_bytes(secret, b' ')
}

/// Checks the length, and that each byte is between `first` and `~`.
fn check_bytes(secret: &str, first: u8) -> Result<(), SecretError> {
    if secret.is_empty() {
        return Err(SecretError::Empty);
    }
    if secret.len() > MAX_SECRET_LEN {
        return Err(SecretError::TooLong);
    }
    if secret.contains(['\r', '\n']) {
        return Err(SecretError::LineBreak);
    }
    if secret.bytes().all(|byte| (first..=b'~').contains(&byte)) {
        Ok(())
    } else {
        Err(SecretError::Illegal)
    }
}

/// Creates a value that HPACK does not index and `Debug` does not show.
pub(crate) fn sensitive(value: &str) -> Result<HeaderValue, SecretError> {
    let mut value = HeaderValue::from_str(value).map_err(|_| SecretError::Illegal)?;
    value.set_sensitive(true);
    Ok(value)
}

// === impl CredentialFuture ===

impl CredentialFuture {
    fn ready(value: Result<Option<HeaderValue>, CredentialErrorKind>) -> Self {
        Self(FutureState::Ready(Some(value)))
    }
}

impl Future for CredentialFuture {
    type Output = Result<Option<HeaderValue>, CredentialErrorKind>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            FutureState::Ready(value) => {
                Poll::Ready(value.take().expect("future polled after completion"))
            }
            FutureState::Pending(token) => token.as_mut().poll(cx),
        }
    }
}

impl fmt::Debug for CredentialFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialFuture").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
