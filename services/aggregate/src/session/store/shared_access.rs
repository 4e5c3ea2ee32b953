//! Steps in the storage that precede a request of a session.

use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;
use vmcp_core::{Caller, Identity, SingleFlight};
use vmcp_session::{
    Liveness, OpenedSessionId, OwnerDigest, RemovedSession, SessionId, SessionKey, SessionRecord,
    SessionStorage, StorageError,
};

use super::departures::{Departures, leave};
use super::{SessionAccess, SessionError, SessionStore, key};
use crate::catalog_store::CatalogStore;
use crate::session::shared::SharedSession;
use crate::session::shared::backend_sessions::end_backend_sessions;
use crate::session::{Session, SessionEnd};

/// Maximum number of ids that are sealed again because all earlier sessions of their owner have ended.
const MAX_ATTEMPTS: usize = 3;

/// Sessions in a storage that replicas share.
#[derive(Debug)]
pub(crate) struct SharedSessions {
    pub(super) storage: Arc<dyn SessionStorage>,
    /// For the backends of entries. Weak: the store's events keep the sessions alive.
    pub(super) catalogs: Weak<CatalogStore>,
    /// Sessions that are being restored.
    restores: SingleFlight<SessionId, Result<Arc<Session>, SessionError>>,
    pub(super) departures: Arc<Departures>,
}

/// Session whose request waits for a step in the storage.
#[derive(Debug)]
pub(crate) enum PendingAccess {
    /// A known session that may have ended elsewhere.
    Check(Arc<Session>),
    /// A known session whose record may lack what this replica has.
    Merge(Arc<Session>),
    /// A session that this replica does not know.
    Restore(Box<UnknownSession>),
}

/// Session that this replica does not know.
#[derive(Clone, Debug)]
pub(crate) struct UnknownSession {
    opened: OpenedSessionId,
    sealed: Box<[u8]>,
    key: SessionKey,
}

impl SharedSessions {
    pub(crate) fn new(storage: Arc<dyn SessionStorage>, catalogs: Weak<CatalogStore>) -> Self {
        Self { storage, catalogs, restores: SingleFlight::new(), departures: Arc::default() }
    }

    /// Returns a known session. While the messages of other replicas arrive, this takes no step.
    pub(crate) fn access(&self, session: Arc<Session>) -> Result<SessionAccess, SessionError> {
        match self.storage.liveness() {
            Liveness::Current if session.shared().is_some_and(|shared| shared.is_doubted()) => {
                Ok(SessionAccess::Pending(PendingAccess::Merge(session)))
            }
            Liveness::Current => Ok(SessionAccess::Ready(session)),
            Liveness::Silent => Ok(SessionAccess::Pending(PendingAccess::Check(session))),
            Liveness::Lost => Err(StorageError::Unavailable.into()),
        }
    }

    /// Returns the step that restores a session.
    pub(crate) fn access_unknown(
        &self,
        opened: OpenedSessionId,
        sealed: &[u8],
        owner: &Identity,
    ) -> Result<SessionAccess, SessionError> {
        let key = key(&opened, owner);
        if self.storage.has_ended(&key) {
            return Err(SessionError::NotFound);
        }
        if self.storage.liveness() == Liveness::Lost {
            return Err(StorageError::Unavailable.into());
        }
        let unknown = UnknownSession { opened, sealed: sealed.into(), key };
        Ok(SessionAccess::Pending(PendingAccess::Restore(Box::new(unknown))))
    }

    pub(crate) fn ended(&self) -> usize {
        self.storage.ended()
    }

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

impl SessionStore {
    /// Returns `true` if replicas share the sessions.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Opens a session whose record replicas share, and returns its id.
    pub(crate) async fn open_shared(
        &self,
        caller: &Caller,
        address: Option<IpAddr>,
        mut session: Session,
    ) -> Result<String, SessionError> {
        let Some(shared) = &self.shared else { return self.open(caller, address, session) };
        if shared.storage.liveness() == Liveness::Lost {
            return Err(StorageError::Unavailable.into());
        }
        let mut attempts = 0;
        let (text, opened, key) = loop {
            let issued = self.seal_id(caller.identity(), &mut session)?;
            let Some((text, opened)) = issued else { return self.open(caller, address, session) };
            let key = key(&opened, caller.identity());
            match shared.storage.create(&key).await {
                Ok(()) => break (text, opened, key),
                // All sessions of the owner have ended that began until now, by another replica's clock: the next one is later.
                Err(StorageError::Ended) if attempts < MAX_ATTEMPTS => attempts += 1,
                Err(error) => return Err(error.into()),
            }
        };
        let record = SharedSession::new(Arc::clone(&shared.storage), key);
        self.insert(opened.id, caller, address, session.with_record(record))?;
        Ok(text)
    }

    /// Takes the step that precedes a request, and returns the request's session.
    pub(crate) async fn wait(
        self: &Arc<Self>,
        pending: PendingAccess,
        caller: &Caller,
        address: Option<IpAddr>,
    ) -> Result<Arc<Session>, SessionError> {
        let Some(shared) = &self.shared else { return Err(SessionError::NotFound) };
        match pending {
            PendingAccess::Check(session) => {
                let Some(record) = session.shared() else { return Ok(session) };
                match shared.storage.check(&record.key).await {
                    Err(StorageError::Ended) => {
                        self.end_elsewhere(record.key.id);
                        Err(SessionError::NotFound)
                    }
                    // The session is known here. Without the storage it goes on until the messages count as lost.
                    Ok(()) | Err(_) => Ok(session),
                }
            }
            PendingAccess::Merge(session) => {
                let Some(record) = session.shared() else { return Ok(session) };
                let (id, store) = (record.key.id, Arc::clone(self));
                let merge = || async move {
                    match store.merge(&session).await {
                        Err(StorageError::Ended) => Err(SessionError::NotFound),
                        // As above. The next request repeats the step.
                        Ok(()) | Err(_) => Ok(session),
                    }
                };
                shared.restores.join(id, merge).await
            }
            PendingAccess::Restore(unknown) => {
                let id = unknown.opened.id;
                let (store, caller) = (Arc::clone(self), caller.clone());
                let restore =
                    || async move { store.restore_shared(*unknown, caller, address).await };
                shared.restores.join(id, restore).await
            }
        }
    }

