//! Subject tokens of upstream providers, refreshed if the authorization server rejects one.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tokio::time::timeout;
use vmcp_core::{CredentialErrorKind, Identity, UpstreamError, UpstreamKind};

use crate::{ExchangeError, Subject};

/// Timeout of the upstream token store, which may have to refresh a token.
const UPSTREAM_TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Source of a caller's token of an upstream provider.
#[derive(Clone)]
pub(crate) struct SubjectTokenSource {
    identity: Identity,
    provider: Arc<str>,
    kind: UpstreamKind,
}

/// The error of a request without a token for the backend.
pub(crate) enum TokenError {
    /// The exchange failed.
    Exchange(ExchangeError),
    /// The caller has no subject token.
    Subject(CredentialErrorKind),
}

impl From<CredentialErrorKind> for TokenError {
    fn from(fault: CredentialErrorKind) -> Self {
        Self::Subject(fault)
    }
}

impl From<ExchangeError> for TokenError {
    fn from(fault: ExchangeError) -> Self {
        Self::Exchange(fault)
    }
}

// === impl SubjectTokenSource ===

impl SubjectTokenSource {
    pub(crate) fn new(identity: Identity, provider: Arc<str>, kind: UpstreamKind) -> Self {
        Self { identity, provider, kind }
    }

    /// Returns the caller with its token of the provider.
    pub(crate) async fn subject(self) -> Result<Subject, TokenError> {
        let Self { identity, provider, kind } = &self;
        if identity.subject().is_none() {
            return Err(CredentialErrorKind::NoCaller.into());
        }
        let tokens = identity.upstream().ok_or_else(|| self.not_linked())?;
        let Ok(result) = timeout(UPSTREAM_TOKEN_TIMEOUT, tokens.token(provider, *kind)).await
        else {
            let reason = "timed out waiting for the provider's token";
            return Err(CredentialErrorKind::Unavailable { reason }.into());
        };
        let token = result.map_err(|error| match error {
            UpstreamError::NotLinked => self.not_linked(),
            UpstreamError::Unavailable => CredentialErrorKind::Unavailable {
                reason: "tokens of the provider are unavailable at the moment",
            },
        })?;
        Ok(Subject::with_upstream(identity, token))
    }

    /// Returns the caller with another token than that of `rejected`, for which the exchange failed with `fault`.
    /// Returns `fault` without another token, or if another token would not help.
    pub(crate) async fn refresh(
        self,
        rejected: Subject,
        fault: ExchangeError,
    ) -> Result<Subject, TokenError> {
        let Self { identity, provider, kind } = &self;
        let tokens = identity.upstream().filter(|_| concerns_subject(&fault));
        let Some(tokens) = tokens else { return Err(fault.into()) };
        let old = SecretString::from(rejected.expose_token());
        match timeout(UPSTREAM_TOKEN_TIMEOUT, tokens.refresh(provider, *kind, &old)).await {
            Ok(Ok(token)) => Ok(Subject::with_upstream(identity, token)),
            Ok(Err(UpstreamError::NotLinked)) => Err(self.not_linked().into()),
            Ok(Err(UpstreamError::Unavailable)) | Err(_) => Err(fault.into()),
        }
    }

    fn not_linked(&self) -> CredentialErrorKind {
        CredentialErrorKind::NoUpstreamToken { provider: (&*self.provider).into() }
    }
}

/// Returns `true` if the error concerns the subject token, so that another one may be accepted (RFC 6749 section 5.2,
/// RFC 8693 section 2.2.2).
fn concerns_subject(fault: &ExchangeError) -> bool {
    const CODES: [&str; 3] = ["invalid_grant", "invalid_request", "invalid_token"];
    matches!(fault, ExchangeError::Rejected { code } if CODES.contains(&&**code))
}
