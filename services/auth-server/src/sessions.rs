//! End of sessions, on this replica and on others.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use vmcp_auth_store::{SessionId, Store, StoreError};
use vmcp_core::Clock;

use crate::revoked_sessions::RevokedSessions;
use crate::upstream_provider::UpstreamProviders;
use crate::upstream_token_cache::UpstreamTokenCache;

/// Delay before the store's revocations are read again after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Sessions as this process knows them: which were revoked, and their cached upstream tokens.
#[derive(Clone)]
pub(crate) struct Sessions {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) providers: UpstreamProviders,
    pub(crate) revoked: Arc<RevokedSessions>,
    pub(crate) token_cache: Arc<UpstreamTokenCache>,
}

impl Sessions {
    /// Ends a session in the store and in this process.
    pub(crate) async fn end(&self, session: SessionId) -> Result<(), StoreError> {
        self.store.end_session(&session).await?;
        self.forget(session);
        Ok(())
    }

    /// Removes the cached state of a session that ended.
    pub(crate) fn forget(&self, session: SessionId) {
        self.revoked.insert(session, self.clock.now());
        for upstream in self.providers.iter() {
            self.token_cache.remove(session, &upstream.name);
        }
    }

    /// Reads the revocations of all replicas, for as long as the future is polled.
    pub(crate) async fn watch_revocations(&self) {
        loop {
            match self.store.revocations().await {
                Ok(mut revocations) => {
                    // Revocations that are ready belong to the history; the stream then waits for new ones.
                    while let Some(Some(revocation)) = revocations.next().now_or_never() {
                        self.forget(revocation.session);
                    }
                    self.revoked.finish_loading();
                    while let Some(revocation) = revocations.next().await {
                        self.forget(revocation.session);
                    }
                    tracing::warn!("revocation stream ended, reconnecting");
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to read revocations from store, retrying");
                }
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}
