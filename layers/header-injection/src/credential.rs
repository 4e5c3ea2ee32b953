//! What is put into the header.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::timeout;
use vmcp_core::{Caller, CredentialFault, UpstreamError, UpstreamKind, UpstreamTokens};

/// The longest secret or token, in bytes.
const MAX_LENGTH: usize = 16 * 1024;

/// What is before a token (RFC 6750 section 2.1).
const BEARER: &str = "Bearer ";

/// How long the keeper of upstream tokens may take. It may have to refresh one.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the header's value comes from. Closures that take an `Option<&Caller>` and return such a
/// future are credentials too.
pub trait Credentials: Send + Sync + 'static {
    /// Gives the value, or `None` if the request goes without.
    type Future: Future<Output = Result<Option<HeaderValue>, CredentialFault>> + Send + 'static;

    /// The value for a request on behalf of `caller`; `None` when the request doesn't say whose it
    /// is.
    fn value(&self, caller: Option<&Caller>) -> Self::Future;

    /// The provider whose token it is, if it is one's.
    fn provider(&self) -> Option<&Arc<str>> {
        None
    }

    /// Another value than `refused`, which a backend answered with 401; asked only where there is a
    /// [`provider`](Self::provider). `None`, now or later: there is none, and the backend's answer counts.
    fn renewed(&self, caller: Option<&Caller>, refused: &HeaderValue) -> Option<Self::Future> {
        _ = (caller, refused);
        None
    }
}

/// The usual credentials. See the [crate docs](crate) for which does what.
#[derive(Clone, Debug)]
pub struct Credential(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// Sensitive, so that its `Debug` form hides it.
    Ready(HeaderValue),
    Upstream(Arc<str>),
}

/// Why a secret cannot stand in a header. Never shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// There is none.
    #[error("the secret is empty")]
    Empty,
    /// Often the last byte of a file.
    #[error("the secret has a line break: was it written with one at its end?")]
    LineBreak,
    /// What a header cannot carry, or receivers read differently.
    #[error("the secret has characters other than visible ASCII")]
    Illegal,
    /// Servers refuse such headers.
    #[error("the secret is longer than {MAX_LENGTH} bytes")]
    TooLong,
}

/// What [`Credential`] answers with: at once, except for tokens of upstream providers.
pub struct CredentialFuture(State);

enum State {
    /// Until it is taken.
    There(Option<Result<Option<HeaderValue>, CredentialFault>>),
    Asked(Pin<Box<dyn Future<Output = Result<Option<HeaderValue>, CredentialFault>> + Send>>),
}

// === impl Credentials ===

