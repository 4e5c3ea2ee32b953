//! Calls from a stateless client to a stateful backend. The call uses a session of the caller's identity. If the backend sends
//! a server request, the call is suspended and the client receives that request as a result; the client's next request resumes
//! the call.

mod call_events;
mod call_task;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use tokio::sync::mpsc;
use tracing::Instrument;
use vmcp_core::{Body, BoxError, Generation, MediaType, NotSentError, Rejection};
use vmcp_timeout::TimeoutControl;
use vmcp_wire::{Envelope, Key, Splice, find, scan};

use self::call_events::respond;
use self::call_task::CallTask;
use super::Bridge;
use super::stateless_to_stateless::{carried, purpose};
use super::suspended_calls::{Handle, Resumption};
use crate::backend::collect::read_error_body;
use crate::backend::error::BackendError;
use crate::backend::event_reader::EventReader;
use crate::backend::handshake::{BackendSession, ClientInfo};
use crate::backend::request::post;
use crate::backend::rpc::is_session_unknown_error;
use crate::backend::rpc::status;
use crate::call::{Call, CallTarget, forward_call};
use crate::capabilities::{BRIDGED_IN_SESSIONS, bridged, rescan};
use crate::replicas::ForwardKind;
use crate::response::{self, AdaptedResponse, BufferedResults, ExpectedResponse, ResponseBuffer};
use crate::session::cancellation::Cancellation;
use crate::session::stateless_sessions::Key as SharedKey;
use crate::session::{BackendSessionSlot, SlotLease};

/// Maximum number of messages queued for the client.
const MAX_QUEUED_EVENTS: usize = 64;

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const LEVEL: &str = "io.modelcontextprotocol/logLevel";

pub(crate) async fn call(
    bridge: &Arc<Bridge>,
    call: Arc<Call>,
    target: Arc<CallTarget>,
) -> Result<Result<Response<Body>, Rejection>, BoxError> {
    match carried(&call) {
        Ok(None) => {}
        Ok(Some(state)) => {
            let state = state.read(&call.message.bytes).into_owned();
            return Ok(resume(bridge, call, target, &state).await);
        }
        Err(rejection) => return Ok(Err(rejection)),
    }
    let slot = slot(bridge, &call, &target)?;
    for last in [false, true] {
        let in_flight = InFlightCall::begin(&call, &target, &slot).await?;
        if let Some(answer) = in_flight.finish(bridge, &call, &target, &slot, last).await? {
            return Ok(answer);
        }
    }
    Err(BackendError::SessionGone.into())
}

/// Returns a member of the request's `_meta`.
fn meta<'a>(call: &'a Call, key: &str) -> Option<&'a [u8]> {
    find(call.message.param(Key::Meta)?, key)
}

/// Returns the client's capabilities as sent to the backend.
fn capabilities(call: &Call) -> Cow<'_, [u8]> {
    bridged(meta(call, CAPABILITIES).unwrap_or(b"{}"), BRIDGED_IN_SESSIONS)
}

fn slot(bridge: &Bridge, call: &Call, target: &CallTarget) -> Result<SlotLease, BoxError> {
    let (capabilities, level) = (capabilities(call), meta(call, LEVEL));
    let key = SharedKey::new(&target.backend, call.caller.identity(), &capabilities, level);
    Ok(bridge.sessions.get(key, &target.backend).map_err(NotSentError::new)?)
}

/// Request in flight.
struct InFlightCall {
    backend_session: Arc<BackendSession>,
    response: Response<Body>,
    expected: ExpectedResponse,
    cancellation: Cancellation,
    hold: TimeoutControl,
}

