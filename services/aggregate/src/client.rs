//! What a stateful client sends besides requests that backends answer: notifications, answers to
//! questions, and the level of its log.

use std::sync::Arc;

use http::{Response, StatusCode};
use vmcp_core::{Body, Rejection, code};
use vmcp_wire::{Key, Span, Splice};

use crate::backend::ask::tell;
use crate::backend::request::{asking, post};
use crate::call::{Call, result};
use crate::session::{Question, Session};

const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// 202 without a body.
pub(crate) fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// Takes an answer to where the question came from. It is accepted only while such a question is
/// open in this session.
pub(crate) async fn answer(
    call: Arc<Call>,
    session: &Arc<Session>,
    id: Option<Span>,
) -> Result<Response<Body>, Rejection> {
    let message = call.message.bytes.clone();
    let question = id
        .and_then(|id| std::str::from_utf8(id.of(&message)).ok()?.parse().ok())
        .and_then(|number| session.has_talk()?.take(number));
    match (question, id) {
        (Some(Question::Backend { upstream, live, id: theirs, pause, asker: _ }), Some(id)) => {
            drop(pause);
            let mut splice = Splice::new(&message);
            splice.replace(id, theirs.to_vec());
            let request = live.sign(post(&upstream.link, &call.caller, splice.finish()));
            let request = asking(request, "", call.cause());
            if let Err(error) = tell(&upstream.link, request).await {
                tracing::debug!(backend = upstream.link.name(), %error, "an answer did not arrive");
            }
            Ok(accepted())
        }
        (Some(Question::Call(waiting)), _) => {
            // A call that is over no longer cares.
            _ = waiting.send(message);
            Ok(accepted())
        }
        _ => Err(Rejection::malformed(
            code::INVALID_REQUEST,
            "no question with this id is open in this session",
        )),
    }
}

/// Passes on what a notification is about.
pub(crate) async fn notify(
    call: &Call,
    session: &Arc<Session>,
    method: &str,
) -> Result<Response<Body>, Rejection> {
    match method {
        "notifications/cancelled" => cancel(call, session).await,
        "notifications/roots/list_changed" => tell_all(call, session).await,
        // Progress on a question has no token of ours to go by; `initialized` changes nothing.
        _ => {}
    }
    Ok(accepted())
}

/// Ids are the client's own on its own session, so the notification is right as it is.
async fn cancel(call: &Call, session: &Arc<Session>) {
    let Some(running) = call.message.param(Key::RequestId).and_then(|id| session.running(id))
    else {
        return;
    };
    if let Some(cancelled) = &running.cancelled {
        cancelled.notify_one();
    }
    if let Some(live) = running.upstream.open() {
        let link = &running.upstream.link;
        let request = live.sign(post(link, &call.caller, call.message.bytes.clone()));
        _ = tell(link, asking(request, "notifications/cancelled", call.cause())).await;
    }
}

async fn tell_all(call: &Call, session: &Arc<Session>) {
    for upstream in session.upstreams() {
        if let Some(live) = upstream.open() {
            let request = live.sign(post(&upstream.link, &call.caller, call.message.bytes.clone()));
            let request = asking(request, "notifications/roots/list_changed", call.cause());
            _ = tell(&upstream.link, request).await;
        }
    }
}

/// Sets the level of the session's log at every backend, also at those that are opened later.
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
    session.set_level(format!("\"{level}\"").as_bytes());
    for upstream in session.upstreams() {
        if let Some(live) = upstream.open().filter(|live| live.logs) {
            let params = format!("{{\"level\":\"{level}\"}}");
            _ = upstream.set(&live, "logging/setLevel", &params, call.cause()).await;
        }
    }
    Ok(result(&call.id(), b"{}"))
}
