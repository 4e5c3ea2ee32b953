//! Calls from a stateful client to a stateless backend. The gateway adds the client's handshake information to every request,
//! and sends the backend's input requests to the client as server requests of its session.

mod progress;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Response, StatusCode};
use tracing::Instrument;
use vmcp_core::{Body, BoxError, Generation, MediaType, Rejection, Reservation};
use vmcp_wire::{Envelope, Key, Outcome, Span, Splice, find, members, scan};

use self::progress::ProgressFilter;
use super::call_stream::{abandoned, answering_stream, finish_failed, next};
use super::stateless_to_stateless::names;
use crate::backend::error::BackendError;
use crate::backend::event_reader::EventReader;
use crate::backend::handshake::meta_members;
use crate::backend::observe::kind_of_change;
use crate::backend::request::post_stateless;
use crate::backend::rpc::status;
use crate::call::{Call, CallTarget, Origin};
use crate::capabilities::{required_capability, rescan};
use crate::catalog::{add_headers, define_literal};
use crate::response::{self, AdaptedResponse, BufferedResults, ExpectedResponse, ResponseBuffer};
use crate::session::{ActiveCallGuard, GatewayRequest, GatewayRequestError, Session};
use crate::stream::{MessageClass, Stream};
use crate::tasks;

/// Maximum number of input rounds in one request.
const MAX_INPUT_ROUNDS: usize = 10;

pub(crate) async fn call(
    call: Arc<Call>,
    session: Arc<Session>,
    target: Arc<CallTarget>,
) -> Result<Result<Response<Body>, Rejection>, BoxError> {
    // Dropping the request cancels it at a stateless backend; no notification is sent.
    let guard = match session.register(call.active(), &target.backend, call.cause()) {
        Ok(guard) => guard,
        Err(rejection) => return Ok(Err(rejection)),
    };
    let bridge = BridgedCall { call, session, target, guard };
    let first = bridge.outgoing(&[]);
    let state = tokio::select! {
        state = bridge.send(first) => state?,
        () = bridge.guard.cancelled.notified() => return Err(BackendError::Cancelled.into()),
    };
    match state {
        CallState::Ready(response) => Ok(Ok(response)),
        state @ (CallState::InputRequired(_) | CallState::Streaming(..)) => {
            Ok(bridge.stream(state))
        }
    }
}

struct BridgedCall {
    call: Arc<Call>,
    session: Arc<Session>,
    target: Arc<CallTarget>,
    guard: ActiveCallGuard,
}

/// State of a request.
#[expect(clippy::large_enum_variant, reason = "it lives for one match; boxing costs more")]
enum CallState {
    /// The response is complete.
    Ready(Response<Body>),
    /// The backend needs input: the whole message.
    InputRequired(Bytes),
    /// The backend streams; the first message has been read.
    Streaming(EventReader, Option<Bytes>),
}

impl BridgedCall {
    /// Returns the client's request with the client information that a stateless server requires, and in later rounds with
    /// `answers`: the client's responses and the backend's state.
    fn outgoing(&self, answers: &[(Key, &[u8])]) -> Bytes {
        let message = &self.target.message;
        let (_, params) = rescan(message);
        let level = self.session.level();
        let meta = meta_members(self.session.client_info(&self.call.caller), level.as_deref());
        let meta = meta.iter().map(|(key, value)| (*key, &value[..]));
        let mut splice = Splice::new(message);
        let Some(object) = params.span else {
            let meta = object_of(meta);
            let answers = answers.iter().map(|(key, value)| (key.name(), *value));
            let params = object_of(answers.chain([(Key::Meta.name(), &meta[..])]));
            splice.set_member(Span::whole(message), "params", &params);
            return splice.finish();
        };
        // Only stateless clients carry rounds, and theirs are sealed. Such members in a request of this generation do not
        // originate from the backend.
        for key in [Key::InputResponses, Key::RequestState] {
            match answers.iter().find(|(answered, _)| *answered == key) {
                Some((_, value)) => _ = splice.set_member(object, key.name(), value),
                None if params.get(key).is_some() => _ = splice.remove_member(object, key.name()),
                None => {}
            }
        }
        match params.get(Key::Meta) {
            Some(object) => {
                for (key, value) in meta {
                    splice.set_member(object, key, value);
                }
            }
            None => _ = splice.set_member(object, Key::Meta.name(), &object_of(meta)),
        }
        splice.finish()
    }

    fn expected(&self) -> ExpectedResponse {
        ExpectedResponse {
            id: self.guard.id.clone(),
            client_id: self.guard.id.clone(),
            client: Generation::Stateful,
            backend: Generation::Stateless,
            cacheable: false,
            buffered_results: if names(self.target.method) {
                BufferedResults::Continuations
            } else {
                BufferedResults::None
            },
            most: self.call.context.max_buffered_bytes,
            request_context: self.call.request_context.clone(),
        }
    }

