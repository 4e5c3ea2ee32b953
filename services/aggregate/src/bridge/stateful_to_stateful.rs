//! Calls from a stateful client to a stateful backend. The call uses the client's own session at the backend, and the backend's
//! other messages are relayed on the stream of the call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use tokio::time::sleep;
use tracing::Instrument;
use vmcp_core::{Body, BoxError, Generation, MediaType, NotSentError, Rejection, cause_ref};
use vmcp_timeout::Elapsed;
use vmcp_wire::{Envelope, scan};

use super::call_stream::{abandoned, answering_stream, finish_failed, next};
use super::notifications;
use super::relay::{Relay, RelayOutcome};
use crate::backend::collect::read_error_body;
use crate::backend::error::BackendError;
use crate::backend::event_reader::EventReader;
use crate::backend::handshake::BackendSession;
use crate::backend::request::{listen, post, with_operation};
use crate::backend::rpc::is_session_unknown_error;
use crate::backend::rpc::status;
use crate::call::{Call, CallTarget, Origin};
use crate::capabilities::for_session;
use crate::response::{self, AdaptedResponse, BufferedResults, ExpectedResponse, ResponseBuffer};
use crate::session::{ActiveCallGuard, BackendSessionSlot, PendingMarks, Session};
use crate::stream::Stream;

/// Maximum number of times one response is resumed after the backend ended its stream.
const MAX_RESUMPTIONS: usize = 100;

pub(crate) async fn call(
    call: Arc<Call>,
    session: Arc<Session>,
    target: Arc<CallTarget>,
) -> Result<Result<Response<Body>, Rejection>, BoxError> {
    let guard = match session.register(call.active(), &target.backend, call.cause()) {
        Ok(guard) => guard,
        Err(rejection) => return Ok(Err(rejection)),
    };
    let exchange = StatefulCall { call, session, target, guard };
    match exchange.begin().await {
        Ok(CallProgress::Complete(response)) => {
            exchange.guard.cancellation().disarm();
            Ok(Ok(response))
        }
        Ok(CallProgress::EventSource(streaming)) => Ok(exchange.stream(streaming)),
        Ok(CallProgress::SessionLost) => Err(exchange.failed(BackendError::SessionGone.into())),
        Err(error) => Err(exchange.failed(error)),
    }
}

struct StatefulCall {
    call: Arc<Call>,
    session: Arc<Session>,
    target: Arc<CallTarget>,
    guard: ActiveCallGuard,
}

enum CallProgress {
    Complete(Response<Body>),
    EventSource(Box<EventSource>),
    /// The backend has forgotten the session without processing the request: retry with a new session.
    SessionLost,
}

/// Stream that did not begin with the response.
struct EventSource {
    backend_session: Arc<BackendSession>,
    events: EventReader,
    first: Option<Bytes>,
}

impl StatefulCall {
    async fn begin(&self) -> Result<CallProgress, BoxError> {
        for last in [false, true] {
            let (backend_session, response) = self.send().await?;
            match self.shape(backend_session, response, last).await? {
                CallProgress::SessionLost => {}
                outcome => return Ok(outcome),
            }
        }
        Ok(CallProgress::SessionLost)
    }

    fn slot(&self) -> &Arc<BackendSessionSlot> {
        &self.guard.cancellation().slot
    }

    fn failed(&self, error: BoxError) -> BoxError {
        self.guard.cancellation().failed(&error);
        error
    }

    async fn send(&self) -> Result<(Arc<BackendSession>, Response<Body>), BoxError> {
        let client_info = self.session.client_info(&self.call.caller).caused_by(self.call.cause());
        let level = || self.session.level();
        let backend_session =
            self.slot().backend_session(client_info, &level).await.map_err(NotSentError::new)?;
        notifications::follow(&self.call.context, &self.session, self.slot());
        let backend = &self.target.backend;
        let mut request = backend_session.sign(post(
            backend,
            &self.call.caller,
            for_session(&self.call.message, &self.target.message),
        ));
        request.extensions_mut().insert(self.guard.hold.clone());
        self.call.attach_operation(&self.target, &mut request);
        self.guard.cancellation().arm(&backend_session);
        let response = backend.begin(request).await?;
        Ok((backend_session, response))
    }

    /// Returns `true` if the client sees the result as it is. That of a step becomes a part of another one.
    fn sees_result(&self) -> bool {
        self.call.origin != Origin::Step
    }

