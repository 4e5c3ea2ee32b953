//! Upstream tokens of one session, for layers that call on its user's behalf.

use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use vmcp_auth_store::{Digest, SessionId};
use vmcp_core::{
    Fingerprint, LinksFuture, UpstreamError, UpstreamFuture, UpstreamKind, UpstreamToken,
    UpstreamTokens,
};

use super::UpstreamTokenService;
use crate::upstream_token_cache::Requirement;

/// Upstream tokens of one session.
pub(crate) struct SessionTokens {
    service: Arc<UpstreamTokenService>,
    session: SessionId,
}

impl SessionTokens {
    pub(crate) fn new(service: Arc<UpstreamTokenService>, session: SessionId) -> Self {
        Self { service, session }
    }
}

impl UpstreamTokens for SessionTokens {
    fn token<'a>(&'a self, provider: &'a str, kind: UpstreamKind) -> UpstreamFuture<'a> {
        Box::pin(async move {
            let requirement = match kind {
                UpstreamKind::Access => Requirement::Access,
                UpstreamKind::Id => Requirement::Id,
            };
            self.load(provider, kind, requirement).await
        })
    }

    fn refresh<'a>(
        &'a self,
        provider: &'a str,
        kind: UpstreamKind,
        refused: &'a SecretString,
    ) -> UpstreamFuture<'a> {
        let requirement = Requirement::Replacement(kind, Digest::of(refused.expose_secret()));
        Box::pin(self.load(provider, kind, requirement))
    }

    fn session(&self) -> Option<Fingerprint> {
        Some(Fingerprint::of(&self.session))
    }

    fn links(&self) -> LinksFuture<'_> {
        Box::pin(self.service.link_key(self.session))
    }
}

impl SessionTokens {
    async fn load(
        &self,
        provider: &str,
        kind: UpstreamKind,
        requirement: Requirement,
    ) -> Result<UpstreamToken, UpstreamError> {
        let upstream = self.service.providers.by_name(provider);
        let upstream = upstream.ok_or(UpstreamError::NotLinked)?;
        let stored = self.service.get(self.session, upstream, requirement).await?;
        let expires_at = stored.tokens.expires_at.filter(|_| kind == UpstreamKind::Access);
        let value = stored.token(kind).ok_or(UpstreamError::NotLinked)?.clone();
        Ok(UpstreamToken { value, expires_at })
    }
}

impl fmt::Debug for SessionTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionTokens").field("session", &self.session).finish_non_exhaustive()
    }
}
