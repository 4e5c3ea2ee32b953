//! Store of the sessions of stateful clients.

mod departures;
mod keep_records;
mod shared_access;

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vmcp_core::{Caller, Identity, Rejection, lock};
use vmcp_peer::PeerClient;
use vmcp_seal::RandomError;
use vmcp_session::{
    OpenedSessionId, OwnerDigest, RemovedSession, SessionId, SessionKey, SessionLimitError,
    SessionSeal, Sessions, StorageError, Tombstones, split,
};

pub(crate) use self::keep_records::keep_records;
pub(crate) use self::shared_access::{PendingAccess, SharedSessions};
use super::{IdForm, Session, SessionEnd};
use crate::backend::BackendHandle;
use crate::backend::error::storage_rejection;

/// Maximum number of ended sessions that are known. Beyond it, the oldest is forgotten.
const MAX_TOMBSTONES: usize = 100_000;

/// Sessions of stateful clients. With a seal, an id contains its session, so that a session of another replica, or one that was
/// evicted, continues here.
#[derive(Debug)]
pub(crate) struct SessionStore {
    pub(super) sessions: Sessions<Session>,
    /// `None` if no other process has the key: ids are random then.
    seal: Option<SessionSeal>,
    /// Form of the ids of each session.
    ids: IdForm,
    /// Ended sessions, if no storage knows them.
    ended: Mutex<Tombstones>,
    /// Storage of the records, if replicas share them.
    pub(super) shared: Option<SharedSessions>,
    /// Maximum number of sessions.
    limit: usize,
    /// Time after which a server request without a response is given up.
    response_timeout: Duration,
}

