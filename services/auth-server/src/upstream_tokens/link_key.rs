//! Key of a session's links: a catalog fetched with its tokens is valid under this key alone.

use std::sync::Arc;

use vmcp_auth_store::SessionId;
use vmcp_core::Fingerprint;

use super::UpstreamTokenService;
use crate::upstream_token_cache::MAX_CACHE_AGE;

impl UpstreamTokenService {
    /// Returns the key of a session's links, at most one second old. `None` if the store is unavailable.
    pub(super) async fn link_key(self: &Arc<Self>, session: SessionId) -> Option<Fingerprint> {
        if let Some(links) = self.token_cache.link_keys.get(&session, self.clock.now()) {
            return Some(links);
        }
        let server = Arc::clone(self);
        let read = || async move { server.read_link_key(session).await };
        self.token_cache.link_single_flight.join(session, read).await
    }

    /// The key covers account and scopes of each link, which a refresh of the tokens does not change.
    async fn read_link_key(&self, session: SessionId) -> Option<Fingerprint> {
        let found = match self.store.session(&session).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "failed to read session links from store");
                return None;
            }
        };
        let rows = found.map(|found| found.rows).unwrap_or_default();
        let linked_accounts: Vec<_> = self
            .providers
            .iter()
            .filter_map(|upstream| {
                let record = rows.get(&upstream.name)?;
                let account = self.cipher.decrypt_tokens(session, upstream, record).ok()?.subject;
                Some((upstream.name.as_str(), account, &record.scopes))
            })
            .collect();
        let (links, now) = (Fingerprint::of(&linked_accounts), self.clock.now());
        self.token_cache.link_keys.insert(session, links, now + MAX_CACHE_AGE, now);
        Some(links)
    }
}