    async fn send(&self, message: Bytes) -> Result<CallState, BoxError> {
        let backend = &self.target.backend;
        let (caller, method) = (&self.call.caller, self.target.method);
        let target = names(method).then(|| self.target.name());
        let mut request = post_stateless(backend, caller, message, method, target.as_deref());
        request.extensions_mut().insert(self.guard.hold.clone());
        let arguments = self.call.message.param(Key::Arguments);
        add_headers(&self.target.headers, request.headers_mut(), arguments);
        self.call.attach_operation(&self.target, &mut request);
        let (parts, body) = backend.send(request).await?.into_parts();
        let expected = self.expected();
        match MediaType::of(&parts.headers) {
            MediaType::Json => {
                let may_buffer = |bytes| self.guard.may_buffer(bytes);
                let room = ResponseBuffer::new(&*self.call);
                let shaped =
                    response::json_within(parts.status, body, &expected, room, may_buffer).await?;
                self.state(shaped)
            }
            MediaType::EventStream => {
                let mut events =
                    EventReader::new(body, expected.most).charged(self.call.account().as_ref());
                let first = self.first(&mut events).await?;
                if let Ok(Envelope::Response { .. }) = scan(&first) {
                    self.call.keep_event_reservation(&mut events);
                    return self.state(response::whole(StatusCode::OK, first, &expected)?);
                }
                Ok(CallState::Streaming(events, Some(first)))
            }
            MediaType::Other if parts.status.is_success() => Err(BackendError::ContentType.into()),
            MediaType::Other => Err(status(parts.status).into()),
        }
    }

    /// Returns the first message of a stream.
    async fn first(&self, events: &mut EventReader) -> Result<Bytes, BoxError> {
        loop {
            if let Some(event) = events.buffered() {
                return Ok(event?.data);
            }
            if !self.guard.may_buffer(events.buffered_bytes()) {
                return Err(BackendError::MESSAGES_OVER_BUFFER.into());
            }
            events.chunk().await.ok_or(BackendError::Ended)??;
        }
    }

    /// Converts an adapted response. A task is a failure, because the client of a session did not declare tasks.
    fn state(&self, shaped: AdaptedResponse) -> Result<CallState, BoxError> {
        match shaped {
            AdaptedResponse::Ready(response) => Ok(CallState::Ready(response)),
            AdaptedResponse::InputRequired(message) => Ok(CallState::InputRequired(message)),
            AdaptedResponse::Task(message) | AdaptedResponse::Whole(message) => {
                Err(tasks::undeclared(&self.call, &self.target, &message))
            }
        }
    }

    /// Responds with a stream that a task feeds.
    fn stream(self, state: CallState) -> Result<Response<Body>, Rejection> {
        let (stream, response) = answering_stream(&self.call, &self.guard)?;
        let session = Arc::clone(&self.session);
        let feeding = async move {
            let failure: Option<BoxError> = tokio::select! {
                outcome = self.feed(state, &stream) => match outcome {
                    Ok(answer) => (!self.finish(&stream, answer)).then(|| BackendError::RESPONSE_OVER_BUFFER.into()),
                    Err(error) => Some(error),
                },
                // A cancelled request has no response.
                () = self.guard.cancelled.notified() => None,
                why = abandoned(&self.call, &stream) => why.map(BoxError::from),
            };
            if let Some(failure) = failure {
                finish_failed(&self.call, &self.target, &stream, &failure);
            }
            stream.end();
        };
        let feeding = tokio::spawn(feeding.in_current_span());
        session.streams().own(feeding.abort_handle());
        Ok(response)
    }

    /// Ends the stream with the response and the reservations held for it.
    fn finish(&self, stream: &Stream, answer: Bytes) -> bool {
        let counts = self.call.take_reservations();
        let attach = |bytes, count: Reservation| count.attach(bytes);
        stream.finish(counts.into_iter().fold(answer, attach), None)
    }

    /// Continues until the response.
    async fn feed(&self, mut state: CallState, stream: &Stream) -> Result<Bytes, BoxError> {
        let (mut rounds, mut progress) = (0, ProgressFilter::default());
        loop {
            state = match state {
                CallState::Ready(response) => {
                    let body = response.into_body();
                    let (room, most) =
                        (ResponseBuffer::new(&*self.call), self.call.context.max_buffered_bytes);
                    return room.collect(Bytes::new(), body, most, |_| true).await;
                }
                CallState::Streaming(events, first) => {
                    self.read(events, first, stream, &mut progress).await?
                }
                CallState::InputRequired(message) => {
                    rounds += 1;
                    if rounds > MAX_INPUT_ROUNDS {
                        return Err(BackendError::ServerRequest(
                            "sent server requests in too many rounds",
                        )
                        .into());
                    }
                    progress.next_round();
                    let next = self.round(&message, stream).await?;
                    self.send(next).await?
                }
            };
        }
    }

