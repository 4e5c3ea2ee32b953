//! `resources/subscribe` and `resources/unsubscribe` of stateful clients.

use std::sync::Arc;

use http::Response;
use vmcp_core::{Body, Rejection};

use super::follow;
use crate::backend::Speaks;
use crate::call::{Call, Target, result};
use crate::session::Session;

/// Subscribes at the backend that has the resource; from then on its updates come on the client's
/// standing stream.
pub(crate) async fn subscribe(
    call: Arc<Call>,
    session: Arc<Session>,
    method: &'static str,
) -> Result<Response<Body>, Rejection> {
    let target = Target::find(&call, method).await?;
    if let Some(trail) = &call.trail {
        trail.note_backend(&target.link.backend);
    }
    let uri = target.name();
    let upstream = session.upstream(&target.link);
    let wanted = method == "resources/subscribe";
    if !upstream.subscribe(&uri, wanted) {
        return Err(Rejection::invalid_params("too many subscriptions of this session"));
    }
    // The client's stream may come later: what is said until then waits for it.
    session.talk().standing();
    if target.link.speaks() == Some(Speaks::Stateless) {
        // Another set of resources is another stream.
        upstream.stop_listening();
        follow::follow(&call.hub, &session, &upstream);
        return Ok(result(&call.id(), b"{}"));
    }
    let answer = Arc::clone(&call).forward(method).await;
    if answer.as_ref().is_ok_and(|response| response.status().is_success()) {
        follow::follow(&call.hub, &session, &upstream);
    }
    answer
}