    fn expected(&self) -> ExpectedResponse {
        ExpectedResponse {
            id: self.guard.id.clone(),
            client_id: self.guard.id.clone(),
            client: Generation::Stateful,
            backend: Generation::Stateful,
            cacheable: false,
            buffered_results: if self.sees_result() && self.slot().needs_mark() {
                BufferedResults::All
            } else {
                BufferedResults::None
            },
            most: self.call.context.max_buffered_bytes,
            request_context: self.call.request_context.clone(),
        }
    }

    async fn shape(
        &self,
        backend_session: Arc<BackendSession>,
        response: Response<Body>,
        last: bool,
    ) -> Result<CallProgress, BoxError> {
        let (code, kind) = (response.status(), MediaType::of(response.headers()));
        let body = response.into_body();
        if kind != MediaType::EventStream {
            // The response has begun, or there is none. A call that was cancelled meanwhile must not be retried.
            self.guard.cancellation().disarm().ok_or(BackendError::Cancelled)?;
        }
        if matches!(code, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST)
            && backend_session.can_end()
        {
            let rejection = Box::pin(read_error_body(body)).await?;
            if !last && is_session_unknown_error(code, &rejection) {
                self.slot().gone(&backend_session);
                return Ok(CallProgress::SessionLost);
            }
            if kind != MediaType::Json {
                return Err(status(code).into());
            }
            let expected = self.expected();
            let adapted = response::whole(code, rejection, &expected)?;
            return self.ready(code, adapted, expected);
        }
        match kind {
            MediaType::Json => {
                let may_buffer = |bytes| self.guard.may_buffer(bytes);
                let room = ResponseBuffer::new(&*self.call);
                let expected = self.expected();
                let adapted =
                    response::json_within(code, body, &expected, room, may_buffer).await?;
                self.ready(code, adapted, expected)
            }
            // Boxed: the event reader is larger than the rest of the future.
            MediaType::EventStream => {
                let events = EventReader::new(body, self.call.context.max_buffered_bytes)
                    .charged(self.call.account().as_ref());
                Box::pin(async {
                    tokio::select! {
                        begun = self.look(backend_session, events) => begun,
                        () = self.guard.cancelled.notified() => Err(BackendError::Cancelled.into()),
                    }
                })
                .await
            }
            MediaType::Other if code.is_success() => Err(BackendError::ContentType.into()),
            MediaType::Other => Err(status(code).into()),
        }
    }

    fn ready(
        &self,
        status: StatusCode,
        adapted: AdaptedResponse,
        expected: ExpectedResponse,
    ) -> Result<CallProgress, BoxError> {
        let adapted = match adapted {
            AdaptedResponse::Whole(message) => {
                let expected =
                    ExpectedResponse { buffered_results: BufferedResults::None, ..expected };
                let (message, attach_marks) = PendingMarks::of(self.slot()).apply(message);
                match response::whole(status, message, &expected)? {
                    AdaptedResponse::Ready(response) => {
                        let response = self.call.attach_reservations(response);
                        AdaptedResponse::Ready(attach_marks(response))
                    }
                    adapted => adapted,
                }
            }
            adapted => adapted,
        };
        match adapted {
            AdaptedResponse::Ready(response) => Ok(CallProgress::Complete(response)),
            AdaptedResponse::InputRequired(_)
            | AdaptedResponse::Task(_)
            | AdaptedResponse::Whole(_) => {
                Err(BackendError::Malformed("a server request outside a session").into())
            }
        }
    }

    /// Reads the beginning of a stream: most streams contain only the response, which needs no stream to the client.
    async fn look(
        &self,
        backend_session: Arc<BackendSession>,
        mut events: EventReader,
    ) -> Result<CallProgress, BoxError> {
        let first = loop {
            if let Some(event) = events.buffered() {
                break Some(event?.data);
            }
            // An id without data: the backend wants the stream to be resumed.
            if events.last_id().is_some() {
                break None;
            }
            if !self.guard.may_buffer(events.buffered_bytes()) {
                return Err(BackendError::MESSAGES_OVER_BUFFER.into());
            }
            match events.chunk().await {
                Some(chunk) => chunk?,
                None => return Err(BackendError::Ended.into()),
            }
        };
        if let Some(message) = &first
            && let Ok(Envelope::Response { .. }) = scan(message)
        {
            self.call.keep_event_reservation(&mut events);
            let expected = self.expected();
            let adapted = response::whole(StatusCode::OK, message.clone(), &expected)?;
            return self.ready(StatusCode::OK, adapted, expected);
        }
        Ok(CallProgress::EventSource(Box::new(EventSource { backend_session, events, first })))
    }

