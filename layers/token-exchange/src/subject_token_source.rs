//! Tokens of upstream providers that are exchanged: had from their keeper, and had anew when the authorization
//! server does not take one.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tokio::time::timeout;
use vmcp_core::{CredentialFault, Identity, UpstreamError, UpstreamKind};

use crate::{ExchangeError, Subject};

/// How long the keeper of upstream tokens may take. It may have to refresh one.
const UPSTREAM_TOKEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Whose token of which provider it is.
#[derive(Clone)]
pub(crate) struct SubjectTokenSource {
    identity: Identity,
    provider: Arc<str>,
    kind: UpstreamKind,
}

/// Why there is no token for the backend.
pub(crate) enum TokenError {
    /// The exchange failed.
    Exchange(ExchangeError),
    /// There is nothing to exchange.
    Subject(CredentialFault),
}

impl From<CredentialFault> for TokenError {
    fn from(fault: CredentialFault) -> Self {
        Self::Subject(fault)
    }
}

impl From<ExchangeError> for TokenError {
    fn from(fault: ExchangeError) -> Self {
        Self::Exchange(fault)
    }
}

// === impl Renewal ===

impl SubjectTokenSource {
    pub(crate) fn new(identity: Identity, provider: Arc<str>, kind: UpstreamKind) -> Self {
        Self { identity, provider, kind }
    }

    /// The caller with its token of the provider.
    pub(crate) async fn subject(self) -> Result<Subject, TokenError> {
        let Self { identity, provider, kind } = &self;
        if identity.subject().is_none() {
            return Err(CredentialFault::NoCaller.into());
        }
        let tokens = identity.upstream().ok_or_else(|| self.not_linked())?;
        let Ok(result) = timeout(UPSTREAM_TOKEN_TIMEOUT, tokens.token(provider, *kind)).await
        else {
            let reason = "the provider's token did not come in time";
            return Err(CredentialFault::Unavailable { reason }.into());
        };
        let token = result.map_err(|error| match error {
            UpstreamError::Absent => self.not_linked(),
            UpstreamError::Unavailable => CredentialFault::Unavailable {
                reason: "tokens of the provider cannot be had at the moment",
            },
        })?;
        Ok(Subject::with_upstream(identity, token))
    }

    /// The caller with another token than that of `rejected`, which the exchange answered with `fault`. Where there
    /// is no other one, or it would be answered alike, that is the answer.
    pub(crate) async fn refresh(
        self,
        rejected: Subject,
        fault: ExchangeError,
    ) -> Result<Subject, TokenError> {
        let Self { identity, provider, kind } = &self;
        let tokens = identity.upstream().filter(|_| concerns_subject(&fault));
        let Some(tokens) = tokens else { return Err(fault.into()) };
        let old = SecretString::from(rejected.expose_token());
        match timeout(UPSTREAM_TOKEN_TIMEOUT, tokens.renewed(provider, *kind, &old)).await {
            Ok(Ok(token)) => Ok(Subject::with_upstream(identity, token)),
            Ok(Err(UpstreamError::Absent)) => Err(self.not_linked().into()),
            Ok(Err(UpstreamError::Unavailable)) | Err(_) => Err(fault.into()),
        }
    }

    fn not_linked(&self) -> CredentialFault {
        CredentialFault::NoUpstreamToken { provider: (&*self.provider).into() }
    }
}

/// Whether another subject token may be taken where one was refused so (RFC 6749 section 5.2, RFC 8693
/// section 2.2.2).
fn concerns_subject(fault: &ExchangeError) -> bool {
    const CODES: [&str; 3] = ["invalid_grant", "invalid_request", "invalid_token"];
    matches!(fault, ExchangeError::Rejected { code } if CODES.contains(&&**code))
}
