//! Sessions that this replica leaves, because they were idle or evicted here.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::{Notify, Semaphore};
use vmcp_core::{Caller, lock};
use vmcp_session::SessionId;

use crate::catalog_store::CatalogStore;
use crate::session::shared::SharedSession;
use crate::session::shared::backend_sessions::end_backend_sessions;

/// Maximum number of sessions that are left and not yet answered by the storage. Further records expire by themselves, and the
/// backends end the sessions in them.
const MAX_DEPARTURES: usize = 4096;

/// Maximum number of steps that leave sessions at the same time.
const MAX_STEPS: usize = 16;

/// Sessions that this replica is leaving. A request that restores one of them waits until the record is gone or stays.
#[derive(Debug)]
pub(crate) struct Departures {
    ids: Mutex<HashSet<SessionId>>,
    /// Notified when an id is removed.
    ended: Notify,
    /// One permit for each step.
    steps: Semaphore,
}

/// Guard of a session that this replica is leaving.
pub(super) struct Departure {
    departures: Arc<Departures>,
    id: SessionId,
}

impl Default for Departures {
    fn default() -> Self {
        Self { ids: Mutex::default(), ended: Notify::new(), steps: Semaphore::new(MAX_STEPS) }
    }
}

impl Departures {
    pub(super) fn begin(self: &Arc<Self>, id: SessionId) -> Option<Departure> {
        let mut ids = lock(&self.ids);
        let is_new = ids.len() < MAX_DEPARTURES && ids.insert(id);
        is_new.then(|| Departure { departures: Arc::clone(self), id })
    }

    /// Waits until this replica is not leaving the session.
    pub(super) async fn wait(&self, id: SessionId) {
        loop {
            // Created before the check, so a removal in between is noticed.
            let ended = self.ended.notified();
            if !lock(&self.ids).contains(&id) {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        lock(&self.departures.ids).remove(&self.id);
        self.departures.ended.notify_waiters();
    }
}

/// Leaves a session, and ends its sessions at the backends if no other replica uses it.
pub(super) async fn leave(
    shared: Arc<SharedSession>,
    caller: Caller,
    catalogs: Weak<CatalogStore>,
    departure: Departure,
) {
    let _permit = departure.departures.steps.acquire().await;
    match shared.storage.leave(&shared.key).await {
        Ok(Some(record)) => end_backend_sessions(&catalogs, &record, &[], &caller),
        Ok(None) => {}
        Err(error) => tracing::debug!(%error, "failed to leave a session"),
    }
}
