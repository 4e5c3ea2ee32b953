//! The [`AssumeRole`] trait, its input and its result.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use aws_smithy_runtime_api::client::identity::Identity as AwsIdentity;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use vmcp_core::CredentialErrorKind;

use crate::{RoleArn, SessionDuration, SessionName};

/// Session of one caller in one role. Sessions with the same [`key`](RoleSession::key) share cached credentials. The key
/// covers role, session name, duration and holder.
#[derive(Clone, Debug)]
pub struct RoleSession {
    role: RoleArn,
    session: SessionName,
    duration: SessionDuration,
    key: [u8; 32],
}

/// Source of role credentials. [`Sts`](crate::Sts) requests them from AWS; [`CredentialCache`](crate::CredentialCache)
/// caches those of another source.
///
/// Closures that take an `Arc<RoleSession>` and the caller's token implement this trait.
pub trait AssumeRole: Send + Sync + 'static {
    /// Exchanges the caller's `token` for credentials of the role in `role_session`.
    fn assume(
        &self,
        role_session: &Arc<RoleSession>,
        token: &SecretString,
    ) -> impl Future<Output = Result<Arc<Credentials>, AssumeError>> + Send;

    /// Reports that the service rejected `credentials`. A cache removes them; the default implementation does nothing.
    fn invalidate(&self, role_session: &RoleSession, credentials: &Credentials) {
        let _ = (role_session, credentials);
    }
}

/// Temporary AWS credentials. The secret parts have no accessor and are zeroed when the last clone is dropped.
#[derive(Clone)]
pub struct Credentials {
    access_key_id: Box<str>,
    signing: AwsIdentity,
    expires_at: SystemTime,
}

/// Error of [`Credentials::new`]: a part cannot be used in a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the credentials are empty, longer than 16 KiB, or not of visible ASCII characters")]
pub struct InvalidCredentialsError;

/// Failure to obtain credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssumeError {
    /// STS rejected the token, or does not allow the caller to assume the role. A retry fails again.
    #[error("the role was refused: {code}")]
    Rejected {
        /// Error code of the STS API or a fixed text; never other text of the response.
        code: Box<str>,
    },
    /// STS sent no usable response. A later retry may succeed.
    #[error("the role cannot be assumed at the moment: {reason}")]
    Unavailable {
        /// Fixed text.
        reason: &'static str,
    },
}

// === impl RoleSession ===

impl RoleSession {
    /// Creates a session. `holder` identifies the token's holder, for example by issuer and subject. Its parts are
    /// delimited: `["a", "bc"]` and `["ab", "c"]` are different holders.
    #[must_use]
    pub fn new(
        role: RoleArn,
        session: SessionName,
        duration: SessionDuration,
        holder: &[&str],
    ) -> Self {
        let seconds = duration.seconds().to_string();
        let parts = [role.as_str(), session.as_str(), &seconds];
        let key = digest(parts.iter().chain(holder).map(|part| part.as_bytes()));
        Self { role, session, duration, key }
    }

    /// Returns the role.
    #[must_use]
    pub fn role(&self) -> &RoleArn {
        &self.role
    }

    /// Returns the session name, which AWS writes to its logs.
    #[must_use]
    pub fn session(&self) -> &SessionName {
        &self.session
    }

    /// Returns the requested lifetime of the credentials.
    #[must_use]
    pub fn duration(&self) -> SessionDuration {
        self.duration
    }

    /// Returns the digest of role, session name, duration and holder.
    #[must_use]
    pub fn key(&self) -> &[u8; 32] {
        &self.key
    }
}

/// Returns the SHA-256 digest of `parts`, each prefixed with its length so that the boundaries between parts count.
pub(crate) fn digest<'a>(parts: impl Iterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

// === impl AssumeRole ===

impl<F, Fut> AssumeRole for F
where
    F: Fn(Arc<RoleSession>, SecretString) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Credentials, AssumeError>> + Send,
{
    async fn assume(
        &self,
        role_session: &Arc<RoleSession>,
        token: &SecretString,
    ) -> Result<Arc<Credentials>, AssumeError> {
        self(Arc::clone(role_session), token.clone()).await.map(Arc::new)
    }
}

// === impl Credentials ===

impl Credentials {
    /// Creates credentials that are valid until `expires_at`.
    ///
    /// # Errors
    /// Returns an error if a part is empty, longer than 16 KiB, or contains characters other than visible ASCII.
    pub fn new(
        access_key_id: &str,
        secret_access_key: &SecretString,
        session_token: &SecretString,
        expires_at: SystemTime,
    ) -> Result<Self, InvalidCredentialsError> {
        let (secret, token) = (secret_access_key.expose_secret(), session_token.expose_secret());
        let usable = |part: &str| {
            (1..=16 << 10).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if ![access_key_id, secret, token].into_iter().all(usable) {
            return Err(InvalidCredentialsError);
        }
        let signing = aws_credential_types::Credentials::new(
            access_key_id,
            secret,
            Some(token.to_owned()),
            Some(expires_at),
            "AssumeRoleWithWebIdentity",
        );
        Ok(Self { access_key_id: access_key_id.into(), signing: signing.into(), expires_at })
    }

    /// Returns the access key id, which is not secret.
    #[must_use]
    pub fn access_key_id(&self) -> &str {
        &self.access_key_id
    }

    /// Returns the expiry.
    #[must_use]
    pub fn expires_at(&self) -> SystemTime {
        self.expires_at
    }

    pub(crate) fn signing(&self) -> &AwsIdentity {
        &self.signing
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key_id", &self.access_key_id)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

// === impl AssumeError ===

impl From<AssumeError> for CredentialErrorKind {
    fn from(error: AssumeError) -> Self {
        match error {
            AssumeError::Rejected { code } => Self::Rejected { reason: code },
            AssumeError::Unavailable { reason } => Self::Unavailable { reason },
        }
    }
}
