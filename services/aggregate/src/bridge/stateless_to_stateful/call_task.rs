//! Task of a call, which outlives the responses to the client's individual requests.

mod suspension;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};
use vmcp_core::{BoxError, Generation, Identity, Rejection, RequestContext};
use vmcp_timeout::TimeoutControl;
use vmcp_wire::{Envelope, Key, Params, Span, Splice, find, scan};

use super::{CAPABILITIES, LEVEL, meta};
use crate::backend::BackendHandle;
use crate::backend::error::BackendError;
use crate::backend::event_reader::EventReader;
use crate::backend::handshake::BackendSession;
use crate::backend::observe::kind_of_change;
use crate::backend::request::{post, with_operation};
use crate::backend::rpc::notify_or_log;
use crate::bridge::Bridge;
use crate::bridge::suspended_calls::{CallEvent, CallEventSender};
use crate::call::{Call, CallContext};
use crate::capabilities::required_capability;
use crate::catalog::ByGeneration;
use crate::response::ExpectedResponse;
use crate::session::cancellation::Cancellation;

/// Time to collect further server requests, so concurrent ones are sent to the client in one round.
const GATHER_TIME: Duration = Duration::from_millis(25);

/// Maximum number of messages read after the client has disconnected: the response may follow immediately.
const MAX_UNREAD_MESSAGES: usize = 64;

/// Limit on messages queued for a connected client, in KiB. A single larger message is permitted.
const MAX_QUEUED_KIB: u32 = 4 << 10;

/// Maximum number of server requests in one round.
const MAX_INPUT_REQUESTS: usize = 16;

pub(super) struct CallTask {
    context: Arc<CallContext>,
    bridge: Arc<Bridge>,
    caller: Identity,
    /// Address from which the call was started, if known.
    address: Option<IpAddr>,
    backend_session: Arc<BackendSession>,
    events: EventReader,
    /// Messages that arrived while the call was suspended, including the end of the stream.
    early: VecDeque<Result<Bytes, BoxError>>,
    /// Request id sent to the backend, which is also its progress token.
    id: Bytes,
    /// The client's own progress token, as JSON.
    token: Option<Bytes>,
    capabilities: Bytes,
    /// `true` if the client requests log messages.
    logs: bool,
    cancellation: Cancellation,
    hold: TimeoutControl,
    /// Record of the client's last request for this call, if a layer observes it.
    cause: Option<RequestContext>,
    /// Number of server requests so far, which numbers their keys.
    server_requests: u32,
    /// One permit for each KiB that may be queued for the client.
    room: Arc<Semaphore>,
}

/// Pending server request.
struct InputRequest {
    key: String,
    /// The backend's id of the server request, as JSON.
    id: Bytes,
    /// `method` and `params`.
    server_request: Bytes,
}

/// Effect of a backend message on the call.
enum NextAction {
    More,
    /// The client does not read.
    Unread,
    InputRequest(InputRequest),
    Over(CallEvent),
}

impl CallTask {
    pub(super) fn new(
        bridge: &Arc<Bridge>,
        call: &Call,
        backend_session: Arc<BackendSession>,
        events: EventReader,
        cancellation: Cancellation,
        hold: TimeoutControl,
        expected: &ExpectedResponse,
    ) -> Self {
        let bytes = |key: &str| meta(call, key).map(Bytes::copy_from_slice);
        Self {
            context: Arc::clone(&call.context),
            bridge: Arc::clone(bridge),
            caller: call.caller.identity().clone(),
            address: call.address,
            backend_session,
            events,
            early: VecDeque::new(),
            id: expected.id.clone(),
            token: bytes("progressToken"),
            capabilities: bytes(CAPABILITIES).unwrap_or_else(Bytes::new),
            logs: meta(call, LEVEL).is_some(),
            cancellation,
            hold,
            cause: call.cause().cloned(),
            server_requests: 0,
            room: Arc::new(Semaphore::new(MAX_QUEUED_KIB as usize)),
        }
    }

    fn backend(&self) -> &Arc<BackendHandle> {
        &self.cancellation.slot.backend
    }

    /// Runs until the response, or until the client has disconnected.
    pub(super) async fn run(mut self, first: Bytes, mut outlet: CallEventSender) {
        let mut requests: Vec<InputRequest> = Vec::new();
        // Time at which the collected server requests are sent to the client.
        let mut round = Instant::now();
        self.early.push_back(Ok(first));
        let mut unheard = 0;
        loop {
            unheard += usize::from(outlet.is_closed());
            if unheard > MAX_UNREAD_MESSAGES {
                return;
            }
            let step = match self.early.pop_front() {
                Some(Ok(message)) => self.step(message, &outlet).await,
                Some(Err(error)) => NextAction::Over(CallEvent::Failed(error)),
                None => tokio::select! {
                    // Process received messages before a disconnect.
                    biased;
                    () = sleep_until(round), if !requests.is_empty() => {
                        match self.suspend(std::mem::take(&mut requests), outlet).await {
                            Some(resumed) => outlet = resumed,
                            None => return,
                        }
                        continue;
                    }
                    event = self.events.next() => match event {
                        Some(Ok(event)) => self.step(event.data, &outlet).await,
                        Some(Err(error)) => NextAction::Over(CallEvent::Failed(error)),
                        None => NextAction::Over(CallEvent::Failed(BackendError::Ended.into())),
                    },
                    () = outlet.closed() => return,
                },
            };
            match step {
                NextAction::More => {}
                NextAction::Unread => return,
                NextAction::InputRequest(server_request) => {
                    if requests.is_empty() {
                        round = Instant::now() + GATHER_TIME;
                    }
                    requests.push(server_request);
                }
                NextAction::Over(out) => return self.end(out, &outlet).await,
            }
            if requests.len() > MAX_INPUT_REQUESTS {
                let error: BoxError =
                    BackendError::ServerRequest("sent too many server requests at once").into();
                return self.end(CallEvent::Failed(error), &outlet).await;
            }
        }
    }

