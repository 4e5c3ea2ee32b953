//! Upkeep of the records of sessions: they are kept while this replica uses their sessions, and left afterwards.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep};
use vmcp_core::{Caller, lock};
use vmcp_session::{EntryTag, RemovedSession, SessionId, SessionKey, SessionRecord};

use super::SharedSession;
use super::access::SharedSessions;
use super::backend_entry::decode;
use crate::backend::BackendHandle;
use crate::catalog_store::CatalogStore;
use crate::session::store::SessionStore;
use crate::session::{Session, SessionEnd};

/// Maximum number of sessions in one step.
const MAX_BATCH: usize = 256;

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
struct Departure {
    departures: Arc<Departures>,
    id: SessionId,
}

impl Default for Departures {
    fn default() -> Self {
        Self { ids: Mutex::default(), ended: Notify::new(), steps: Semaphore::new(MAX_STEPS) }
    }
}

impl Departures {
    fn begin(self: &Arc<Self>, id: SessionId) -> Option<Departure> {
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

impl SharedSessions {
    /// Forgets a session that was idle or evicted. Its sessions at the backends end if no other replica uses the session.
    pub(crate) fn release(&self, removed: &RemovedSession<Session>) {
        let RemovedSession { state: session, was_used } = removed;
        session.end(SessionEnd::Released);
        // The client of a session that was never used may have yet to begin. Its record would count as lost.
        let Some(record) = session.shared().filter(|_| *was_used).cloned() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Some(departure) = self.departures.begin(record.key.id) else {
            tracing::debug!("too many sessions are left at the same time");
            return;
        };
        let (caller, catalogs) = (session.caller(), self.catalogs.clone());
        runtime.spawn(leave(record, caller, catalogs, departure));
    }
}

async fn leave(
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

/// Ends the sessions at the backends that a record names, in the background, without those of the entries `closed`.
pub(super) fn end_backend_sessions(
    catalogs: &Weak<CatalogStore>,
    record: &SessionRecord,
    closed: &[EntryTag],
    caller: &Caller,
) {
    let Some(catalogs) = catalogs.upgrade() else { return };
    for (name, entry) in &record.backend_sessions {
        if closed.contains(&entry.tag) {
            continue;
        }
        // Without the backend, or with another URL, nothing is left to send it to.
        let Some(backend) = backend(&catalogs, name) else { continue };
        let Some(session) = decode(&backend, &entry.value, caller) else { continue };
        let handle = Arc::clone(&backend);
        backend.spawn_close(async move { session.close(&handle).await });
    }
}

/// Returns the configured backend of a name.
pub(super) fn backend(catalogs: &CatalogStore, name: &str) -> Option<Arc<BackendHandle>> {
    let snapshot = catalogs.snapshot();
    snapshot.backends.iter().find(|backend| backend.name() == name).cloned()
}

/// Keeps the records of the sessions that this replica uses, until the store is dropped.
pub(crate) async fn keep_records(store: Weak<SessionStore>, ttl: Duration) {
    let interval = ttl / 4;
    let mut since = Instant::now();
    loop {
        sleep(interval).await;
        let Some(store) = store.upgrade() else { return };
        let begin = Instant::now();
        let used = store.sessions.used_since(since);
        let keys = used.iter().filter_map(|session| Some(session.shared()?.key));
        let keys: Vec<SessionKey> = keys.collect();
        let Some(shared) = &store.shared else { return };
        let mut touched = true;
        for batch in keys.chunks(MAX_BATCH) {
            if let Err(error) = shared.storage.touch(batch).await {
                tracing::debug!(%error, "failed to keep the records of sessions");
                touched = false;
                break;
            }
        }
        // After a failure, the next round repeats this one.
        if touched {
            since = begin;
        }
    }
}
