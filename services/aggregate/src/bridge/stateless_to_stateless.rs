//! Calls from a stateless client to a stateless backend. The request passes under the backend's own name, the response
//! unchanged. Only the state that the client carries to the next round is sealed.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::Frame;
use vmcp_core::{Body, BoxError, Generation, MediaType, Rejection};
use vmcp_wire::{
    Envelope, Key, MessagePrefix, MetaKey, Outcome, Splice, StringSpan, find, members,
    parse_json_string, scan, scan_prefix, sse,
};

use crate::backend::BackendHandle;
use crate::backend::error::BackendError;
use crate::backend::event_reader::EventReader;
use crate::backend::observe::kind_of_change;
use crate::backend::request::post_stateless;
use crate::backend::rpc::status;
use crate::call::{Call, CallTarget};
use crate::capabilities::{BRIDGED, must_strip, required_capability, rescan, strip};
use crate::catalog::{add_headers, define_literal};
use crate::event_stream::event_stream;
use crate::event_stream::next_piece;
use crate::response::{
    self, AdaptedResponse, BufferedResults, Continuation, ExpectedResponse, ResponseBuffer,
};
use crate::seal::{Purpose, principal};
use crate::tasks::{self, TASK_CHANGED};

pub(crate) async fn call(
    call: Arc<Call>,
    target: Arc<CallTarget>,
) -> Result<Result<Response<Body>, Rejection>, BoxError> {
    let message = match unsealed(&call, &target) {
        Ok(message) => bridged(&call, &target.backend, message),
        Err(rejection) => return Ok(Err(rejection)),
    };
    let backend = &target.backend;
    let named = names(target.method).then(|| target.name());
    let mut request =
        post_stateless(backend, &call.caller, message, target.method, named.as_deref());
    add_headers(&target.headers, request.headers_mut(), call.message.param(Key::Arguments));
    call.attach_operation(&target, &mut request);
    let response = backend.begin(request).await?;
    let (code, kind) = (response.status(), MediaType::of(response.headers()));
    let body = response.into_body();
    let expected = ExpectedResponse {
        id: call.id(),
        client_id: call.id(),
        client: Generation::Stateless,
        backend: Generation::Stateless,
        cacheable: false,
        buffered_results: if target.method == "completion/complete" {
            BufferedResults::None
        } else {
            BufferedResults::Continuations
        },
        most: call.context.max_buffered_bytes,
        request_context: call.request_context.clone(),
    };
    match kind {
        MediaType::Json => {
            let shaped = response::json(code, body, &expected, ResponseBuffer::new(&*call)).await?;
            respond(&call, &target, shaped).map(Ok)
        }
        MediaType::EventStream => Box::pin(begin(call, target, expected, body)).await.map(Ok),
        MediaType::Other if code.is_success() => Err(BackendError::ContentType.into()),
        MediaType::Other => Err(status(code).into()),
    }
}

/// Returns the message without extensions that are not bridged, and with the backend's own id of the related task.
pub(crate) fn bridged(call: &Call, backend: &BackendHandle, mut message: Bytes) -> Bytes {
    if must_strip(&call.message, BRIDGED) {
        message = strip(message, BRIDGED);
    }
    if tasks::is_related(&call.message) {
        message = tasks::map_related(message, backend, &call.context.seal, call.caller.identity());
    }
    message
}

/// Builds the response from a complete backend response.
fn respond(
    call: &Call,
    target: &CallTarget,
    shaped: AdaptedResponse,
) -> Result<Response<Body>, BoxError> {
    let message = match shaped {
        AdaptedResponse::Ready(response) => return Ok(response),
        AdaptedResponse::InputRequired(message) => sealed(call, target, message)?,
        AdaptedResponse::Task(message) => tasks::created(call, target, &message)?,
        AdaptedResponse::Whole(message) => message,
    };
    Ok(response::response(StatusCode::OK, Body::from(message)))
}

/// Returns `true` if a method's target is repeated in `Mcp-Name`.
pub(crate) fn names(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

/// Reads the beginning of a stream: a lone response needs no stream, and an error determines the status.
async fn begin(
    call: Arc<Call>,
    target: Arc<CallTarget>,
    expected: ExpectedResponse,
    body: Body,
) -> Result<Response<Body>, BoxError> {
    let mut events = EventReader::new(body, expected.most).charged(call.account().as_ref());
    let first = match events.next().await {
        Some(event) => event?.data,
        None => return Err(BackendError::Ended.into()),
    };
    if let Ok(Envelope::Response { .. }) = scan(&first) {
        call.keep_event_reservation(&mut events);
        return respond(&call, &target, response::event(first, &expected)?);
    }
    let (first, encoder) = (Some(first), None);
    let adapter = StreamAdapter { call, target, expected, events, first, encoder, over: false };
    Ok(event_stream(Body::wrap(adapter)))
}

/// Body that forwards the rest of a stream event by event, polled by the client's connection. When the client disconnects, the
/// backend request is dropped, which cancels a stateless request.
struct StreamAdapter {
    call: Arc<Call>,
    target: Arc<CallTarget>,
    expected: ExpectedResponse,
    events: EventReader,
    first: Option<Bytes>,
    /// Message that is being sent. Its reservation is that of the event that was read last.
    encoder: Option<sse::Encoder>,
    over: bool,
}

impl http_body::Body for StreamAdapter {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        loop {
            if let Some(frame) = next_piece(&mut this.encoder) {
                return Poll::Ready(Some(Ok(frame)));
            }
            if this.over {
                return Poll::Ready(None);
            }
            let message = match this.first.take() {
                Some(message) => message,
                None => match ready!(this.events.poll_next(cx)) {
                    Some(Ok(event)) => event.data,
                    Some(Err(error)) => this.fail(&error),
                    None => this.fail(&BackendError::Ended.into()),
                },
            };
            this.encoder = this.pass(message).map(sse::Encoder::new);
        }
    }
}

