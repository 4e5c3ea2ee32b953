//! Calls from a stateful client to a stateful backend. The call uses the client's own session at the backend, and the backend's
//! other messages are relayed on the stream of the call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use tokio::time::sleep;
use vmcp_core::{
    Body, BoxError, Generation, LATEST_STATEFUL, MediaType, NotSentError, Rejection, cause_ref,
};
use vmcp_timeout::Elapsed;
use vmcp_wire::{Envelope, find, scan};

use super::extensions::for_session;
use super::relay::{Relay, RelayOutcome};
use super::response::{self, AdaptedResponse, BufferedResults, ExpectedResponse, ResponseBuffer};
use crate::backend::error::BackendError;
use crate::backend::event_reader::Events;
use crate::backend::handshake::BackendSession;
use crate::backend::request::{listen, post, with_operation};
use crate::backend::rpc::{small, status};
use crate::call::{Call, Target};
use crate::session::{ActiveCall, ActiveCallGuard, BackendSessionSlot, Session};
use crate::stream::{Opening, Stream};

/// Maximum number of times one response is resumed after the backend ended its stream.
const MAX_RESUMPTIONS: usize = 100;

pub(crate) async fn call(
    call: Arc<Call>,
    session: Arc<Session>,
    target: Arc<Target>,
) -> Result<Result<Response<Body>, Rejection>, BoxError> {
    let upstream = session.upstream(&target.link);
    let guard = match session.run(ActiveCall::new(&call, upstream)) {
        Ok(guard) => guard,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let exchange = StatefulCall { call, session, target, guard };
    match exchange.begin().await {
        Ok(CallProgress::Complete(response)) => {
            exchange.guard.cancellation.disarm();
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
    target: Arc<Target>,
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
    live: Arc<BackendSession>,
    events: Events,
    first: Option<Bytes>,
}

impl StatefulCall {
    async fn begin(&self) -> Result<CallProgress, BoxError> {
        for last in [false, true] {
            let (live, response) = self.send().await?;
            match self.shape(live, response, last).await? {
                CallProgress::SessionLost => {}
                outcome => return Ok(outcome),
            }
        }
        Ok(CallProgress::SessionLost)
    }

    fn upstream(&self) -> &Arc<BackendSessionSlot> {
        &self.guard.cancellation.upstream
    }

    fn failed(&self, error: BoxError) -> BoxError {
        self.guard.cancellation.failed(&error);
        error
    }

    async fn send(&self) -> Result<(Arc<BackendSession>, Response<Body>), BoxError> {
        let who = self.session.introduction(&self.call.caller).caused_by(self.call.cause());
        let level = || self.session.level();
        let live = self.upstream().live(who, &level).await.map_err(NotSentError::new)?;
        crate::notify::listen::follow(&self.call.hub, &self.session, self.upstream());
        let link = &self.target.link;
        let mut request = live.sign(post(
            link,
            &self.call.caller,
            for_session(&self.call.message, &self.target.message),
        ));
        request.extensions_mut().insert(self.guard.hold.clone());
        self.call.tell(&self.target, &mut request);
        self.guard.cancellation.arm(&live);
        let response = link.begin(request).await?;
        Ok((live, response))
    }

    fn expected(&self) -> ExpectedResponse {
        ExpectedResponse {
            id: self.guard.id.clone(),
            client_id: self.guard.id.clone(),
            client: Generation::Stateful,
            backend: Generation::Stateful,
            cacheable: false,
            held: BufferedResults::None,
            most: self.call.hub.limits.held_bytes,
            request_context: self.call.request_context.clone(),
        }
    }

    async fn shape(
        &self,
        live: Arc<BackendSession>,
        response: Response<Body>,
        last: bool,
    ) -> Result<CallProgress, BoxError> {
        let (code, kind) = (response.status(), MediaType::of(response.headers()));
        let body = response.into_body();
        if kind != MediaType::EventStream {
            // The response has begun, or there is none. A call that was cancelled meanwhile must not be retried.
            self.guard.cancellation.disarm().ok_or(BackendError::Cancelled)?;
        }
        if matches!(code, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) && live.can_end() {
            let refusal = Box::pin(small(body)).await?;
            if !last && forgotten(code, &refusal) {
                self.upstream().gone(&live);
                return Ok(CallProgress::SessionLost);
            }
            if kind != MediaType::Json {
                return Err(status(code).into());
            }
            return ready(response::whole(code, refusal, &self.expected())?);
        }
        match kind {
            MediaType::Json => {
                let may_hold = |bytes| self.guard.may_hold(bytes);
                let room = ResponseBuffer::new(&*self.call);
                ready(response::json_within(code, body, &self.expected(), room, may_hold).await?)
            }
            // Boxed: the event reader is larger than the rest of the future.
            MediaType::EventStream => {
                let events = Events::new(body, self.call.hub.limits.held_bytes)
                    .counted(self.call.account().as_ref());
                Box::pin(async {
                    tokio::select! {
                        begun = self.look(live, events) => begun,
                        () = self.guard.cancelled.notified() => Err(BackendError::Cancelled.into()),
                    }
                })
                .await
            }
            MediaType::Other if code.is_success() => Err(BackendError::ContentType.into()),
            MediaType::Other => Err(status(code).into()),
        }
    }

    /// Reads the beginning of a stream: most streams contain only the response, which needs no stream to the client.
    async fn look(
        &self,
        live: Arc<BackendSession>,
        mut events: Events,
    ) -> Result<CallProgress, BoxError> {
        let first = loop {
            if let Some(event) = events.buffered() {
                break Some(event?.data);
            }
            // An id without data: the backend wants the stream to be resumed.
            if events.last_id().is_some() {
                break None;
            }
            if !self.guard.may_hold(events.held()) {
                return Err(BackendError::UNREAD.into());
            }
            match events.chunk().await {
                Some(chunk) => chunk?,
                None => return Err(BackendError::Ended.into()),
            }
        };
        if let Some(message) = &first
            && let Ok(Envelope::Response { .. }) = scan(message)
        {
            self.call.hold_event(&mut events);
            return ready(response::whole(StatusCode::OK, message.clone(), &self.expected())?);
        }
        Ok(CallProgress::EventSource(Box::new(EventSource { live, events, first })))
    }

    /// Responds with a stream that a task feeds, so the call continues after a lost connection.
    fn stream(self, streaming: Box<EventSource>) -> Result<Response<Body>, Rejection> {
        let (stream, response) = match answering_stream(&self.call, &self.guard) {
            Ok(opened) => opened,
            Err(refusal) => {
                self.guard.cancellation.send("the client has too many streams");
                return Err(refusal);
            }
        };
        let session = Arc::clone(&self.session);
        let feeding = tokio::spawn(async move {
            let failure = tokio::select! {
                failure = self.feed(streaming, &stream) => failure,
                // A cancelled request has no response.
                () = self.guard.cancelled.notified() => None,
                why = stream.abandoned(self.call.hub.limits.detached_for) => {
                    Some(BackendError::from(why).into())
                }
            };
            if let Some(failure) = failure {
                self.guard.cancellation.failed(&failure);
                finish_failed(&self.call, &self.target, &stream, &failure);
            }
            stream.end();
        });
        session.talk().own(feeding.abort_handle());
        Ok(response)
    }

    /// Feeds the stream up to the response. Returns the failure if there is none.
    async fn feed(&self, streaming: Box<EventSource>, stream: &Arc<Stream>) -> Option<BoxError> {
        let EventSource { live, mut events, mut first } = *streaming;
        let relay = Relay {
            hub: Arc::clone(&self.call.hub),
            session: Arc::clone(&self.session),
            upstream: Arc::clone(self.upstream()),
            live: Arc::clone(&live),
            stream: Arc::clone(stream),
            expected: Some(self.guard.id.clone()),
            hold: Some(self.guard.hold.clone()),
            asker: Arc::default(),
            cause: self.call.cause().cloned(),
        };
        let mut resumption = ResumptionPoint::default();
        loop {
            let message = match first.take() {
                Some(message) => message,
                None => match next(&mut events, stream).await {
                    Some(Ok(message)) => message,
                    Some(Err(error)) if is_final(&error) => return Some(error),
                    ended => {
                        resumption.note(&events);
                        match (ended, self.resume(&live, &mut resumption).await) {
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
                self.guard.cancellation.disarm();
                return (step == RelayOutcome::OverBudget).then(|| BackendError::UNKEPT.into());
            }
        }
    }

    /// Resumes the backend's stream if it provided an event id.
    async fn resume(
        &self,
        live: &BackendSession,
        resumption: &mut ResumptionPoint,
    ) -> Result<Events, BoxError> {
        resumption.resumptions += 1;
        let last = resumption.last.as_ref().filter(|_| resumption.resumptions <= MAX_RESUMPTIONS);
        let Some(last) = last else { return Err(BackendError::Ended.into()) };
        sleep(Duration::from_millis(resumption.retry.unwrap_or(1000).clamp(10, 30_000))).await;
        let link = &self.target.link;
        let request = live.sign(listen(link, &live.caller(), Some(last)));
        let mut request = with_operation(request, "", self.call.cause());
        request.extensions_mut().insert(self.guard.hold.clone());
        let response = link.send(request).await?;
        if MediaType::of(response.headers()) != MediaType::EventStream
            || !response.status().is_success()
        {
            return Err(BackendError::Ended.into());
        }
        let events = Events::new(response.into_body(), self.call.hub.limits.held_bytes);
        Ok(events.counted(self.call.account().as_ref()))
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
    fn note(&mut self, events: &Events) {
        self.last = events.last_id().cloned().or(self.last.take());
        self.retry = events.retry().or(self.retry);
    }
}

/// Returns `true` if resuming cannot help: the request timed out or a buffer limit is reached.
fn is_final(error: &BoxError) -> bool {
    cause_ref::<Elapsed>(error.as_ref()).is_some()
        || matches!(cause_ref(error.as_ref()), Some(BackendError::Detached { .. }))
}

/// Returns the next message for `stream`. An incomplete one counts toward the buffer of a disconnected client.
pub(crate) async fn next(events: &mut Events, stream: &Stream) -> Option<Result<Bytes, BoxError>> {
    loop {
        if let Some(event) = events.buffered() {
            return Some(event.map(|event| event.data));
        }
        if !stream.may_hold(events.held()) {
            return Some(Err(BackendError::UNREAD.into()));
        }
        stream.pace().await;
        if let Err(error) = events.chunk().await? {
            return Some(Err(error));
        }
    }
}

/// Ends the stream of a call with its failure.
pub(crate) fn finish_failed(call: &Call, target: &Target, stream: &Stream, failure: &BoxError) {
    if let Some(BackendError::Detached { .. }) = cause_ref(failure.as_ref()) {
        call.hub.detached.note_ended();
        tracing::debug!(backend = target.link.name(), error = %failure, "detached call ended");
    }
    stream.finish(target.failure(call, failure), None);
}

fn ready(shaped: AdaptedResponse) -> Result<CallProgress, BoxError> {
    match shaped {
        AdaptedResponse::Ready(response) => Ok(CallProgress::Complete(response)),
        AdaptedResponse::InputRequired(_)
        | AdaptedResponse::Task(_)
        | AdaptedResponse::Whole(_) => {
            Err(BackendError::Malformed("a question without a session").into())
        }
    }
}

/// Returns `true` if an error response means that the session is unknown. Revision 2025-11-25 requires 404; some servers
/// respond with 400 and an error without a request id.
pub(crate) fn forgotten(code: StatusCode, body: &[u8]) -> bool {
    let error = match scan(body) {
        Ok(Envelope::Response { id: None, outcome: vmcp_wire::Outcome::Error(error) }) => {
            error.of(body)
        }
        Ok(_) => return false,
        Err(_) => return code == StatusCode::NOT_FOUND,
    };
    code == StatusCode::NOT_FOUND || find(error, "code") == Some(b"-32000")
}

/// Creates a stream for a call of a session, and the response that connects the client to it.
pub(crate) fn answering_stream(
    call: &Call,
    running: &ActiveCallGuard,
) -> Result<(Arc<Stream>, Response<Body>), Rejection> {
    let session = running.session();
    let Some(stream) = session.talk().open_stream(session.account(&call.hub)) else {
        return Err(Rejection::overloaded("too many streams of this session are open", 1));
    };
    let opening =
        if session.revision == LATEST_STATEFUL { Opening::Primed } else { Opening::Plain };
    let response = event_stream(Body::wrap(stream.connect(None, opening)));
    running.answer_on(&stream);
    Ok((stream, response))
}

/// Builds a response that streams events.
pub(crate) fn event_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