/// Error of opening or finding a session.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// No session of the caller has this id.
    #[error("the session has ended, or never existed")]
    NotFound,
    /// The session cannot be opened now.
    #[error(transparent)]
    Limit(#[from] SessionLimitError),
    /// The system failed to provide random numbers.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The storage did not take a step.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Session of a request.
#[derive(Debug)]
pub(crate) enum SessionAccess {
    Ready(Arc<Session>),
    /// A step in the storage comes first.
    Pending(PendingAccess),
}

/// Returns the key of a session in tombstones and in a storage.
fn key(opened: &OpenedSessionId, owner: &Identity) -> SessionKey {
    let OpenedSessionId { id, issued_at, claims: _ } = opened;
    SessionKey { owner: OwnerDigest::of(owner), id: *id, issued_at: *issued_at }
}

impl SessionError {
    /// Returns the response of the request. A session that cannot be opened now has not ended.
    pub(crate) fn into_rejection(self) -> Rejection {
        match self {
            Self::NotFound => Rejection::session_not_found(),
            Self::Storage(error) => storage_rejection(error),
            Self::Limit(_) | Self::Random(_) => Rejection::overloaded(self.to_string(), 30),
        }
    }
}

impl SessionStore {
    /// Creates a store of at most `limit` sessions, which end after being idle for `ttl`.
    pub(crate) fn new(limit: usize, ttl: Duration, response_timeout: Duration) -> Self {
        let sessions = Sessions::new(limit, ttl).in_use_while(Session::is_in_use);
        Self {
            sessions,
            seal: None,
            ids: IdForm::Serial,
            ended: Mutex::new(Tombstones::new(MAX_TOMBSTONES)),
            shared: None,
            limit,
            response_timeout,
        }
    }

    /// Seals the ids of sessions, and names this replica in the ids of their server requests and events.
    pub(crate) fn with_seal(mut self, seal: SessionSeal, peers: Option<PeerClient>) -> Self {
        self.seal = Some(seal);
        self.ids = peers.map_or(IdForm::Random, IdForm::Replica);
        self
    }

    /// Shares the sessions, whose ids are sealed, with other replicas.
    pub(crate) fn with_storage(mut self, shared: SharedSessions) -> Self {
        self.shared = Some(shared);
        self
    }

    /// Opens a session of `caller` and returns its id. If the store is full, it first removes expired sessions and then evicts
    /// an idle one.
    pub(crate) fn open(
        &self,
        caller: &Caller,
        address: Option<IpAddr>,
        mut session: Session,
    ) -> Result<String, SessionError> {
        if let Some((text, opened)) = self.seal_id(caller.identity(), &mut session)? {
            self.insert(opened.id, caller, address, session)?;
            return Ok(text);
        }
        let id = SessionId::random().ok_or(RandomError)?;
        self.insert(id, caller, address, session)?;
        Ok(id.to_string())
    }

    /// Seals the id of a session. Returns the text, and what it contains.
    pub(super) fn seal_id(
        &self,
        caller: &Identity,
        session: &mut Session,
    ) -> Result<Option<(String, OpenedSessionId)>, SessionError> {
        let Some(seal) = &self.seal else { return Ok(None) };
        let owner = OwnerDigest::of(caller);
        let ended_until = match &self.shared {
            Some(shared) => shared.storage.all_ended_until(&owner),
            None => lock(&self.ended).all_ended_until(&owner),
        };
        let (text, opened) = seal.issue(caller, session.claims(), ended_until)?;
        session.sealed = split(text.as_bytes()).map(|(_, sealed)| sealed.into());
        Ok(Some((text, opened)))
    }

    pub(super) fn insert(
        &self,
        id: SessionId,
        caller: &Caller,
        address: Option<IpAddr>,
        mut session: Session,
    ) -> Result<Arc<Session>, SessionLimitError> {
        session.ids = self.ids.clone();
        if self.len() >= self.limit {
            self.sweep();
        }
        let opened = self.sessions.insert(id, caller.identity().clone(), address, session)?;
        if let Some(evicted) = opened.evicted {
            self.release(&evicted);
        }
        Ok(opened.state)
    }

    /// Returns the session with this id, if it belongs to the caller.
    pub(crate) fn get(
        &self,
        text: &[u8],
        caller: &Caller,
        address: Option<IpAddr>,
    ) -> Result<SessionAccess, SessionError> {
        let (id, sealed) = split(text).ok_or(SessionError::NotFound)?;
        match (self.sessions.get(id, caller.identity()), &self.shared) {
            (Some(session), _) if session.sealed.as_deref().unwrap_or_default() != sealed => {
                Err(SessionError::NotFound)
            }
            (Some(session), None) => Ok(SessionAccess::Ready(session)),
            (Some(session), Some(shared)) => shared.access(session),
            (None, None) => self.restore(text, caller, address).map(SessionAccess::Ready),
            (None, Some(shared)) => {
                let opened = self.opened(text, caller.identity()).ok_or(SessionError::NotFound)?;
                shared.access_unknown(opened, sealed, caller.identity())
            }
        }
    }

    /// Returns the session with this id, if this replica has it and it belongs to the caller.
    pub(crate) fn existing(
        &self,
        text: &[u8],
        caller: &Caller,
    ) -> Result<SessionAccess, SessionError> {
        let (id, sealed) = split(text).ok_or(SessionError::NotFound)?;
        let session = self
            .sessions
            .get(id, caller.identity())
            .filter(|session| session.sealed.as_deref().unwrap_or_default() == sealed)
            .ok_or(SessionError::NotFound)?;
        match &self.shared {
            None => Ok(SessionAccess::Ready(session)),
            Some(shared) => shared.access(session),
        }
    }

    /// Continues a session that another replica opened, or that this one has evicted.
    fn restore(
        &self,
        text: &[u8],
        caller: &Caller,
        address: Option<IpAddr>,
    ) -> Result<Arc<Session>, SessionError> {
        let opened = self.opened(text, caller.identity()).ok_or(SessionError::NotFound)?;
        if lock(&self.ended).contains(&key(&opened, caller.identity())) {
            return Err(SessionError::NotFound);
        }
        if let Some(idle) = self.sessions.remove_expired(opened.id, caller.identity()) {
            idle.end(SessionEnd::Released);
        }
        let sealed = split(text).map(|(_, sealed)| sealed).unwrap_or_default();
        let session = Session::restored(&opened.claims, caller.clone(), address, sealed);
        let session = self.insert(opened.id, caller, address, session)?;
        // The request uses it, so it does not count as one that was never used.
        _ = self.sessions.get(opened.id, caller.identity());
        Ok(session)
    }

    pub(super) fn opened(&self, text: &[u8], caller: &Identity) -> Option<OpenedSessionId> {
        self.seal.as_ref()?.open(text, caller)
    }

    /// Ends the session with this id. Returns `false` if the caller has no such session.
    pub(crate) fn close(&self, text: &[u8], caller: &Identity) -> bool {
        let Some((id, _)) = split(text) else { return false };
        if let (Some(seal), Some(opened)) = (&self.seal, self.opened(text, caller)) {
            lock(&self.ended).add(&key(&opened, caller), seal.now());
        }
        let closed = self.sessions.close(id, caller);
        closed.inspect(|session| session.end(SessionEnd::Deleted)).is_some()
    }

    pub(crate) fn for_each(&self, visit: impl FnMut(&Arc<Session>)) {
        self.sessions.for_each(visit);
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the number of ended sessions whose ids would still open.
    pub(crate) fn ended(&self) -> usize {
        self.shared.as_ref().map_or_else(|| lock(&self.ended).len(), SharedSessions::ended)
    }

    /// Ends expired sessions, and removes what the others do not need any more.
    pub(crate) fn sweep(&self) {
        for removed in self.sessions.sweep() {
            self.release(&removed);
        }
        if let Some(seal) = &self.seal {
            lock(&self.ended).remove_expired(seal.now());
        }
        self.for_each(|session| {
            session.prune(self.response_timeout);
            if let Some(shared) = session.shared() {
                shared.prune();
            }
        });
    }

    /// Forgets a session that was idle or evicted.
    fn release(&self, removed: &RemovedSession<Session>) {
        match &self.shared {
            Some(shared) => shared.release(removed),
            None => removed.state.end(SessionEnd::Released),
        }
    }

    /// Ends the notification streams; calls continue.
    pub(crate) fn end_notification_streams(&self) {
        self.for_each(|session| session.end_notification_stream());
    }

    /// Ends the sessions with backends that are no longer configured.
    pub(crate) fn retain_backends(&self, backends: &[Arc<BackendHandle>]) {
        self.for_each(|session| session.retain_backends(backends));
    }

    /// Ends all sessions. Those that replicas share continue at others.
    pub(crate) fn end(&self) {
        self.for_each(|session| session.end(SessionEnd::Released));
    }
}
