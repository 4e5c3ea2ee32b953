//! Key of a session's links: a catalog fetched with its tokens is valid under this key alone.

use std::sync::Arc;

use vmcp_auth_store::SessionId;
use vmcp_core::Fingerprint;

use super::READ;
use crate::server::Inner;

impl Inner {
    /// Returns the key of a session's links, at most one second old. `None` if the store is unavailable.
    pub(super) async fn links(self: &Arc<Self>, session: SessionId) -> Option<Fingerprint> {
        if let Some(links) = self.rows.links.get(&session, self.clock.now()) {
            return Some(links);
        }
        let server = Arc::clone(self);
        let read = || async move { server.read_links(session).await };
        self.rows.link_flights.join(session, read).await
    }

    /// The key covers account and scopes of each link, which a refresh of the tokens does not change.
    async fn read_links(&self, session: SessionId) -> Option<Fingerprint> {
        let found = match self.store.session(&session).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(%error, "failed to read what a session has linked");
                return None;
            }
        };
        let rows = found.map(|found| found.rows).unwrap_or_default();
        let linked: Vec<_> = self
            .upstreams
            .iter()
            .filter_map(|leg| {
                let row = rows.get(&leg.name)?;
                let account = self.open_row(session, leg, row).ok()?.subject;
                Some((leg.name.as_str(), account, &row.scopes))
            })
            .collect();
        let (links, now) = (Fingerprint::of(&linked), self.clock.now());
        self.rows.links.insert(session, links, now + READ, now);
        Some(links)
    }
}
