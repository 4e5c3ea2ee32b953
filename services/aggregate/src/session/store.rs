//! Store of the sessions of stateful clients.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use vmcp_core::{Caller, Identity, Rejection};
use vmcp_seal::RandomError;
use vmcp_session::{EndedSessions, OpenedSessionId, SessionId, SessionLimitError, SessionSeal};
use vmcp_session::{Sessions, split};

use super::Session;
use crate::backend::BackendHandle;

/// Sessions of stateful clients. With a seal, an id contains its session, so that a session of another replica, or one that was
/// evicted, continues here.
#[derive(Debug)]
pub(crate) struct SessionStore {
    sessions: Sessions<Session>,
    /// `None` if no other process has the key: ids are random then.
    seal: Option<SessionSeal>,
    ended: EndedSessions,
    /// Maximum number of sessions.
    limit: usize,
    /// Time after which a server request without a response is given up.
    response_timeout: Duration,
}

/// Error of opening or finding a session.
#[derive(Debug, thiserror::Error)]
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
}

impl SessionError {
    /// Returns the response of the request. A session that cannot be opened now has not ended.
    pub(crate) fn into_rejection(self) -> Rejection {
        match self {
            Self::NotFound => Rejection::session_not_found(),
            Self::Limit(_) | Self::Random(_) => Rejection::overloaded(self.to_string(), 30),
        }
    }
}

impl SessionStore {
    /// Creates a store of at most `limit` sessions, which end after being idle for `ttl`.
    pub(crate) fn new(limit: usize, ttl: Duration, response_timeout: Duration) -> Self {
        let sessions = Sessions::new(limit, ttl).in_use_while(Session::is_in_use);
        Self { sessions, seal: None, ended: EndedSessions::default(), limit, response_timeout }
    }

    /// Seals the ids of sessions.
    pub(crate) fn with_seal(mut self, seal: SessionSeal) -> Self {
        self.seal = Some(seal);
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
        let id = SessionId::random().ok_or(RandomError)?;
        let Some(seal) = &self.seal else {
            self.insert(id, caller, address, session)?;
            return Ok(id.to_string());
        };
        let text = seal.seal(id, caller.identity(), &session.claims())?;
        session.sealed = split(text.as_bytes()).map(|(_, sealed)| sealed.into());
        self.insert(id, caller, address, session)?;
        Ok(text)
    }

    fn insert(
        &self,
        id: SessionId,
        caller: &Caller,
        address: Option<IpAddr>,
        session: Session,
    ) -> Result<Arc<Session>, SessionLimitError> {
        if self.len() >= self.limit {
            self.sweep();
        }
        let opened = self.sessions.insert(id, caller.identity().clone(), address, session)?;
        if let Some(evicted) = opened.evicted {
            evicted.end();
        }
        Ok(opened.state)
    }

    /// Returns the session with this id, if it belongs to the caller.
    pub(crate) fn get(
        &self,
        text: &[u8],
        caller: &Caller,
        address: Option<IpAddr>,
    ) -> Result<Arc<Session>, SessionError> {
        let (id, sealed) = split(text).ok_or(SessionError::NotFound)?;
        match self.sessions.get(id, caller.identity()) {
            Some(session) if session.sealed.as_deref().unwrap_or_default() == sealed => Ok(session),
            Some(_) => Err(SessionError::NotFound),
            None => self.restore(text, caller, address),
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
        if self.ended.contains(caller.identity(), &opened) {
            return Err(SessionError::NotFound);
        }
        if let Some(idle) = self.sessions.remove_expired(opened.id, caller.identity()) {
            idle.end();
        }
        let sealed = split(text).map(|(_, sealed)| sealed).unwrap_or_default();
        let session = Session::restored(&opened.claims, caller.clone(), address, sealed);
        let session = self.insert(opened.id, caller, address, session)?;
        // The request uses it, so it does not count as one that was never used.
        _ = self.sessions.get(opened.id, caller.identity());
        Ok(session)
    }

    fn opened(&self, text: &[u8], caller: &Identity) -> Option<OpenedSessionId> {
        self.seal.as_ref()?.open(text, caller)
    }

    /// Ends the session with this id. Returns `false` if the caller has no such session.
    pub(crate) fn close(&self, text: &[u8], caller: &Identity) -> bool {
        let Some((id, _)) = split(text) else { return false };
        if let (Some(seal), Some(opened)) = (&self.seal, self.opened(text, caller)) {
            self.ended.add(caller, &opened, seal.now());
        }
        let closed = self.sessions.close(id, caller);
        closed.inspect(|session| session.end()).is_some()
    }

    pub(crate) fn for_each(&self, visit: impl FnMut(&Arc<Session>)) {
        self.sessions.for_each(visit);
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the number of ended sessions whose ids would still open.
    pub(crate) fn ended(&self) -> usize {
        self.ended.len()
    }

    /// Ends expired sessions, and removes what the others do not need any more.
    pub(crate) fn sweep(&self) {
        for session in self.sessions.sweep() {
            session.end();
        }
        if let Some(seal) = &self.seal {
            self.ended.sweep(seal.now());
        }
        self.for_each(|session| session.prune(self.response_timeout));
    }

    /// Ends the notification streams; calls continue.
    pub(crate) fn end_notification_streams(&self) {
        self.for_each(|session| session.end_notification_stream());
    }

    /// Ends the sessions with backends that are no longer configured.
    pub(crate) fn retain_backends(&self, backends: &[Arc<BackendHandle>]) {
        self.for_each(|session| session.retain_backends(backends));
    }

    /// Ends all sessions.
    pub(crate) fn end(&self) {
        self.for_each(|session| session.end());
    }
}
