//! Entering of what this replica has into a record that was lost, or may have lost writes.

use std::sync::atomic::Ordering;

use vmcp_session::{SessionRecord, StorageError};

use super::SharedSession;
use crate::catalog_store::CatalogStore;
use crate::session::Session;

impl SharedSession {
    /// Takes note of a reason to doubt that the record has what this replica has.
    pub(crate) fn doubt(&self) {
        self.has_waited.store(false, Ordering::Relaxed);
        // A wrapped counter would need 2^32 reasons within one merge.
        self.doubts.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns `true` if the record may lack what this replica has.
    pub(crate) fn is_doubted(&self) -> bool {
        self.doubts.load(Ordering::SeqCst) != 0
    }
}

impl Session {
    /// Enters what this replica has into the record, if that is in doubt, and follows the record.
    pub(crate) async fn merge_if_doubted(
        &self,
        catalogs: &CatalogStore,
    ) -> Result<(), StorageError> {
        match &self.shared {
            Some(shared) if shared.is_doubted() => self.merge(shared, catalogs).await,
            _ => Ok(()),
        }
    }

    /// Enters what this replica has into the record, and follows the record: of several sessions with one backend, all replicas use
    /// that of the record, and the others end.
    pub(super) async fn merge(
        &self,
        shared: &SharedSession,
        catalogs: &CatalogStore,
    ) -> Result<(), StorageError> {
        let doubts = shared.doubts.load(Ordering::SeqCst);
        shared.outdate();
        let own = self.own_record();
        let merged = shared.storage.merge(&shared.key, &own, shared.holds_stream()).await?;
        shared.follow_level(&merged);
        for slot in self.backend_slots() {
            slot.give_way(&merged.record, &self.caller(), &|| self.level()).await;
        }
        self.apply(&merged.record, catalogs);
        // Kept if a reason came meanwhile.
        _ = shared.doubts.compare_exchange(doubts, 0, Ordering::SeqCst, Ordering::SeqCst);
        Ok(())
    }

    /// Returns what this replica has of the record.
    fn own_record(&self) -> SessionRecord {
        let level = self.level().and_then(|level| String::from_utf8(level.into()).ok());
        let slots = self.backend_slots();
        let names = slots.iter().map(|slot| Box::from(slot.backend.name()));
        let subscriptions = slots.iter().zip(names).flat_map(|(slot, name): (_, Box<str>)| {
            slot.subscriptions().into_iter().map(move |uri| (name.clone(), uri))
        });
        let entries = slots.iter().filter_map(|slot| slot.own_entry());
        let mut record = SessionRecord {
            level: level.map(Into::into),
            backend_sessions: entries.collect(),
            subscriptions: subscriptions.collect(),
        };
        record.backend_sessions.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        record.subscriptions.sort_unstable();
        record
    }
}
