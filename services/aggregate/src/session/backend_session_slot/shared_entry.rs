//! Backend sessions that replicas share: taken over from the record of the client's session, or entered into it.

use std::sync::{Arc, Mutex};

use vmcp_core::{BoxError, Caller, lock};
use vmcp_session::{BackendEntry, EntryTag, Replacement, SessionRecord, StorageError};

use super::{BackendSessionSlot, LevelSource};
use crate::backend::handshake::{BackendSession, ClientInfo};
use crate::session::shared::SharedSession;
use crate::session::shared::backend_entry::{decode, encode};
use crate::session::shared::backend_sessions::entry_of;

/// Maximum number of attempts to enter a session while other replicas replace the entry.
const MAX_ATTEMPTS: usize = 4;

/// Entry of a slot in the record of its client's session.
#[derive(Debug)]
pub(super) struct SharedEntry {
    session: Arc<SharedSession>,
    /// Tag of the entry of the slot's session. While the slot has none, that of a session that the backend has forgotten.
    tag: Mutex<Option<EntryTag>>,
}

impl SharedEntry {
    pub(super) fn new(session: &Arc<SharedSession>) -> Self {
        Self { session: Arc::clone(session), tag: Mutex::default() }
    }

    pub(super) fn tag(&self) -> Option<EntryTag> {
        *lock(&self.tag)
    }

    /// Forgets the entry, which stays in the record.
    pub(super) fn forget(&self) {
        self.set_tag(None);
    }

    fn set_tag(&self, tag: Option<EntryTag>) {
        *lock(&self.tag) = tag;
    }
}

impl BackendSessionSlot {
    /// Returns the tag of the slot's session in the record of its client's session, if it has an entry.
    pub(crate) fn entry_tag(&self) -> Option<EntryTag> {
        self.shared_entry.as_ref()?.tag()
    }

    /// Takes over the session of the record, or opens one and enters it. Of several replicas that open one at the same time, one
    /// enters its own, and the others end theirs.
    pub(super) async fn open_shared(
        &self,
        shared: &SharedEntry,
        client_info: ClientInfo<'_>,
        level: LevelSource<'_>,
    ) -> Result<Arc<BackendSession>, BoxError> {
        let (name, storage) = (self.backend.name(), &shared.session.storage);
        let forgotten = shared.tag();
        if forgotten.is_some() {
            shared.session.outdate();
        }
        let restored = shared.session.record_with(name).await?;
        // A record in doubt may lack subscriptions, which are being entered.
        if !restored.is_lost || !shared.session.is_doubted() {
            self.set_subscriptions(&restored.record);
        }
        let mut present = entry_of(&restored.record, name).cloned();
        for _ in 0..MAX_ATTEMPTS {
            if let Some(entry) = present.as_ref().filter(|entry| Some(entry.tag) != forgotten)
                && let Some(session) = decode(&self.backend, &entry.value, client_info.caller)
            {
                shared.set_tag(Some(entry.tag));
                let session = Arc::new(session);
                // The replica that opened it has sent the level.
                return Ok(self.publish(session, level, &mut level(), client_info.cause).await);
            }
            if present.is_some() || restored.is_lost {
                self.require_mark();
            }
            let mut known = None;
            let opened = self.open_new(client_info, level, &mut known).await?;
            let value = encode(&self.backend, opened.backend_session())?;
            let expected = present.as_ref().map(|entry| entry.tag);
            shared.session.outdate();
            let replaced =
                storage.replace_backend_session(&shared.session.key, name, expected, Some(value));
            match replaced.await? {
                Replacement::Stored(tag) => {
                    shared.set_tag(tag);
                    return Ok(self
                        .publish(opened.keep(), level, &mut known, client_info.cause)
                        .await);
                }
                // Dropping the guard ends the session that was opened here.
                Replacement::Conflict(entry) => present = entry,
            }
        }
        Err(StorageError::Unavailable.into())
    }

    /// Uses the session of the record, unless it is the slot's own. Returns `true` if the slot's session has changed.
    pub(crate) fn adopt(&self, entry: &BackendEntry, caller: &Caller) -> bool {
        let Some(shared) = &self.shared_entry else { return false };
        // A session that is being opened comes from the record too.
        let Ok(_opening) = self.opening.try_lock() else { return false };
        if shared.tag() == Some(entry.tag) {
            return false;
        }
        let Some(session) = decode(&self.backend, &entry.value, caller) else { return false };
        shared.set_tag(Some(entry.tag));
        self.backend_session.store(Some(Arc::new(session)));
        true
    }

    /// Returns the entry of the slot's session with the backend's name, if it has one.
    pub(crate) fn own_entry(&self) -> Option<(Box<str>, BackendEntry)> {
        let tag = self.entry_tag()?;
        let value = encode(&self.backend, &*self.open()?).ok()?;
        Some((self.backend.name().into(), BackendEntry { tag, value }))
    }

    /// Uses the session of the record in place of the slot's own, which ends after its calls. The client's next result is marked.
    pub(crate) async fn give_way(
        &self,
        record: &SessionRecord,
        caller: &Caller,
        level: LevelSource<'_>,
    ) {
        let Some(shared) = &self.shared_entry else { return };
        let Some(entry) = entry_of(record, self.backend.name()) else { return };
        let _opening = self.opening.lock().await;
        if shared.tag() == Some(entry.tag) {
            return;
        }
        let Some(own) = self.open() else { return };
        let Some(session) = decode(&self.backend, &entry.value, caller) else { return };
        shared.set_tag(Some(entry.tag));
        if own.state() == session.state() {
            return;
        }
        let session = Arc::new(session);
        self.set_subscriptions(record);
        self.require_mark();
        self.backend_session.store(Some(Arc::clone(&session)));
        self.stop_listening();
        self.end_after_calls(own);
        self.send_state(&session, level, &mut None, None).await;
    }

    /// Replaces the subscriptions by those of the record. Returns `true` if they have changed.
    pub(crate) fn set_subscriptions(&self, record: &SessionRecord) -> bool {
        let own =
            record.subscriptions.iter().filter(|(backend, _)| **backend == *self.backend.name());
        let own: Vec<_> = own.map(|(_, uri)| uri.clone()).collect();
        let mut extra = lock(&self.extra);
        if own.is_empty() && extra.is_none() {
            return false;
        }
        let known = &mut extra.get_or_insert_default().subscriptions;
        let is_equal = known.len() == own.len() && own.iter().all(|uri| known.contains(uri));
        *known = own;
        !is_equal
    }
}
