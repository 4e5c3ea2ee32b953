//! Relay from the stream of a stateful backend to a stateful client. Notifications pass unchanged; server requests get ids of
//! the gateway, because two backends may use the same id.

use std::sync::Arc;

use bytes::Bytes;
use vmcp_core::{Generation, Rejection, RequestContext, Reservation, code};
use vmcp_timeout::TimeoutControl;
use vmcp_wire::{Envelope, Key, Params, Span, Splice, find, scan};

use crate::backend::handshake::BackendSession;
use crate::backend::observe::kind_of_change;
use crate::backend::request::{post, with_operation};
use crate::backend::rpc::notify_or_log;
use crate::capabilities::required_capability;
use crate::notify::notification_filter::NotificationFilter;
use crate::session::{BackendSessionSlot, PendingMarks, PendingServerRequest, Session};
use crate::stream::{MessageClass, Stream};

/// Relay from one backend session to one stream of a client session.
#[derive(Clone, Debug)]
pub(crate) struct Relay {
    pub(crate) notification_filter: Arc<NotificationFilter>,
    pub(crate) session: Arc<Session>,
    pub(crate) slot: Arc<BackendSessionSlot>,
    pub(crate) backend_session: Arc<BackendSession>,
    pub(crate) stream: Arc<Stream>,
    /// Id of the request that the stream belongs to, as JSON.
    pub(crate) expected: Option<Bytes>,
    /// Control that pauses the call's timeout while a server request is open.
    pub(crate) hold: Option<TimeoutControl>,
    /// `true` if the client sees the result, which tells of a new backend session.
    pub(crate) sees_result: bool,
    /// Alive as long as the relay; server requests of the relay end with it.
    pub(crate) asker: Arc<()>,
    /// Record of the client request that the stream belongs to, if a layer observes it.
    pub(crate) cause: Option<RequestContext>,
}

/// State of the stream after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelayOutcome {
    More,
    Responded,
    /// The response exceeds the buffer for a disconnected client.
    OverBudget,
}

impl Relay {
    /// Relays one message, which `count` accounts for.
    pub(crate) async fn pass(&self, message: Bytes, count: Option<Reservation>) -> RelayOutcome {
        match scan(&message) {
            Ok(Envelope::Response { id, .. }) => {
                let ours = id.map(|id| id.of(&message)) == self.expected.as_deref();
                if self.expected.is_some() && (ours || id.is_none()) {
                    let message = if ours { message } else { self.assign_id(&message) };
                    let finish = |message| self.stream.finish(message, count);
                    let kept = if self.sees_result && self.slot.needs_mark() {
                        PendingMarks::of(&self.slot).finish(&self.stream, message, finish)
                    } else {
                        finish(message)
                    };
                    return if kept { RelayOutcome::Responded } else { RelayOutcome::OverBudget };
                }
                tracing::debug!(
                    backend = self.slot.backend.name(),
                    "dropped a response without a pending request"
                );
            }
            Ok(Envelope::Notification { method, params }) => {
                let method = method.read(&message).into_owned();
                self.notify(&method, &params, message);
            }
            Ok(Envelope::Request { id, method, .. }) => {
                let method = method.read(&message).into_owned();
                self.forward_server_request(message, id, &method).await;
            }
            Err(error) => {
                tracing::warn!(
                    backend = self.slot.backend.name(),
                    fault = %error.kind,
                    "dropped an event that is not a JSON-RPC message"
                );
            }
        }
        RelayOutcome::More
    }

    /// Adds the request's id to an error response without one.
    fn assign_id(&self, message: &Bytes) -> Bytes {
        let whole = Span::whole(message);
        let mut splice = Splice::new(message);
        splice.set_member(whole, "id", self.expected.as_deref().unwrap_or(b"0"));
        splice.finish()
    }

    fn notify(&self, method: &str, params: &Params, message: Bytes) {
        // List changes are observed once for all clients and sent after the catalog is updated.
        if let Some(kind) = kind_of_change(&message) {
            let Some(owns) = &self.slot.backend.per_caller else {
                self.slot.backend.list_changed(kind, Generation::Stateful);
                return;
            };
            // The caller's own offer has changed: the notification is relayed, and the next request fetches the offer.
            owns.changed(self.session.caller().identity());
        }
        match method {
            "notifications/resources/updated"
                if !self.notification_filter.may_receive(
                    self.session.caller().identity(),
                    &self.slot.backend,
                    Generation::Stateful,
                    &message,
                ) =>
            {
                return;
            }
            "notifications/cancelled" => return self.withdraw(params, &message),
            _ => {}
        }
        if !self.stream.push(message, MessageClass::of_notification(method)) {
            let backend = self.slot.backend.name();
            tracing::debug!(backend, method, "dropped a notification: the queue is full");
        }
    }

    /// Handles a server request that the backend has cancelled.
    fn withdraw(&self, params: &Params, message: &Bytes) {
        let Some(span) = params.get(Key::RequestId) else { return };
        if let Some(id) = self.session.streams().withdraw(&self.backend_session, span.of(message)) {
            let mut splice = Splice::new(message);
            splice.replace(span, id.to_json().to_vec());
            self.stream.push(splice.finish(), MessageClass::Required);
        }
    }

    async fn forward_server_request(&self, message: Bytes, id: Span, method: &str) {
        let theirs = id.slice(&message);
        if let Some(capability) = required_capability(method)
            && find(self.session.capabilities(), capability).is_none()
        {
            // The server request does not reach the client, which is not required to handle it (MCP 2025-11-25, Lifecycle,
            // Operation).
            let text = format!("the client did not declare {capability}");
            let rejection = Rejection::new(http::StatusCode::OK, code::METHOD_NOT_FOUND, text);
            return self.reply(rejection.to_json(Some(&theirs))).await;
        }
        if method == "ping" {
            let answer =
                [&b"{\"jsonrpc\":\"2.0\",\"id\":"[..], &theirs, b",\"result\":{}}"].concat();
            return self.reply(answer.into()).await;
        }
        let server_request = PendingServerRequest::Backend {
            slot: Arc::clone(&self.slot),
            backend_session: Arc::clone(&self.backend_session),
            id: theirs.clone(),
            pauses: match &self.hold {
                Some(hold) => vec![hold.pause()],
                // The server request is not tied to a call, so any call may depend on it.
                None => self.session.pause(&self.slot),
            },
            asker: Arc::downgrade(&self.asker),
        };
        let is_pending = self.session.streams().register(server_request).is_some_and(|ours| {
            let mut splice = Splice::new(&message);
            splice.replace(id, ours.to_json().to_vec());
            let taken = self.stream.push(splice.finish(), MessageClass::Required);
            if !taken {
                self.session.streams().cancel(&ours);
            }
            taken
        });
        if !is_pending {
            let rejection = Rejection::new(
                http::StatusCode::OK,
                code::INTERNAL,
                "too many server requests are pending at the client",
            );
            self.reply(rejection.to_json(Some(&theirs))).await;
        }
    }

    async fn reply(&self, answer: Bytes) {
        let backend = &self.slot.backend;
        let request =
            self.backend_session.sign(post(backend, &self.backend_session.caller(), answer));
        let request = with_operation(request, "", self.cause.as_ref());
        notify_or_log(backend, request, "failed to deliver the client's response").await;
    }
}