impl InFlightCall {
    async fn begin(
        call: &Call,
        target: &CallTarget,
        slot: &Arc<BackendSessionSlot>,
    ) -> Result<Self, BoxError> {
        let capabilities = capabilities(call);
        let client_info = ClientInfo {
            caller: &call.caller,
            capabilities: &capabilities,
            client: meta(call, CLIENT).unwrap_or(br#"{"name":"unknown","version":"0"}"#),
            cause: call.cause(),
            address: call.address,
        };
        let level = || meta(call, LEVEL).map(Into::into);
        let backend_session =
            slot.backend_session(client_info, &level).await.map_err(NotSentError::new)?;
        let backend = &target.backend;
        let id = Bytes::from(backend.serial().to_string());
        let mut request = backend_session.sign(post(backend, &call.caller, outgoing(target, &id)));
        let hold = TimeoutControl::new();
        request.extensions_mut().insert(hold.clone());
        call.attach_operation(target, &mut request);
        let cancellation = Cancellation::new(slot.lease(), id.clone(), call.cause());
        cancellation.arm(&backend_session);
        let sent = backend.send(request).await;
        let response = sent.inspect_err(|error| cancellation.failed(error))?;
        let expected = ExpectedResponse {
            id,
            client_id: call.id(),
            client: Generation::Stateless,
            backend: Generation::Stateful,
            cacheable: target.method == "resources/read",
            buffered_results: BufferedResults::None,
            most: call.context.max_buffered_bytes,
            request_context: call.request_context.clone(),
        };
        Ok(Self { backend_session, response, expected, cancellation, hold })
    }

    /// Completes the exchange; `None` if the backend has forgotten the session and a retry is useful.
    async fn finish(
        self,
        bridge: &Arc<Bridge>,
        call: &Arc<Call>,
        target: &Arc<CallTarget>,
        slot: &Arc<BackendSessionSlot>,
        last: bool,
    ) -> Result<Option<Result<Response<Body>, Rejection>>, BoxError> {
        let Self { backend_session, response, expected, cancellation, hold } = self;
        let (parts, body) = response.into_parts();
        let code = parts.status;
        if MediaType::of(&parts.headers) != MediaType::EventStream {
            // The response has begun, or there is none.
            cancellation.disarm();
        }
        if matches!(code, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST)
            && backend_session.can_end()
        {
            let rejection = read_error_body(body).await?;
            if !last && is_session_unknown_error(code, &rejection) {
                slot.gone(&backend_session);
                return Ok(None);
            }
            if MediaType::of(&parts.headers) != MediaType::Json {
                return Err(status(code).into());
            }
            return ready(response::whole(code, rejection, &expected)?).map(Some);
        }
        match MediaType::of(&parts.headers) {
            MediaType::Json => {
                let room = ResponseBuffer::new(&**call);
                ready(response::json(code, body, &expected, room).await?).map(Some)
            }
            MediaType::EventStream => {
                let mut events =
                    EventReader::new(body, expected.most).charged(call.account().as_ref());
                let first = events.next().await.unwrap_or_else(|| Err(BackendError::Ended.into()));
                let first = first.inspect_err(|error| cancellation.failed(error))?.data;
                if let Ok(Envelope::Response { .. }) = scan(&first) {
                    cancellation.disarm();
                    call.keep_event_reservation(&mut events);
                    return ready(response::whole(StatusCode::OK, first, &expected)?).map(Some);
                }
                let running = CallTask::new(
                    bridge,
                    call,
                    backend_session,
                    events,
                    cancellation,
                    hold,
                    &expected,
                );
                let (outlet, outs) = mpsc::channel(MAX_QUEUED_EVENTS);
                tokio::spawn(running.run(first, outlet).in_current_span());
                Ok(Some(respond(call, target, outs, expected).await))
            }
            MediaType::Other if code.is_success() => Err(BackendError::ContentType.into()),
            MediaType::Other => Err(status(code).into()),
        }
    }
}

/// Builds the request for a stateful server: under an id of the gateway, because the session is shared, and without members
/// that exist only in the stateless generation.
fn outgoing(target: &CallTarget, id: &Bytes) -> Bytes {
    let message = &target.message;
    let (theirs, params) = rescan(message);
    let mut splice = Splice::new(message);
    splice.replace(theirs, id.to_vec());
    if let Some(object) = params.get(Key::Meta) {
        for key in ["io.modelcontextprotocol/protocolVersion", CLIENT, CAPABILITIES, LEVEL] {
            splice.remove_member(object, key);
        }
        if find(object.of(message), "progressToken").is_some() {
            splice.set_member(object, "progressToken", id);
        }
    }
    if let Some(object) = params.span {
        splice.remove_member(object, "inputResponses");
        // Clients of this generation do not request tasks this way and could not follow up an old one.
        if params.get(Key::Task).is_some() {
            splice.remove_member(object, Key::Task.name());
        }
    }
    splice.finish()
}

/// Resumes a suspended call of this client.
async fn resume(
    bridge: &Bridge,
    call: Arc<Call>,
    target: Arc<CallTarget>,
    sealed: &str,
) -> Result<Response<Body>, Rejection> {
    let gone = || {
        Rejection::invalid_params(
            "params.requestState is not valid for this request, has expired, or was \
             used already: send the request again without it",
        )
    };
    let text = call.context.seal.open(sealed, purpose(&call, &target)).ok_or_else(gone)?;
    let (handle, replica) = Handle::parse(&text).ok_or_else(gone)?;
    let replicas = &call.context.replicas;
    if !call.is_forwarded
        && let Some(replica) = replica.and_then(|replica| replicas.other(replica))
    {
        let repeatable = target.is_repeatable();
        return forward_call(&call, ForwardKind::SuspendedCall, &replica, repeatable).await;
    }
    let responses = call
        .message
        .span(Key::InputResponses)
        .map(|span| span.slice(&call.message.bytes))
        .filter(|responses| responses.first() == Some(&b'{'))
        .ok_or_else(|| Rejection::invalid_params("params.inputResponses must be an object"))?;
    let waiting = bridge.suspended_calls.take(handle, call.caller.identity()).ok_or_else(gone)?;
    let (outlet, outs) = mpsc::channel(MAX_QUEUED_EVENTS);
    let (caller, cause) = (call.caller.clone(), call.cause().cloned());
    waiting.send(Resumption { responses, outlet, caller, cause }).map_err(|_| gone())?;
    let expected = ExpectedResponse {
        // The running call knows its own id.
        id: Bytes::new(),
        client_id: call.id(),
        client: Generation::Stateless,
        backend: Generation::Stateful,
        cacheable: target.method == "resources/read",
        buffered_results: BufferedResults::None,
        most: call.context.max_buffered_bytes,
        request_context: call.request_context.clone(),
    };
    respond(&call, &target, outs, expected).await
}

fn ready(shaped: AdaptedResponse) -> Result<Result<Response<Body>, Rejection>, BoxError> {
    match shaped {
        AdaptedResponse::Ready(response) => Ok(Ok(response)),
        AdaptedResponse::InputRequired(_)
        | AdaptedResponse::Task(_)
        | AdaptedResponse::Whole(_) => {
            Err(BackendError::Malformed("a server request outside a session").into())
        }
    }
}
