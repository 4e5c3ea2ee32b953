//! Requests `tasks/get`, `tasks/update` and `tasks/cancel` of stateless clients.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use vmcp_core::{Body, BoxError, Generation, MediaType, NotSentError, Rejection};
use vmcp_wire::{Envelope, Key, Outcome, Splice, StringSpan, scan};

use crate::backend::BackendHandle;
use crate::backend::error::{BackendError, rejection_of};
use crate::backend::event_reader::EventReader;
use crate::backend::request::{post_stateless, with_operation};
use crate::backend::rpc::status;
use crate::bridge::Bridge;
use crate::bridge::stateless_to_stateless::bridged;
use crate::call::{Call, failed};
use crate::capabilities::{TASKS, declares, tasks_required};
use crate::catalog::define_literal;
use crate::composite::{self, TaskRuns};
use crate::replicas::{ForwardKind, task_rejection};
use crate::response::{self, AdaptedResponse, BufferedResults, ExpectedResponse, ResponseBuffer};
use crate::tasks::{RunTaskId, TaskId, translated, visible_tool};

/// Processes a request about a task. The response is the same for an id of another caller and for a task whose tool is no
/// longer visible to the caller.
pub(crate) async fn request(
    parts: (&Arc<Bridge>, &Arc<TaskRuns>),
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
    if let Some(task) = RunTaskId::open(&given, &call.context.seal, call.caller.identity()) {
        let replica = task.replica.as_deref().filter(|_| !call.is_forwarded);
        return match replica.and_then(|replica| call.context.replicas.other(replica)) {
            Some(replica) => {
                let replicas = &call.context.replicas;
                let result = replicas.forward(ForwardKind::Task, &replica, call.forwarded()).await;
                result.map_err(|error| task_rejection(&error))
            }
            None => composite::task_request(parts, &call, method, (task, &given)).await,
        };
    }
    let unknown = || Rejection::not_found("task", &given);
    let task =
        TaskId::open(&given, &call.context.seal, call.caller.identity()).ok_or_else(unknown)?;
    let mut backends = call.snapshot.backends.iter();
    let backend = backends.find(|backend| *backend.name() == *task.backend).ok_or_else(unknown)?;
    if let Some(request_context) = &call.request_context {
        request_context.record_backend(&backend.tag);
    }
    // A client that lost access to a tool may still cancel its tasks.
    if method != "tasks/cancel" && visible_tool(&call, backend, &task.tool).await?.is_none() {
        if let Some(request_context) = &call.request_context {
            request_context.record_denied("hidden from the caller");
        }
        return Err(unknown());
    }
    let rejection = |error: BoxError| {
        failed(backend, &error);
        rejection_of(backend.name(), &error, method != "tasks/update")
    };
    let generation = call
        .backend_generation(backend)
        .await
        .map_err(|error| rejection(NotSentError::new(error).into()))?;
    if generation != Generation::Stateless {
        return Err(unknown());
    }
    forward_to_backend(&call, backend, method, text, &task).await.map_err(rejection)
}

/// Sends a request to the backend about the task with the client's id `text`.
async fn forward_to_backend(
    call: &Call,
    backend: &Arc<BackendHandle>,
    method: &'static str,
    text: StringSpan,
    task: &TaskId,
) -> Result<Response<Body>, BoxError> {
    let mut splice = Splice::new(&call.message.bytes);
    splice.replace(text.span, define_literal(&task.id));
    let message = bridged(call, backend, splice.finish());
    let request = post_stateless(backend, &call.caller, message, method, Some(&task.id));
    let response = backend.send(with_operation(request, method, call.cause())).await?;
    let expected = ExpectedResponse {
        id: call.id(),
        client_id: call.id(),
        client: Generation::Stateless,
        backend: Generation::Stateless,
        cacheable: false,
        buffered_results: BufferedResults::All,
        most: call.context.max_buffered_bytes,
        request_context: call.request_context.clone(),
    };
    match whole(response, &expected, call).await? {
        AdaptedResponse::Ready(response) => Ok(response),
        AdaptedResponse::Whole(message)
        | AdaptedResponse::InputRequired(message)
        | AdaptedResponse::Task(message) => {
            let Ok(Envelope::Response { outcome: Outcome::Result(result), .. }) = scan(&message)
            else {
                return Err(
                    BackendError::Malformed("a body that is not a JSON-RPC response").into()
                );
            };
            let known = text.span.of(&call.message.bytes);
            let message = translated(&message, result, &task.id, known)?;
            Ok(response::response(StatusCode::OK, Body::from(message)))
        }
    }
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
            let mut events = EventReader::new(body, expected.most).charged(call.account().as_ref());
            loop {
                let message: Bytes = events.next().await.ok_or(BackendError::Ended)??.data;
                if let Ok(Envelope::Response { .. }) = scan(&message) {
                    call.keep_event_reservation(&mut events);
                    return response::event(message, expected);
                }
            }
        }
        MediaType::Other if parts.status.is_success() => Err(BackendError::ContentType.into()),
        MediaType::Other => Err(status(parts.status).into()),
    }
}
