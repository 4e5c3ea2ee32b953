//! Suspension of a call until its client returns with responses.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use vmcp_core::{Body, BoxError, Rejection};
use vmcp_wire::sse::Event;
use vmcp_wire::{Envelope, find, scan};

use super::{CallTask, InputRequest, MAX_INPUT_REQUESTS};
use crate::backend::error::BackendError;
use crate::backend::event_reader::EventReader;
use crate::bridge::suspended_calls::{CallEvent, CallEventSender, Resumption, SuspendedCall};
use crate::expiry::{time_to_expiry, wait_for_revocation};
use crate::stream::detached::Reservation;

/// Cancellation reason for a suspended call whose client does not return.
const NO_ANSWER: &str = "the client did not respond in time";
const TOKEN_EXPIRED: &str = "the client's token expired";

impl CallTask {
    /// Sends the server requests to the client and waits for its return; `None` if it does not return.
    pub(super) async fn suspend(
        &mut self,
        mut requests: Vec<InputRequest>,
        mut outlet: CallEventSender,
    ) -> Option<CallEventSender> {
        let _pause = self.hold.pause();
        let (bridge, context) = (Arc::clone(&self.bridge), Arc::clone(&self.context));
        while !requests.is_empty() {
            let Some(mut place) = bridge.suspended_calls.suspend(&self.caller, self.address) else {
                let rejection = Rejection::overloaded("too many calls are suspended", 30);
                self.end(CallEvent::Refused(rejection), &outlet).await;
                return None;
            };
            let server_requests = requests
                .iter()
                .map(|request| (request.key.clone(), request.server_request.clone()))
                .collect();
            let mut reservation = context.budgets.account(&self.caller, self.address).open();
            let size: usize = requests.iter().map(|request| request.server_request.len()).sum();
            if !reservation.resize(size + self.buffered_bytes()) {
                let rejection =
                    Rejection::overloaded("suspended calls have used up their byte budget", 30);
                self.end(CallEvent::Refused(rejection), &outlet).await;
                return None;
            }
            outlet.send(CallEvent::Questions(place.handle, server_requests)).await.ok()?;
            drop(outlet);
            let Some(resume) = self.wait(&mut place, &mut reservation, size).await else {
                context.budgets.detached.count_ended();
                let expired = time_to_expiry(&self.caller).is_some_and(|left| left.is_zero());
                self.cancellation.send(if expired { TOKEN_EXPIRED } else { NO_ANSWER });
                return None;
            };
            outlet = resume.outlet;
            self.caller = resume.caller.identity().clone();
            self.cause = resume.cause;
            self.backend_session.update_token(&resume.caller);
            // Server requests without a response are sent again, unless the call has ended.
            let open = self.hand_over(requests, &resume.responses).await;
            requests = if self.is_over() { Vec::new() } else { open };
        }
        Some(outlet)
    }

    /// Waits for the client's return; `None` if it does not return. `size` is that of the server requests.
    async fn wait(
        &mut self,
        place: &mut SuspendedCall<'_>,
        reservation: &mut Reservation,
        size: usize,
    ) -> Option<Resumption> {
        // The call cannot be resumed after the token that started it has expired.
        let token = time_to_expiry(&self.caller).unwrap_or(Duration::MAX);
        let patience = self.bridge.suspension_timeout.min(token);
        let caller = self.caller.clone();
        let mut waiting = pin!(async {
            tokio::select! {
                waited = timeout(patience, &mut place.resumed) => waited.ok()?.ok(),
                () = wait_for_revocation(&caller) => None,
            }
        });
        let mut reads = self.keep_buffered();
        loop {
            tokio::select! {
                resume = &mut waiting => return resume,
                more = self.read_early(), if reads => reads = more,
            }
            if !reservation.resize(size + self.buffered_bytes()) {
                self.drop_early();
                reads = false;
            }
        }
    }

    /// Forwards the client's responses to the backend. Returns the server requests without a response.
    async fn hand_over(
        &mut self,
        requests: Vec<InputRequest>,
        responses: &[u8],
    ) -> Vec<InputRequest> {
        let mut open = Vec::new();
        for server_request in requests {
            match find(responses, &server_request.key).filter(|given| given.starts_with(b"{")) {
                Some(given) => {
                    let ending = [b"\"result\":", given, b"}"].concat();
                    self.reply(&server_request.id, &ending).await;
                }
                None => open.push(server_request),
            }
        }
        open
    }

    /// Returns `true` if the call ended during the suspension.
    fn is_over(&self) -> bool {
        match self.early.back() {
            Some(Ok(message)) => matches!(scan(message), Ok(Envelope::Response { .. })),
            Some(Err(_)) => true,
            None => false,
        }
    }

    /// Returns the size of the backend's messages buffered during the suspension.
    fn buffered_bytes(&self) -> usize {
        let early = self.early.iter().filter_map(|it| it.as_ref().ok()).map(Bytes::len);
        early.sum::<usize>() + self.events.buffered_bytes()
    }

    /// Drops the buffered messages and ends the call because they exceed the limit.
    fn drop_early(&mut self) {
        self.context.budgets.detached.count_ended();
        self.early.clear();
        // Dropping the body also closes the backend's response.
        self.events = EventReader::new(Body::empty(), 0);
        let failure = if self.cancellation.is_armed() {
            BackendError::MESSAGES_OVER_BUFFER
        } else {
            BackendError::RESPONSE_OVER_BUFFER
        };
        let failure = failure.into();
        self.cancellation.failed(&failure);
        self.early.push_back(Err(failure));
    }

    /// Reads messages during the suspension. Returns `true` if more can be read now.
    async fn read_early(&mut self) -> bool {
        match self.events.chunk().await {
            Some(Ok(())) => self.keep_buffered(),
            Some(Err(error)) => self.keep_early(Some(Err(error))),
            None => self.keep_early(None),
        }
    }

    /// Buffers received messages. Returns `true` if more can be read now.
    fn keep_buffered(&mut self) -> bool {
        while let Some(event) = self.events.buffered() {
            if !self.keep_early(Some(event)) {
                return false;
            }
        }
        true
    }

    /// Buffers a message during the suspension. Returns `true` if more can be read now.
    fn keep_early(&mut self, event: Option<Result<Event, BoxError>>) -> bool {
        let message = match event {
            Some(Ok(event)) => event.data,
            Some(Err(error)) => {
                self.early.push_back(Err(error));
                return false;
            }
            None => {
                self.early.push_back(Err(BackendError::Ended.into()));
                return false;
            }
        };
        match scan(&message) {
            Ok(Envelope::Response { id, .. }) if id.is_none_or(|id| id.of(&message) == self.id) => {
                // The call has its response, even if the client does not return for it.
                self.cancellation.disarm();
                self.early.push_back(Ok(message));
                false
            }
            Ok(Envelope::Notification { method, params }) => {
                let method = method.read(&message).into_owned();
                // During the suspension, the client has no stream.
                _ = self.notification(&method, &params, message);
                true
            }
            Ok(Envelope::Request { .. }) => {
                self.early.push_back(Ok(message));
                self.early.len() < MAX_INPUT_REQUESTS
            }
            Ok(Envelope::Response { .. }) | Err(_) => true,
        }
    }
}
