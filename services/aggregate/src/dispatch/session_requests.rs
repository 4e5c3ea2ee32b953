//! Requests of sessions: which session it is, its notification stream, and its end.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::{Response, StatusCode, request};
use vmcp_core::{Body, Caller, Rejection, code};
use vmcp_peer::Forwarded;

use super::{DispatchOutcome, Dispatcher, initialize};
use crate::backend::error::storage_rejection;
use crate::backend::request::{LAST_EVENT, SESSION};
use crate::bridge::notifications;
use crate::event_stream::event_stream;
use crate::session::store::{SessionAccess, SessionError};
use crate::session::{Session, SessionStreams};
use crate::stream::{Opening, parse_id};

/// Message from which a client resumes a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResumeFrom<'a> {
    /// The client opens the notification stream.
    Start,
    /// Name of the stream, and number of the next message.
    Event(&'a str, u64),
    /// A `Last-Event-ID` that cannot be read.
    Unreadable,
}

impl ResumeFrom<'_> {
    /// Returns `true` if the client opens or resumes the notification stream that this replica has.
    fn is_notification_stream(self, session: &Session) -> bool {
        match self {
            Self::Start => true,
            Self::Event(name, _) => {
                let stream = session.existing_streams().and_then(SessionStreams::listening);
                stream.is_some_and(|stream| stream.name() == name)
            }
            Self::Unreadable => false,
        }
    }
}

/// Returns the address of the client, if known.
pub(super) fn address(parts: &request::Parts) -> Option<IpAddr> {
    parts.extensions.get::<SocketAddr>().map(SocketAddr::ip)
}

/// Returns the id of the session that a request names.
fn session_id(parts: &request::Parts) -> Result<&[u8], Rejection> {
    let mut ids = parts.headers.get_all(SESSION).iter();
    let id = ids.next().ok_or_else(|| {
        let message = "Mcp-Session-Id is missing: send the one that initialize returned";
        Rejection::malformed(code::INVALID_REQUEST, message)
    })?;
    if ids.next().is_some() {
        // An upstream router may have read the other header.
        let message = "send one Mcp-Session-Id";
        return Err(Rejection::malformed(code::INVALID_REQUEST, message));
    }
    Ok(id.as_bytes())
}

impl Dispatcher {
    /// Returns the session named by a request, if it belongs to the caller.
    pub(super) fn access(
        &self,
        parts: &request::Parts,
        caller: &Caller,
    ) -> Result<SessionAccess, Rejection> {
        let id = session_id(parts)?;
        let access = if parts.extensions.get::<Forwarded>().is_some() {
            // A restored session would not have what the request names.
            self.sessions.existing(id, caller)
        } else {
            self.sessions.get(id, caller, address(parts))
        };
        let access = access.map_err(SessionError::into_rejection)?;
        if let SessionAccess::Ready(session) = &access {
            session.update_token(caller);
        }
        Ok(access)
    }

    /// Waits for the storage if necessary.
    pub(super) async fn session(
        &self,
        access: SessionAccess,
        caller: &Caller,
        address: Option<IpAddr>,
    ) -> Result<Arc<Session>, Rejection> {
        match access {
            SessionAccess::Ready(session) => Ok(session),
            SessionAccess::Pending(pending) => {
                let session = self.sessions.wait(pending, caller, address).await;
                let session = session.map_err(SessionError::into_rejection)?;
                session.update_token(caller);
                // The record may have named other sessions at backends.
                notifications::follow_all(&self.context, &session);
                Ok(session)
            }
        }
    }

    /// Processes a request for the notification stream of a stateful client.
    pub(super) fn begin_stream(self: &Arc<Self>, parts: request::Parts) -> DispatchOutcome {
        let caller = initialize::caller(&parts.extensions);
        let access = vmcp_decode::require_event_stream(&parts.headers)
            .and_then(|()| self.access(&parts, &caller));
        let access = match (access, self.elsewhere(&parts)) {
            (Err(rejection), _) => return DispatchOutcome::of(Err(rejection)),
            (Ok(access), Some(replica)) => {
                return self.resume_elsewhere((parts, caller), access, replica);
            }
            (Ok(SessionAccess::Ready(session)), None) if session.shared().is_none() => {
                return DispatchOutcome::of(self.open_stream(&parts, &session));
            }
            (Ok(access), None) => access,
        };
        let this = Arc::clone(self);
        DispatchOutcome::Deferred(Box::pin(async move {
            let opened = async {
                let session = this.session(access, &caller, address(&parts)).await?;
                // Only a notification stream moves: the stream of a call is where the call is.
                if resume_from(&parts).is_notification_stream(&session) {
                    let held = session.hold_stream(&this.context.catalogs).await;
                    if !held.map_err(storage_rejection)? {
                        let message =
                            "the client has opened its notification stream at another replica";
                        return Err(Rejection::overloaded(message, 1));
                    }
                }
                this.open_stream(&parts, &session)
            };
            opened.await.unwrap_or_else(|rejection| rejection.into_response(None))
        }))
    }

    /// Opens the notification stream of a session, or resumes a stream.
    fn open_stream(
        &self,
        parts: &request::Parts,
        session: &Arc<Session>,
    ) -> Result<Response<Body>, Rejection> {
        let streams = session.streams();
        let connection = match resume_from(parts) {
            ResumeFrom::Start => {
                let standing = streams.standing(|| session.account(&self.context.budgets));
                session.report_missed_changes();
                standing.connect(None, Opening::Plain)
            }
            ResumeFrom::Event(name, next) if let Some(stream) = streams.stream(name) => {
                stream.connect(Some(next), Opening::Plain)
            }
            ResumeFrom::Event(..) | ResumeFrom::Unreadable => {
                let message = "Last-Event-ID names no stream of this session: open one without it";
                // Not 404, which would tell the client that its session has ended.
                return Err(Rejection::malformed(code::INVALID_REQUEST, message));
            }
        };
        for slot in session.backend_slots() {
            if slot.open().is_some() || session.shared().is_some() {
                notifications::follow(&self.context, session, &slot);
            }
        }
        Ok(event_stream(Body::wrap(connection)))
    }

    /// Ends the session that a request names.
    pub(super) fn end_session(self: &Arc<Self>, parts: &request::Parts) -> DispatchOutcome {
        let caller = initialize::caller(&parts.extensions);
        let id = match session_id(parts) {
            Ok(id) => id,
            Err(rejection) => return DispatchOutcome::of(Err(rejection)),
        };
        if self.sessions.is_shared() {
            let (this, id) = (Arc::clone(self), id.to_vec());
            return DispatchOutcome::Deferred(Box::pin(async move {
                match this.sessions.close_shared(&id, &caller).await {
                    Ok(()) => no_content(),
                    Err(error) => error.into_rejection().into_response(None),
                }
            }));
        }
        let closed = self.access(parts, &caller).and_then(|_| {
            let is_closed = self.sessions.close(id, caller.identity());
            if is_closed { Ok(no_content()) } else { Err(Rejection::session_not_found()) }
        });
        DispatchOutcome::of(closed)
    }
}

fn resume_from(parts: &request::Parts) -> ResumeFrom<'_> {
    let Some(id) = parts.headers.get(LAST_EVENT) else { return ResumeFrom::Start };
    match id.to_str().ok().and_then(parse_id) {
        Some((stream, next)) => ResumeFrom::Event(stream, next),
        None => ResumeFrom::Unreadable,
    }
}

fn no_content() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