    /// Forwards the messages of a stream up to the response.
    async fn read(
        &self,
        mut events: EventReader,
        mut first: Option<Bytes>,
        stream: &Stream,
        progress: &mut ProgressFilter,
    ) -> Result<CallState, BoxError> {
        let expected = self.expected();
        loop {
            let message = match first.take() {
                Some(message) => message,
                None => next(&mut events, stream).await.ok_or(BackendError::Ended)??,
            };
            match scan(&message) {
                Ok(Envelope::Response { .. }) => {
                    self.call.keep_event_reservation(&mut events);
                    return self.state(response::whole(StatusCode::OK, message, &expected)?);
                }
                Ok(Envelope::Notification { method, params }) => {
                    if let Some(kind) = kind_of_change(&message) {
                        self.call.list_changed(&self.target, kind);
                        continue;
                    }
                    let is_progress = method.is(&message, "notifications/progress");
                    if !is_progress || progress.admit(&message, &params) {
                        let class = MessageClass::of_notification(&method.read(&message));
                        stream.push(message, class);
                    }
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Sends all input requests of the backend to the client, and builds the next request from the responses.
    async fn round(&self, message: &Bytes, stream: &Stream) -> Result<Bytes, BoxError> {
        let Ok(Envelope::Response { outcome: Outcome::Result(result), .. }) = scan(message) else {
            return Err(BackendError::Malformed("a body that is not a JSON-RPC response").into());
        };
        let result = result.of(message);
        let _pause = self.guard.hold.pause();
        let mut pending = Vec::new();
        for server_request in find(result, "inputRequests").into_iter().flat_map(members) {
            let answer = self.ask_client(server_request.value, stream)?;
            pending.push(async move { (server_request.key.raw(), answer.response().await) });
        }
        let mut responses = vec![b'{'];
        for answered in join_all(pending).await {
            let (key, answer) = answered;
            let answer = answer.ok_or(BackendError::ServerRequest(
                "sent a server request to which the client did not respond in time",
            ))?;
            let Ok(Envelope::Response { outcome: Outcome::Result(given), .. }) = scan(&answer)
            else {
                return Err(BackendError::ServerRequest(
                    "sent a server request that the client rejected",
                )
                .into());
            };
            if responses.len() > 1 {
                responses.push(b',');
            }
            responses.extend_from_slice(key);
            responses.push(b':');
            responses.extend_from_slice(given.of(&answer));
        }
        responses.push(b'}');
        let state = find(result, "requestState").map(|state| (Key::RequestState, state));
        let answers = [Some((Key::InputResponses, &responses[..])), state];
        Ok(self.outgoing(&answers.into_iter().flatten().collect::<Vec<_>>()))
    }

    /// Sends one server request to the client.
    fn ask_client<'a>(
        &'a self,
        server_request: &[u8],
        stream: &'a Stream,
    ) -> Result<GatewayRequest<'a>, BoxError> {
        let method = find(server_request, "method").and_then(vmcp_wire::parse_json_string);
        let (capability, method) = method
            .and_then(|method| Some((required_capability(&method)?, method)))
            .ok_or(BackendError::ServerRequest("sent a server request with an unknown method"))?;
        if find(self.session.capabilities(), capability).is_none() {
            if self.call.origin == Origin::Step {
                return Err(BackendError::Capability(capability).into());
            }
            let problem = "sent a server request for which the client declared no capability";
            return Err(BackendError::ServerRequest(problem).into());
        }
        let params = find(server_request, "params").unwrap_or(b"{}");
        GatewayRequest::send(&self.session, stream, &define_literal(&method), params).map_err(
            |error| {
                BackendError::ServerRequest(match error {
                    GatewayRequestError::TooMany => {
                        "sent more server requests than the client can have pending"
                    }
                    GatewayRequestError::QueueFull => {
                        "sent a server request while the client's queue is full"
                    }
                })
                .into()
            },
        )
    }
}

fn object_of<'a>(members: impl Iterator<Item = (&'static str, &'a [u8])>) -> Vec<u8> {
    let mut object = vec![b'{'];
    for (key, value) in members {
        if object.len() > 1 {
            object.push(b',');
        }
        object.extend_from_slice(&define_literal(key));
        object.push(b':');
        object.extend_from_slice(value);
    }
    object.push(b'}');
    object
}