    /// Responds with a stream that a task feeds, so the call continues after a lost connection.
    fn stream(self, streaming: Box<EventSource>) -> Result<Response<Body>, Rejection> {
        let (stream, response) = match answering_stream(&self.call, &self.guard) {
            Ok(opened) => opened,
            Err(rejection) => {
                self.guard.cancellation().send("the client has too many streams");
                return Err(rejection);
            }
        };
        let session = Arc::clone(&self.session);
        let feeding = async move {
            let failure = tokio::select! {
                biased;
                // A cancelled request has no response, even if the backend has closed its stream for it already.
                () = self.guard.cancelled.notified() => None,
                failure = self.feed(streaming, &stream) => failure,
                why = abandoned(&self.call, &stream) => why.map(BoxError::from),
            };
            if let Some(failure) = failure {
                self.guard.cancellation().failed(&failure);
                finish_failed(&self.call, &self.target, &stream, &failure);
            }
            stream.end();
        };
        let feeding = tokio::spawn(feeding.in_current_span());
        session.streams().own(feeding.abort_handle());
        Ok(response)
    }

    /// Feeds the stream up to the response. Returns the failure if there is none.
    async fn feed(&self, streaming: Box<EventSource>, stream: &Arc<Stream>) -> Option<BoxError> {
        let EventSource { backend_session, mut events, mut first } = *streaming;
        let relay = Relay {
            notification_filter: Arc::clone(&self.call.context.notification_filter),
            session: Arc::clone(&self.session),
            slot: Arc::clone(self.slot()),
            backend_session: Arc::clone(&backend_session),
            stream: Arc::clone(stream),
            expected: Some(self.guard.id.clone()),
            hold: Some(self.guard.hold.clone()),
            asker: Arc::default(),
            cause: self.call.cause().cloned(),
            sees_result: self.sees_result(),
        };
        let mut resumption = ResumptionPoint::default();
        loop {
            let message = match first.take() {
                Some(message) => message,
                None => match next(&mut events, stream).await {
                    Some(Ok(message)) => message,
                    Some(Err(error)) if is_final(&error) => return Some(error),
                    ended => {
                        resumption.update(&events);
                        match (ended, self.resume(&backend_session, &mut resumption).await) {
                            (_, Ok(resumed)) => {
                                events = resumed;
                                continue;
                            }
                            (Some(Err(error)), Err(_)) if resumption.last.is_none() => {
                                return Some(error);
                            }
                            (_, Err(error)) => return Some(error),
                        }
                    }
                },
            };
            let step = relay.pass(message.clone(), events.take_reservation()).await;
            if step != RelayOutcome::More {
                response::record_error(self.call.request_context.as_ref(), &message);
                self.guard.cancellation().disarm();
                return (step == RelayOutcome::OverBudget)
                    .then(|| BackendError::RESPONSE_OVER_BUFFER.into());
            }
        }
    }

    /// Resumes the backend's stream if it provided an event id.
    async fn resume(
        &self,
        backend_session: &BackendSession,
        resumption: &mut ResumptionPoint,
    ) -> Result<EventReader, BoxError> {
        resumption.resumptions += 1;
        let last = resumption.last.as_ref().filter(|_| resumption.resumptions <= MAX_RESUMPTIONS);
        let Some(last) = last else { return Err(BackendError::Ended.into()) };
        sleep(Duration::from_millis(resumption.retry.unwrap_or(1000).clamp(10, 30_000))).await;
        let backend = &self.target.backend;
        let request = backend_session.sign(listen(backend, &backend_session.caller(), Some(last)));
        let mut request = with_operation(request, "", self.call.cause());
        request.extensions_mut().insert(self.guard.hold.clone());
        let response = backend.send(request).await?;
        if MediaType::of(response.headers()) != MediaType::EventStream
            || !response.status().is_success()
        {
            return Err(BackendError::Ended.into());
        }
        let events = EventReader::new(response.into_body(), self.call.context.max_buffered_bytes);
        Ok(events.charged(self.call.account().as_ref()))
    }
}

/// Resumption point of a stream. A connection without events does not change it.
#[derive(Default)]
struct ResumptionPoint {
    last: Option<Bytes>,
    retry: Option<u64>,
    resumptions: usize,
}

impl ResumptionPoint {
    fn update(&mut self, events: &EventReader) {
        self.last = events.last_id().cloned().or(self.last.take());
        self.retry = events.retry().or(self.retry);
    }
}

/// Returns `true` if resuming cannot help: the request timed out or a buffer limit is reached.
fn is_final(error: &BoxError) -> bool {
    cause_ref::<Elapsed>(error.as_ref()).is_some()
        || matches!(cause_ref(error.as_ref()), Some(BackendError::Detached { .. }))
}