impl StreamAdapter {
    /// Returns a message as forwarded to the client.
    fn pass(&mut self, message: Bytes) -> Option<Bytes> {
        match scan(&message) {
            // Valid on streams of `subscriptions/listen` only.
            Ok(Envelope::Notification { method, .. }) if method.is(&message, TASK_CHANGED) => None,
            Ok(Envelope::Notification { params, .. }) => {
                if let Some(kind) = kind_of_change(&message) {
                    self.call.list_changed(&self.target, kind);
                    return None;
                }
                Some(tasks::remove_related(message, &params))
            }
            Ok(Envelope::Response { id, .. }) => {
                let ours = id.is_none_or(|id| id.of(&message) == self.expected.id);
                if !ours {
                    return None;
                }
                self.over = true;
                Some(self.answer(message))
            }
            // A stateless server must not send requests on a stream.
            Ok(Envelope::Request { .. }) | Err(_) => None,
        }
    }

    fn answer(&mut self, message: Bytes) -> Bytes {
        let shaped =
            scan_prefix(&message).map_err(BoxError::from).and_then(|found: MessagePrefix| {
                match response::continuation(&found, &message, &self.expected) {
                    Some(Continuation::InputRequired) => sealed(&self.call, &self.target, message),
                    Some(Continuation::Task) => tasks::created(&self.call, &self.target, &message),
                    None => response::translate(message, &found, &self.expected),
                }
            });
        shaped.unwrap_or_else(|error| self.fail(&error))
    }

    /// Builds the error message that ends the stream.
    fn fail(&mut self, error: &BoxError) -> Bytes {
        self.over = true;
        self.target.failure(&self.call, error)
    }
}

/// Returns the state that the client carried from the previous round.
pub(crate) fn carried(call: &Call) -> Result<Option<StringSpan>, Rejection> {
    match (call.message.param(Key::RequestState), call.message.text(Key::RequestState)) {
        (None | Some(b"null"), _) => Ok(None),
        (Some(_), Some(text)) => Ok(Some(text)),
        (Some(_), None) => Err(Rejection::invalid_params("params.requestState must be a string")),
    }
}

/// Returns the message with the backend's state unsealed.
pub(crate) fn unsealed(call: &Call, target: &CallTarget) -> Result<Bytes, Rejection> {
    // Few requests carry state, and only those are parsed further.
    if carried(call)?.is_none() {
        return Ok(target.message.clone());
    }
    let (_, params) = rescan(&target.message);
    let Some(text) = params.text(&target.message, Key::RequestState) else {
        return Ok(target.message.clone());
    };
    let sealed = text.read(&target.message);
    let state = call.context.seal.open(&sealed, purpose(call, target)).ok_or_else(|| {
        Rejection::invalid_params(
            "params.requestState is not valid for this request or has expired: \
             send the request again without it",
        )
    })?;
    let mut splice = Splice::new(&target.message);
    splice.replace(text.span, define_literal(&state));
    Ok(splice.finish())
}

/// Returns a capability that the requested input needs and that the client did not declare (2026-07-28, Multi Round-Trip
/// Requests).
fn undeclared(call: &Call, result: &[u8]) -> Option<&'static str> {
    let declared =
        call.message.params().and_then(|params| params.meta(MetaKey::ClientCapabilities));
    let declared = declared.map_or(&b"{}"[..], |span| span.of(&call.message.bytes));
    let server_requests = find(result, "inputRequests").into_iter().flat_map(members);
    let methods = server_requests.filter_map(|server_request| {
        find(server_request.value, "method").and_then(parse_json_string)
    });
    let mut needs = methods.filter_map(|method| required_capability(&method));
    needs.find(|capability| find(declared, capability).is_none())
}

/// Returns the backend's input request with its state sealed.
fn sealed(call: &Call, target: &CallTarget, message: Bytes) -> Result<Bytes, BoxError> {
    let Ok(Envelope::Response { outcome: Outcome::Result(result), .. }) = scan(&message) else {
        return Err(BackendError::Malformed("a body that is not a JSON-RPC response").into());
    };
    if let Some(capability) = undeclared(call, result.of(&message)) {
        return Err(BackendError::Capability(capability).into());
    }
    let state = members(result.of(&message)).find(|member| member.key.is("requestState"));
    let Some(state) = state.filter(|state| state.value != b"null") else { return Ok(message) };
    // A state of another type would reach the client unsealed and could not be sent back.
    let state = parse_json_string(state.value).map(Cow::into_owned);
    let state = state.ok_or(BackendError::Malformed("a requestState that is not a string"))?;
    let sealed = call.context.seal.seal(&state, purpose(call, target))?;
    let mut splice = Splice::new(&message);
    splice.set_member(result, "requestState", &define_literal(&sealed));
    Ok(splice.finish())
}

/// Returns the purpose that binds a state to the same request of the same caller.
pub(crate) fn purpose<'a>(call: &'a Call, target: &'a CallTarget) -> Purpose<'a> {
    Purpose {
        principal: principal(call.caller.identity()),
        backend: target.backend.name(),
        method: target.method,
        target: &target.literal,
        arguments: call.message.param(Key::Arguments).unwrap_or(&[]),
    }
}