    /// Continues a session of another replica, or one that this replica has forgotten.
    async fn restore_shared(
        self: Arc<Self>,
        unknown: UnknownSession,
        caller: Caller,
        address: Option<IpAddr>,
    ) -> Result<Arc<Session>, SessionError> {
        let Some(shared) = &self.shared else { return Err(SessionError::NotFound) };
        let UnknownSession { opened, sealed, key } = unknown;
        shared.departures.wait(opened.id).await;
        // An earlier request may have restored it.
        if let Some(known) = self.sessions.get(opened.id, caller.identity()) {
            return Ok(known);
        }
        let record = shared.storage.restore(&key).await?;
        if let Some(idle) = self.sessions.remove_expired(opened.id, caller.identity()) {
            idle.end(SessionEnd::Released);
        }
        let session = Session::restored(&opened.claims, caller.clone(), address, &sealed);
        let record = SharedSession::restored(Arc::clone(&shared.storage), key, record);
        let session = self.insert(opened.id, &caller, address, session.with_record(record))?;
        // The request uses it, so it does not count as one that was never used.
        _ = self.sessions.get(opened.id, caller.identity());
        // A message that arrived before the session was in the table found none to end.
        if shared.storage.has_ended(&key) {
            self.end_elsewhere(key.id);
            return Err(SessionError::NotFound);
        }
        Ok(session)
    }

    /// Ends a session for all replicas, and its sessions at the backends. Nothing ends without the storage.
    pub(crate) async fn close_shared(
        &self,
        text: &[u8],
        caller: &Caller,
    ) -> Result<(), SessionError> {
        let opened = self.opened(text, caller.identity()).ok_or(SessionError::NotFound)?;
        let Some(shared) = &self.shared else { return Err(SessionError::NotFound) };
        let key = key(&opened, caller.identity());
        if shared.storage.has_ended(&key) {
            return Err(SessionError::NotFound);
        }
        if shared.storage.liveness() == Liveness::Lost {
            return Err(StorageError::Unavailable.into());
        }
        let backend_sessions = shared.storage.end(&key).await?;
        let local = self.sessions.close(key.id, caller.identity());
        let closed = local.map_or_else(Vec::new, |session| {
            let tags = session.entry_tags();
            session.end(SessionEnd::Deleted);
            tags
        });
        let record = SessionRecord { backend_sessions, ..SessionRecord::default() };
        end_backend_sessions(&shared.catalogs, &record, &closed, caller);
        Ok(())
    }

    /// Ends a session that ended at another replica.
    pub(crate) fn end_elsewhere(&self, id: SessionId) {
        if let Some(session) = self.sessions.take(id) {
            session.end(SessionEnd::EndedElsewhere);
        }
    }

    /// Ends the owner's sessions that began until a time, in milliseconds since 1970.
    pub(crate) fn end_all_elsewhere(&self, owner: OwnerDigest, until: u64) {
        let mut ended = Vec::new();
        self.for_each(|session| {
            let key = session.shared().map(|shared| shared.key);
            ended.extend(key.filter(|key| key.owner == owner && key.issued_at <= until));
        });
        for key in ended {
            self.end_elsewhere(key.id);
        }
    }

    /// Enters what this replica has into the record of a session, if that is in doubt.
    pub(crate) async fn merge(&self, session: &Session) -> Result<(), StorageError> {
        let (Some(shared), Some(record)) = (&self.shared, session.shared()) else { return Ok(()) };
        let Some(catalogs) = shared.catalogs.upgrade() else { return Ok(()) };
        let merged = session.merge_if_doubted(&catalogs).await;
        if merged == Err(StorageError::Ended) {
            self.end_elsewhere(record.key.id);
        }
        merged
    }

    /// Takes note that the record of a session was lost. Returns the session if this replica uses it.
    pub(crate) fn doubt(&self, id: SessionId) -> Option<Arc<Session>> {
        let session = self.sessions.find(id)?;
        session.shared()?.doubt();
        Some(session)
    }

    /// Takes note that any record may have changed. Returns the sessions whose clients are connected, or used them
    /// within a time.
    pub(crate) fn doubt_all(&self, within: Duration) -> Vec<Arc<Session>> {
        self.for_each(|session| {
            if let Some(shared) = session.shared() {
                shared.doubt();
            }
        });
        let now = Instant::now();
        self.sessions.used_since(now.checked_sub(within).unwrap_or(now))
    }

    /// Returns a session that this replica uses.
    pub(crate) fn find(&self, id: SessionId) -> Option<Arc<Session>> {
        self.sessions.find(id)
    }

    /// Ends the notification stream of a session whose client has it at another replica now.
    pub(crate) fn release_stream(&self, id: SessionId) {
        if let Some(session) = self.sessions.find(id) {
            session.release_stream();
        }
    }

    /// Returns a session whose client has its notification stream here.
    pub(crate) fn with_stream(&self, id: SessionId) -> Option<Arc<Session>> {
        let session = self.sessions.find(id)?;
        session.shared()?.holds_stream().then_some(session)
    }
}
