//! Client messages that are not forwarded as requests to one backend: notifications, responses to server requests, and the log
//! level of a session.

use std::sync::Arc;

use futures_util::future::join_all;
use http::{Response, StatusCode};
use vmcp_core::{Body, Rejection, code};
use vmcp_wire::{Key, Span, Splice};

use crate::backend::error::storage_rejection;
use crate::backend::request::{post, with_operation};
use crate::backend::rpc::notify_or_log;
use crate::bridge::notifications;
use crate::call::Call;
use crate::replicas::{ForwardKind, adapt};
use crate::response::result;
use crate::session::{PendingServerRequest, ReceivedId, Session};

const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Rejection of a response whose server request has ended with its replica.
const GONE: &str = "the server request was lost with its replica: its call has ended";

/// Returns 202 without a body.
pub(crate) fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// Delivers a client's response to the backend or call that sent the server request. It is rejected unless such a request is
/// open in this session.
pub(crate) async fn handle_response(
    call: Arc<Call>,
    session: &Arc<Session>,
    id: Option<Span>,
) -> Result<Response<Body>, Rejection> {
    let message = call.message.bytes.clone();
    let received = id.and_then(|id| ReceivedId::parse(id.of(&message)));
    let replica = received.as_ref().and_then(|id| id.replica.as_deref());
    if !call.is_forwarded
        && let Some(replica) = replica.and_then(|replica| call.context.replicas.other(replica))
    {
        let request = call.forwarded();
        let result = call.context.replicas.forward(ForwardKind::Response, &replica, request).await;
        return adapt(result, GONE);
    }
    let server_request = received.and_then(|id| session.existing_streams()?.take(&id));
    match (server_request, id) {
        (
            Some(PendingServerRequest::Backend {
                slot,
                backend_session,
                id: theirs,
                pauses,
                asker: _,
            }),
            Some(id),
        ) => {
            drop(pauses);
            let mut splice = Splice::new(&message);
            splice.replace(id, theirs.to_vec());
            let request = backend_session.sign(post(&slot.backend, &call.caller, splice.finish()));
            let request = with_operation(request, "", call.cause());
            notify_or_log(&slot.backend, request, "failed to deliver the client's response").await;
            Ok(accepted())
        }
        (Some(PendingServerRequest::Call(waiting)), _) => {
            // The call may have ended already.
            _ = waiting.send(message);
            Ok(accepted())
        }
        _ => Err(Rejection::malformed(
            code::INVALID_REQUEST,
            "no server request with this id is pending in this session",
        )),
    }
}

/// Forwards a client's notification.
pub(crate) async fn handle_notification(
    call: &Call,
    session: &Arc<Session>,
    method: &str,
) -> Result<Response<Body>, Rejection> {
    match method {
        "notifications/cancelled" => cancel(call, session).await,
        "notifications/roots/list_changed" => tell_all(call, session).await,
        // Progress notifications for server requests carry no token of the gateway; `initialized` has no effect.
        _ => {}
    }
    Ok(accepted())
}

/// Cancels a call. Ids are unique within the session, so the notification is forwarded unchanged: once, and only if the backend
/// has not responded yet.
async fn cancel(call: &Call, session: &Arc<Session>) {
    let Some(id) = call.message.param(Key::RequestId) else { return };
    let Some(running) = session.active_call(id) else {
        if !call.is_forwarded {
            call.context.replicas.cancel(|| call.forwarded()).await;
        }
        return;
    };
    let cancellation = running.backend_cancellation();
    let under_way = cancellation.and_then(|it| Some((it.disarm()?, &it.slot.backend)));
    running.record_cancelled();
    running.cancelled.notify_one();
    if let Some((backend_session, backend)) = under_way {
        let request = backend_session.sign(post(backend, &call.caller, call.message.bytes.clone()));
        let request = with_operation(request, "notifications/cancelled", call.cause());
        notify_or_log(backend, request, "failed to cancel a call at a backend").await;
    }
}

/// Forwards a notification to all backends concurrently.
async fn tell_all(call: &Call, session: &Arc<Session>) {
    let backend_slots = match session.all_backend_slots(&call.context.catalogs).await {
        Ok(backend_slots) => {
            notifications::follow_all(&call.context, session);
            backend_slots
        }
        Err(error) => {
            tracing::debug!(%error, "failed to find the backend sessions of other replicas");
            session.backend_slots()
        }
    };
    let telling = backend_slots.iter().map(async |slot| {
        let Some(backend_session) = slot.open() else { return };
        let request =
            backend_session.sign(post(&slot.backend, &call.caller, call.message.bytes.clone()));
        let request = with_operation(request, "notifications/roots/list_changed", call.cause());
        notify_or_log(&slot.backend, request, "failed to forward a notification").await;
    });
    join_all(telling).await;
}

/// Sets the log level of the session at every backend, including those opened later.
pub(crate) async fn set_level(
    call: &Call,
    session: &Arc<Session>,
) -> Result<Response<Body>, Rejection> {
    let level = call.message.text(Key::Level).map(|level| level.read(&call.message.bytes));
    let known = level.as_deref().and_then(|level| LEVELS.into_iter().find(|known| *known == level));
    let Some(level) = known else {
        let message = format!("logging/setLevel needs params.level, one of {}", LEVELS.join(", "));
        return Err(Rejection::invalid_params(message));
    };
    let level = format!("\"{level}\"");
    // Set before the open sessions are enumerated: a session that is opened concurrently reads the level afterwards.
    session.set_level(&level).await.map_err(storage_rejection)?;
    let backend_slots = session.all_backend_slots(&call.context.catalogs).await;
    let backend_slots = backend_slots.map_err(storage_rejection)?;
    if session.shared().is_some() {
        notifications::follow_all(&call.context, session);
    }
    let setting = backend_slots.iter().map(async |slot| {
        if let Some(backend_session) = slot.open().filter(|backend_session| backend_session.logs) {
            slot.set_level(&backend_session, level.as_bytes(), call.cause()).await;
        }
    });
    join_all(setting).await;
    Ok(result(&call.id(), b"{}"))
}
