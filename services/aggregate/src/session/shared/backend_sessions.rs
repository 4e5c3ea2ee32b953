//! Backend sessions that a record names.

use std::sync::{Arc, Weak};

use vmcp_core::Caller;
use vmcp_session::{BackendEntry, EntryTag, SessionRecord};

use super::backend_entry::decode;
use crate::backend::BackendHandle;
use crate::catalog_store::CatalogStore;

/// Returns the entry of a backend.
pub(crate) fn entry_of<'a>(record: &'a SessionRecord, backend: &str) -> Option<&'a BackendEntry> {
    let entry = record.backend_sessions.iter().find(|(name, _)| **name == *backend);
    entry.map(|(_, entry)| entry)
}

/// Ends the sessions at the backends that a record names, in the background, without those of the entries `closed`.
pub(crate) fn end_backend_sessions(
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
