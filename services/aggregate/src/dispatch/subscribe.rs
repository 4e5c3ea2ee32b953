//! Requests `resources/subscribe` and `resources/unsubscribe` of stateful clients.

use std::sync::Arc;

use http::Response;
use vmcp_core::{Body, Generation, MediaType, Rejection};
use vmcp_wire::{Envelope, Outcome, scan};

use crate::backend::SupportedModes;
use crate::backend::collect::read_error_body;
use crate::backend::error::storage_rejection;
use crate::bridge::{Bridge, notifications};
use crate::call::{Call, CallTarget};
use crate::response::result;
use crate::session::Session;

/// Subscribes at the backend that has the resource. Its updates are then sent on the client's notification stream.
pub(crate) async fn subscribe(
    bridge: &Arc<Bridge>,
    call: Arc<Call>,
    session: Arc<Session>,
    method: &'static str,
) -> Result<Response<Body>, Rejection> {
    let target = CallTarget::find(&call, method).await?;
    if let Some(request_context) = &call.request_context {
        request_context.record_backend(&target.backend.tag);
    }
    let uri = target.name();
    let slot = session.slot(&target.backend);
    let wanted = method == "resources/subscribe";
    if wanted && !slot.may_subscribe(&uri) {
        return Err(Rejection::invalid_params("too many subscriptions of this session"));
    }
    // The client may open its stream later; earlier notifications are queued for it.
    if session.shared().is_none_or(|shared| shared.holds_stream()) {
        session.streams().standing(|| session.account(&call.context.budgets));
    }
    if target.backend.modes() == Some(SupportedModes::Stateless) {
        if target.decided.is_some_and(|decided| decided != Generation::Stateless) {
            return Err(call.outdated(&target.backend));
        }
        let stored = session.store_subscription(target.backend.name(), &uri, wanted).await;
        stored.map_err(storage_rejection)?;
        slot.subscribe(&uri, wanted);
        // A different set of resources requires a new stream.
        slot.stop_listening();
        notifications::follow(&call.context, &session, &slot);
        return Ok(result(&call.id(), b"{}"));
    }
    if !wanted {
        slot.subscribe(&uri, false);
    }
    let (response, accepted) = accepted(bridge.forward(Arc::clone(&call), method).await?).await?;
    if accepted {
        let stored = session.store_subscription(target.backend.name(), &uri, wanted).await;
        stored.map_err(storage_rejection)?;
        // Stored only now: otherwise a session opened by the request would send the subscription too.
        if wanted {
            slot.subscribe(&uri, true);
        }
        notifications::follow(&call.context, &session, &slot);
    }
    Ok(response)
}

/// Returns the response, and `true` if the backend has accepted the request.
async fn accepted(response: Response<Body>) -> Result<(Response<Body>, bool), Rejection> {
    // A response at the end of a stream is only read by the client.
    if MediaType::of(response.headers()) != MediaType::Json {
        return Ok((response, true));
    }
    let (parts, body) = response.into_parts();
    let message = read_error_body(body).await.map_err(|error| {
        tracing::debug!(%error, "failed to read the response to a subscription");
        Rejection::internal()
    })?;
    let is_error =
        matches!(scan(&message), Ok(Envelope::Response { outcome: Outcome::Error(_), .. }));
    Ok((Response::from_parts(parts, Body::from(message)), !is_error))
}
