//! Application of a record that this or another replica has changed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use vmcp_core::lock;
use vmcp_session::{EntryTag, SessionRecord, StorageError};

use super::backend_sessions::{backend, entry_of};
use crate::catalog_store::CatalogStore;
use crate::session::{BackendSessionSlot, Session};

impl Session {
    /// Returns the tags of the record's entries that this replica uses.
    pub(crate) fn entry_tags(&self) -> Vec<EntryTag> {
        lock(&self.backend_slots).iter().filter_map(|slot| slot.entry_tag()).collect()
    }

    /// Uses the backend sessions and subscriptions of the record.
    pub(crate) fn apply(&self, record: &SessionRecord, catalogs: &CatalogStore) {
        let caller = self.caller();
        let with_sessions = record.backend_sessions.iter().map(|(name, _)| name);
        let with_subscriptions = record.subscriptions.iter().map(|(name, _)| name);
        let mut names: Vec<_> = with_sessions.chain(with_subscriptions).collect();
        names.sort_unstable();
        names.dedup();
        for backend in names.into_iter().filter_map(|name| backend(catalogs, name)) {
            _ = self.slot(&backend);
        }
        for slot in self.backend_slots() {
            let entry = entry_of(record, slot.backend.name());
            let is_other = entry.is_some_and(|entry| slot.adopt(entry, &caller));
            let is_changed = slot.set_subscriptions(record);
            // A stateless backend's stream names the resources.
            if is_other || is_changed && slot.open().is_none() {
                slot.stop_listening();
            }
        }
    }

    /// Returns the slots of all backend sessions of the record, including those that other replicas opened.
    pub(crate) async fn all_backend_slots(
        &self,
        catalogs: &CatalogStore,
    ) -> Result<Vec<Arc<BackendSessionSlot>>, StorageError> {
        if let Some(shared) = &self.shared {
            let restored = shared.read().await?;
            if restored.is_lost {
                self.merge(shared, catalogs).await?;
            } else {
                self.apply(&restored.record, catalogs);
            }
        }
        Ok(self.backend_slots())
    }

    /// Adds or removes a subscription in the record, if replicas share it.
    pub(crate) async fn store_subscription(
        &self,
        backend: &str,
        uri: &str,
        wanted: bool,
    ) -> Result<(), StorageError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        shared.outdate();
        shared.storage.subscribe(&shared.key, backend, uri, wanted).await
    }

    /// Records that the client has its notification stream here. Returns `false` if it has it elsewhere by now.
    pub(crate) async fn hold_stream(&self, catalogs: &CatalogStore) -> Result<bool, StorageError> {
        let Some(shared) = &self.shared else { return Ok(true) };
        let was_held = shared.set_holds_stream(true);
        match shared.storage.hold_stream(&shared.key).await {
            Ok(restored) => {
                if restored.is_lost {
                    self.merge(shared, catalogs).await?;
                } else {
                    shared.follow_level(&restored);
                    self.apply(&restored.record, catalogs);
                }
                Ok(shared.holds_stream())
            }
            Err(error) => {
                shared.set_holds_stream(was_held);
                Err(error)
            }
        }
    }

    /// Ends the notification stream, because another replica has it now.
    pub(crate) fn release_stream(&self) {
        let Some(shared) = &self.shared else { return };
        shared.set_holds_stream(false);
        for slot in self.backend_slots() {
            slot.stop_listening();
        }
        // Set before the stream is removed: the next one belongs to a client that was elsewhere.
        self.may_have_missed.store(true, Ordering::Relaxed);
        if let Some(streams) = self.existing_streams() {
            streams.end_standing();
        }
    }
}
