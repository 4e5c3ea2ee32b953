//! Getting the credentials of a role for a caller.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use aws_smithy_runtime_api::client::identity::Identity as AwsIdentity;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use vmcp_core::CredentialFault;

use crate::{RoleArn, SessionDuration, SessionName};

/// Who gets to be what: one caller in one role. Two with the same [`key`](Assumption::key) may use
/// the same credentials; a caller's refreshed token makes no difference.
#[derive(Clone, Debug)]
pub struct RoleSession {
    role: RoleArn,
    session: SessionName,
    duration: SessionDuration,
    key: [u8; 32],
}

/// Gets the credentials of a role. [`Sts`](crate::Sts) asks AWS, [`CredentialCache`](crate::Cached) keeps
/// what another one got.
///
/// A closure that takes an [`RoleSession`] and the caller's token is one too.
pub trait AssumeRole: Send + Sync + 'static {
    /// Credentials of the assumption's role, against the caller's `token`.
    fn assume(
        &self,
        role_session: &Arc<RoleSession>,
        token: &SecretString,
    ) -> impl Future<Output = Result<Arc<Credentials>, AssumeError>> + Send;

    /// The service no longer takes these credentials: who keeps any, forgets them.
    fn invalidate(&self, role_session: &RoleSession, credentials: &Credentials) {
        let _ = (role_session, credentials);
    }
}

/// Temporary credentials. Nothing gives the secret parts out again, and they are wiped from memory
/// when the last clone is dropped.
#[derive(Clone)]
pub struct Credentials {
    access_key_id: Box<str>,
    signing: AwsIdentity,
    expires_at: SystemTime,
}

/// What was given is nothing that a request can be signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the credentials are empty, longer than 16 KiB, or not of visible ASCII characters")]
pub struct InvalidCredentialsError;

/// Why there are no credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssumeError {
    /// The caller's token, or the caller in that role, is not accepted. Trying again does not help.
    #[error("the role was refused: {code}")]
    Rejected {
        /// An error code of the STS API, or fixed words. Never text of the answer.
        code: Box<str>,
    },
    /// No answer, or not one that can be used. Trying again later helps.
    #[error("the role cannot be assumed at the moment: {reason}")]
    Unavailable {
        /// In fixed words.
        reason: &'static str,
    },
}

// === impl Assumption ===

impl RoleSession {
    /// `holder` is what tells the token's holder from all others, such as issuer and subject. Its
    /// parts are kept apart: `["a", "bc"]` is not `["ab", "c"]`.
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

    /// The role.
    #[must_use]
    pub fn role(&self) -> &RoleArn {
        &self.role
    }

    /// What the session is called in the logs of AWS.
    #[must_use]
    pub fn session(&self) -> &SessionName {
        &self.session
    }

    /// How long the credentials are wanted for.
    #[must_use]
    pub fn duration(&self) -> SessionDuration {
        self.duration
    }

    /// A digest over all of it, the holder included.
    #[must_use]
    pub fn key(&self) -> &[u8; 32] {
        &self.key
    }
}

/// SHA-256 over parts, each with its length before it: a key for what belongs to all of them together.
pub fn digest<'a>(parts: impl Iterator<Item = &'a [u8]>) -> [u8; 32] {
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
    /// Credentials that are valid until `expires_at`.
    ///
    /// # Errors
    /// One of the three parts cannot be what AWS gave out.
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

    /// Their public part.
    #[must_use]
    pub fn access_key_id(&self) -> &str {
        &self.access_key_id
    }

    /// When they stop being valid.
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

impl From<AssumeError> for CredentialFault {
    fn from(error: AssumeError) -> Self {
        match error {
            AssumeError::Rejected { code } => Self::Refused { reason: code },
            AssumeError::Unavailable { reason } => Self::Unavailable { reason },
        }
    }
}