impl<F, Fut> Credentials for F
where
    F: Fn(Option<&Caller>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Option<HeaderValue>, CredentialFault>> + Send + 'static,
{
    type Future = Fut;

    fn value(&self, caller: Option<&Caller>) -> Fut {
        self(caller)
    }
}

// === impl Credential ===

impl Credential {
    /// The secret as it is, for every request.
    ///
    /// # Errors
    /// It cannot stand in a header.
    pub fn fixed(secret: &SecretString) -> Result<Self, SecretError> {
        let secret = secret.expose_secret();
        check_fixed(secret)?;
        sensitive(secret).map(Kind::Ready).map(Self)
    }

    /// The secret as a bearer token (RFC 6750 section 2.1), for every request.
    ///
    /// # Errors
    /// It cannot stand in a header.
    pub fn bearer(secret: &SecretString) -> Result<Self, SecretError> {
        bearer(secret.expose_secret()).map(Kind::Ready).map(Self)
    }

    /// The caller's access token of `provider` as a bearer token. Requests of the gateway itself go
    /// without.
    #[must_use]
    pub fn upstream(provider: &str) -> Self {
        Self(Kind::Upstream(provider.into()))
    }
}

impl Credentials for Credential {
    type Future = CredentialFuture;

    fn value(&self, caller: Option<&Caller>) -> CredentialFuture {
        let provider = match &self.0 {
            Kind::Ready(value) => return CredentialFuture::there(Ok(Some(value.clone()))),
            Kind::Upstream(provider) => provider,
        };
        let identity = match caller {
            Some(Caller::Gateway) => return CredentialFuture::there(Ok(None)),
            Some(Caller::User(identity)) if identity.subject().is_some() => identity,
            Some(Caller::User(_)) | None => {
                return CredentialFuture::there(Err(CredentialFault::NoCaller));
            }
        };
        let Some(tokens) = identity.upstream() else {
            return CredentialFuture::there(Err(absent(provider)));
        };
        let token = ask(Arc::clone(tokens), Arc::clone(provider));
        CredentialFuture(State::Asked(Box::pin(token)))
    }

    fn renewed(&self, caller: Option<&Caller>, refused: &HeaderValue) -> Option<CredentialFuture> {
        let (Kind::Upstream(provider), Some(Caller::User(identity))) = (&self.0, caller) else {
            return None;
        };
        let tokens = Arc::clone(identity.upstream()?);
        let refused = refused.to_str().ok()?.strip_prefix(BEARER)?.into();
        let token = ask_again(tokens, Arc::clone(provider), refused);
        Some(CredentialFuture(State::Asked(Box::pin(token))))
    }

    fn provider(&self) -> Option<&Arc<str>> {
        match &self.0 {
            Kind::Ready(_) => None,
            Kind::Upstream(provider) => Some(provider),
        }
    }
}

async fn ask(
    tokens: Arc<dyn UpstreamTokens>,
    provider: Arc<str>,
) -> Result<Option<HeaderValue>, CredentialFault> {
    let Ok(answer) = timeout(PATIENCE, tokens.token(&provider, UpstreamKind::Access)).await else {
        return Err(CredentialFault::Unavailable {
            reason: "the provider's token did not come in time",
        });
    };
    let token = answer.map_err(|error| match error {
        UpstreamError::Absent => absent(&provider),
        UpstreamError::Unavailable => CredentialFault::Unavailable {
            reason: "tokens of the provider cannot be had at the moment",
        },
    })?;
    let value = bearer(token.value.expose_secret());
    value.map(Some).map_err(|_| CredentialFault::Unavailable {
        reason: "the provider's token cannot stand in a header",
    })
}

/// Where no other can be had, what the backend answered to the refused one counts; a dead grant is something
/// that its user can do something about.
async fn ask_again(
    tokens: Arc<dyn UpstreamTokens>,
    provider: Arc<str>,
    refused: SecretString,
) -> Result<Option<HeaderValue>, CredentialFault> {
    let renewed = tokens.renewed(&provider, UpstreamKind::Access, &refused);
    match timeout(PATIENCE, renewed).await {
        Ok(Ok(token)) => Ok(bearer(token.value.expose_secret()).ok()),
        Ok(Err(UpstreamError::Absent)) => Err(absent(&provider)),
        Ok(Err(UpstreamError::Unavailable)) | Err(_) => Ok(None),
    }
}

fn absent(provider: &str) -> CredentialFault {
    CredentialFault::NoUpstreamToken { provider: provider.into() }
}

fn bearer(token: &str) -> Result<HeaderValue, SecretError> {
    check(token, b'!')?;
    sensitive(&format!("{BEARER}{token}"))
}

/// Checks the whole value of a header.
pub(crate) fn check_fixed(secret: &str) -> Result<(), SecretError> {
    if secret.starts_with(' ') || secret.ends_with(' ') {
        // Receivers cut them off (RFC 9110 section 5.5).
        return Err(SecretError::Illegal);
    }
    check(secret, b' ')
}

/// Each byte is from `first` to `~`.
fn check(secret: &str, first: u8) -> Result<(), SecretError> {
    if secret.is_empty() {
        return Err(SecretError::Empty);
    }
    if secret.len() > MAX_LENGTH {
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

/// Never indexed by HPACK, never shown by `Debug`.
pub(crate) fn sensitive(value: &str) -> Result<HeaderValue, SecretError> {
    let mut value = HeaderValue::from_str(value).map_err(|_| SecretError::Illegal)?;
    value.set_sensitive(true);
    Ok(value)
}

// === impl CredentialFuture ===

impl CredentialFuture {
    fn there(value: Result<Option<HeaderValue>, CredentialFault>) -> Self {
        Self(State::There(Some(value)))
    }
}

impl Future for CredentialFuture {
    type Output = Result<Option<HeaderValue>, CredentialFault>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            State::There(value) => value.take().map_or(Poll::Pending, Poll::Ready),
            State::Asked(token) => token.as_mut().poll(cx),
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
