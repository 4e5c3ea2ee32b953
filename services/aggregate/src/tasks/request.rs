//! Requests `tasks/get`, `tasks/update` and `tasks/cancel` of stateless clients.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use vmcp_core::{Body, BoxError, Generation, MediaType, NotSentError, Rejection};
use vmcp_decode::header_value;
use vmcp_wire::{Envelope, Key, Outcome, Splice, StringSpan, scan};

use super::{TaskId, translated, visible_tool};
use crate::backend::BackendHandle;
use crate::backend::error::{BackendError, rejection_of};
use crate::backend::event_reader::Events;
use crate::backend::handshake::{self, ClientInfo};
use crate::backend::request::{NAME, post_stateless, with_operation};
use crate::backend::rpc::status;
use crate::bridge::extensions::{TASKS, declares, tasks_required};
use crate::bridge::response::{
    self, AdaptedResponse, BufferedResults, ExpectedResponse, ResponseBuffer,
};
use crate::call::{Call, bridged, failed};
use crate::catalog::define_literal;

/// Maximum length of a backend's task id, in bytes: it is repeated in a header.
const MAX_OWN_ID: usize = 4096;

/// Processes a request about a task. The response is the same for an id of another caller and for a task whose tool is no
/// longer visible to the caller.
pub(crate) async fn request(
    call: Arc<Call>,
    method: &'static str,
) -> Result<Response<Body>, Rejection> {
    if !declares(&call.message, TASKS) {
        return Err(tasks_required());
    }
    let Some(text) = call.message.text(Key::TaskId) else {
        return Err(Rejection::invalid_params(format!("{method} needs params.taskId, a string")));
    };
    let given = text.read(&call.message.bytes);
    let unknown = || Rejection::not_found("task", &given);
    let task = TaskId::open(&given, &call.hub.seal, call.caller.identity()).ok_or_else(unknown)?;
    let mut links = call.snapshot.links.iter();
    let link = links.find(|link| *link.name() == *task.backend).ok_or_else(unknown)?;
    if let Some(request_context) = &call.request_context {
        request_context.record_backend(&link.backend);
    }
    // A client that lost access to a tool may still cancel its tasks.
    if method != "tasks/cancel" && visible_tool(&call, link, &task.tool).await?.is_none() {
        if let Some(request_context) = &call.request_context {
            request_context.record_denied("hidden from the caller");
        }
        return Err(unknown());
    }
    let rejection = |error: BoxError| {
        failed(link, &error);
        rejection_of(link.name(), &error, method != "tasks/update")
    };
    let generation =
        call.meet(link).await.map_err(|error| rejection(NotSentError::new(error).into()))?;
    if generation != Generation::Stateless {
        return Err(unknown());
    }
    ask(&call, link, method, text, &task).await.map_err(rejection)
}

/// Sends a request to the backend about the task with the client's id `text`.
async fn ask(
    call: &Call,
    link: &Arc<BackendHandle>,
    method: &'static str,
    text: StringSpan,
    task: &TaskId,
) -> Result<Response<Body>, BoxError> {
    let mut splice = Splice::new(&call.message.bytes);
    splice.replace(text.span, define_literal(&task.id));
    let message = bridged(call, link, splice.finish());
    let request = post_stateless(link, &call.caller, message, method, Some(&task.id));
    let response = link.send(with_operation(request, method, call.cause())).await?;
    let expected = ExpectedResponse {
        id: call.id(),
        client_id: call.id(),
        client: Generation::Stateless,
        backend: Generation::Stateless,
        cacheable: false,
        held: BufferedResults::All,
        most: call.hub.limits.held_bytes,
        request_context: call.request_context.clone(),
    };
    match whole(response, &expected, call).await? {
        AdaptedResponse::Ready(response) => Ok(response),
        AdaptedResponse::Whole(message)
        | AdaptedResponse::InputRequired(message)
        | AdaptedResponse::Task(message) => {
            let Ok(Envelope::Response { outcome: Outcome::Result(result), .. }) = scan(&message)
            else {
                return Err(BackendError::Malformed("no JSON-RPC answer").into());
            };
            let known = text.span.of(&call.message.bytes);
            let message = translated(&message, result, &task.id, known)?;
            Ok(response::response(StatusCode::OK, Body::from(message)))
        }
    }
}

/// Builds a request of the gateway about a task, with its request id; `None` if the task's id is not a valid header value.
pub(crate) fn about(
    link: &BackendHandle,
    method: &'static str,
    id: &str,
    who: ClientInfo<'_>,
) -> Option<(Request<Full<Bytes>>, String)> {
    let name = header_value::encode(id).filter(|_| id.len() <= MAX_OWN_ID)?;
    let literal = String::from_utf8_lossy(&define_literal(id)).into_owned();
    let (mut request, serial) =
        handshake::request(link, method, &format!("\"taskId\":{literal},"), who);
    request.headers_mut().insert(NAME, name);
    Some((request, serial))
}

/// Returns the response, which is fully buffered if it is a result.
async fn whole(
    response: Response<Body>,
    expected: &ExpectedResponse,
    call: &Call,
) -> Result<AdaptedResponse, BoxError> {
    let (parts, body) = response.into_parts();
    match MediaType::of(&parts.headers) {
        MediaType::Json => {
            response::json(parts.status, body, expected, ResponseBuffer::new(call)).await
        }
        MediaType::EventStream => {
            let mut events = Events::new(body, expected.most).counted(call.account().as_ref());
            loop {
                let message: Bytes = events.next().await.ok_or(BackendError::Ended)??.data;
                if let Ok(Envelope::Response { .. }) = scan(&message) {
                    call.hold_event(&mut events);
                    return response::event(message, expected);
                }
            }
        }
        MediaType::Other if parts.status.is_success() => Err(BackendError::ContentType.into()),
        MediaType::Other => Err(status(parts.status).into()),
    }
}