    /// Reports the outcome of the call. The backend is notified of the cancellation before the client receives the outcome.
    async fn end(&mut self, out: CallEvent, outlet: &CallEventSender) {
        match &out {
            CallEvent::Answer(..) => drop(self.cancellation.disarm()),
            CallEvent::Failed(error) => self.cancellation.failed(error),
            CallEvent::Refused(_) => self.cancellation.send("the client lacks a capability"),
            CallEvent::Message(..) | CallEvent::Questions(..) => {}
        }
        // The client may have disconnected.
        _ = outlet.send(out).await;
    }

    async fn step(&mut self, message: Bytes, outlet: &CallEventSender) -> NextAction {
        match scan(&message) {
            Ok(Envelope::Response { id, .. }) if id.is_none_or(|id| id.of(&message) == self.id) => {
                NextAction::Over(CallEvent::Answer(message, self.events.take_reservation()))
            }
            Ok(Envelope::Response { .. }) | Err(_) => NextAction::More,
            Ok(Envelope::Notification { method, params }) => {
                let method = method.read(&message).into_owned();
                match self.notification(&method, &params, message) {
                    Some(message) => self.send_notification(message, outlet).await,
                    None => NextAction::More,
                }
            }
            Ok(Envelope::Request { id, method, params }) => {
                let method = method.read(&message).into_owned();
                self.server_request(&message, id, &method, &params).await
            }
        }
    }

    /// Sends a notification to the client, waiting for queue capacity.
    async fn send_notification(&mut self, message: Bytes, outlet: &CallEventSender) -> NextAction {
        let share = u32::try_from(message.len() / 1024).unwrap_or(MAX_QUEUED_KIB);
        let count = self.events.take_reservation();
        // This only waits if the client does not read.
        let telling = async {
            let room = Arc::clone(&self.room).acquire_many_owned(share.clamp(1, MAX_QUEUED_KIB));
            if let Ok(permit) = room.await {
                // The client may have disconnected.
                _ = outlet.send(CallEvent::Message(message, permit, count)).await;
            }
        };
        if timeout(self.context.detached_timeout, telling).await.is_ok() {
            return NextAction::More;
        }
        self.context.budgets.detached.count_ended();
        NextAction::Unread
    }

    /// Translates a notification for the client; `None` if it is not for the client.
    fn notification(&self, method: &str, params: &Params, message: Bytes) -> Option<Bytes> {
        if let Some(kind) = kind_of_change(&message) {
            match &self.backend().per_caller {
                Some(owns) => {
                    owns.changed(&self.caller);
                    self.context
                        .notifier
                        .notify_caller(&self.caller, &ByGeneration::both(vec![kind]));
                }
                None => self.backend().list_changed(kind, Generation::Stateful),
            }
            return None;
        }
        match method {
            "notifications/progress" => {
                let span = params.get(Key::ProgressToken)?;
                if span.of(&message) != self.id {
                    return None;
                }
                let mut splice = Splice::new(&message);
                splice.replace(span, self.token.as_ref()?.to_vec());
                Some(splice.finish())
            }
            "notifications/message" => self.logs.then_some(message),
            _ => None,
        }
    }

    async fn server_request(
        &mut self,
        message: &Bytes,
        id: Span,
        method: &str,
        params: &Params,
    ) -> NextAction {
        let id = id.slice(message);
        let Some(capability) = required_capability(method) else {
            let ping = method == "ping";
            let ending = if ping {
                "\"result\":{}}"
            } else {
                "\"error\":{\"code\":-32601,\"message\":\"method not found\"}}"
            };
            self.reply(&id, ending.as_bytes()).await;
            return NextAction::More;
        };
        if find(&self.capabilities, capability).is_none() {
            let rejection = "\"error\":{\"code\":-32601,\"message\":\"the client did not declare the capability for this request\"}}";
            self.reply(&id, rejection.as_bytes()).await;
            return NextAction::Over(CallEvent::Refused(Rejection::missing_capability(
                &format!("{{\"{capability}\":{{}}}}"),
                format!("the call needs the client capability {capability}"),
            )));
        }
        self.server_requests += 1;
        let mut server_request = format!("{{\"method\":\"{method}\"").into_bytes();
        if let Some(params) = params.span {
            server_request.extend_from_slice(b",\"params\":");
            server_request.extend_from_slice(params.of(message));
        }
        server_request.push(b'}');
        NextAction::InputRequest(InputRequest {
            key: format!("q{}", self.server_requests),
            id,
            server_request: server_request.into(),
        })
    }

    /// Sends the response to a server request to the backend.
    fn reply(&self, id: &[u8], ending: &[u8]) -> impl Future<Output = ()> + Send + use<> {
        let (backend, backend_session) =
            (Arc::clone(self.backend()), Arc::clone(&self.backend_session));
        let message = [b"{\"jsonrpc\":\"2.0\",\"id\":", id, b",", ending].concat();
        let request =
            backend_session.sign(post(&backend, &backend_session.caller(), message.into()));
        let request = with_operation(request, "", self.cause.as_ref());
        async move {
            notify_or_log(&backend, request, "failed to deliver the client's response").await;
        }
    }
}
