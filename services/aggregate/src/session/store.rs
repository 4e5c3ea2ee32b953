//! Store of the sessions of stateful clients.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use vmcp_core::{Caller, Identity};
use vmcp_session::{SessionId, SessionLimitError, Sessions};

use super::Session;
use crate::backend::BackendHandle;

/// Sessions of stateful clients.
#[derive(Debug)]
pub(crate) struct SessionStore {
    sessions: Sessions<Session>,
    /// Maximum number of sessions.
    limit: usize,
    /// Time after which a server request without a response is given up.
    response_timeout: Duration,
}

impl SessionStore {
    /// Creates a store of at most `limit` sessions, which end after being idle for `ttl`.
    pub(crate) fn new(limit: usize, ttl: Duration, response_timeout: Duration) -> Self {
        let sessions = Sessions::new(limit, ttl).in_use_while(Session::is_in_use);
        Self { sessions, limit, response_timeout }
    }

    /// Opens a session of `caller`. If the store is full, it first removes expired sessions and then evicts an idle one.
    pub(crate) fn open(
        &self,
        caller: &Caller,
        address: Option<IpAddr>,
        session: Session,
    ) -> Result<SessionId, SessionLimitError> {
        if self.len() >= self.limit {
            self.sweep();
        }
        let opened = self.sessions.open(caller.identity().clone(), address, session)?;
        if let Some(evicted) = opened.evicted {
            evicted.end();
        }
        Ok(opened.id)
    }

    /// Returns the session with this id, if it belongs to the caller.
    pub(crate) fn get(&self, id: SessionId, caller: &Identity) -> Option<Arc<Session>> {
        self.sessions.get(id, caller)
    }

    /// Ends the session with this id. Returns `false` if the caller has no such session.
    pub(crate) fn close(&self, id: SessionId, caller: &Identity) -> bool {
        let closed = self.sessions.close(id, caller);
        closed.inspect(|session| session.end()).is_some()
    }

    pub(crate) fn for_each(&self, visit: impl FnMut(&Arc<Session>)) {
        self.sessions.for_each(visit);
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Ends expired sessions, and removes what the others do not need any more.
    pub(crate) fn sweep(&self) {
        for session in self.sessions.sweep() {
            session.end();
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
