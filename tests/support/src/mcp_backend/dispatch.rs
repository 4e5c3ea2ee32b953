//! Requests of clients, from HTTP to their handlers.

use std::sync::Arc;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::pending_request::{PendingRequest, Reply};
use super::response::{event_stream, full_response, json_response};
use super::state::{NotificationStream, RecordedRequest, Session, State, lock};
use super::{Behavior, Protocol, SESSION, STATELESS, SessionLoss, VERSION, defaults};
use crate::http_listener::BoxResponse;

/// Handles one HTTP request.
pub(super) async fn handle(state: Arc<State>, request: Request<Bytes>) -> BoxResponse {
    let _in_flight = Arc::clone(&state.in_flight);
    let (parts, body) = request.into_parts();
    lock(&state.requests).push(RecordedRequest {
        method: parts.method.clone(),
        path: parts.uri.to_string(),
        headers: parts.headers.clone(),
        body: body.clone(),
        received_at: Instant::now(),
    });
    if is_rejected(&state, &parts.headers) {
        return json_response(StatusCode::UNAUTHORIZED, &json!({"error": "invalid_token"}));
    }
    let mut behaviors = state.behavior.subscribe();
    let waited = behaviors.wait_for(|behavior| *behavior != Behavior::Hung).await;
    let behavior = waited.map_or(Behavior::Normal, |behavior| *behavior);
    match behavior {
        Behavior::Normal | Behavior::Hung => {}
        Behavior::Delayed(delay) => sleep(delay).await,
        Behavior::Status(status) => return full_response(status, "text/plain", ""),
    }
    let mut response = match state.settings.protocol {
        Protocol::LegacySse => legacy(&state, parts, &body),
        Protocol::Stateful | Protocol::Stateless | Protocol::Both => {
            streamable(&state, parts, &body).await
        }
    };
    let extra = state.settings.headers.iter();
    response.headers_mut().extend(extra.map(|(name, value)| (name.clone(), value.clone())));
    response
}

fn is_rejected(state: &State, headers: &HeaderMap) -> bool {
    let presented = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    presented.is_some_and(|value| lock(&state.rejected).iter().any(|rejected| rejected == value))
}

/// Handles a request of Streamable HTTP.
async fn streamable(state: &Arc<State>, parts: Parts, body: &Bytes) -> BoxResponse {
    let named = header(&parts.headers, SESSION).map(str::to_owned);
    let session = named.as_ref().and_then(|id| lock(&state.sessions).get(id).cloned());
    match parts.method {
        Method::POST => post(state, session, parts.headers, body).await,
        Method::DELETE if named.is_some() => {
            let ended = session.filter(|session| state.lose_session(&session.id));
            let status =
                if ended.is_some() { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND };
            lock(&state.ended).extend(ended.map(|session| session.id.clone()));
            full_response(status, "text/plain", "")
        }
        Method::GET if state.settings.has_streams && session.is_some() => {
            let (response, sender) = event_stream(Arc::clone(&state.in_flight));
            let session = session.map(|session| session.id.clone());
            lock(&state.streams).push(NotificationStream { session, subscription: None, sender });
            response
        }
        Method::GET if state.settings.has_streams && named.is_some() => unknown_session(state),
        _ => full_response(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "POST only"),
    }
}

async fn post(
    state: &Arc<State>,
    session: Option<Arc<Session>>,
    headers: HeaderMap,
    body: &Bytes,
) -> BoxResponse {
    let Ok(message) = serde_json::from_slice::<Value>(body) else {
        return full_response(StatusCode::BAD_REQUEST, "text/plain", "not JSON");
    };
    let is_stateless = header(&headers, VERSION) == Some(STATELESS);
    match state.settings.protocol {
        Protocol::Stateful if is_stateless => return unknown_session(state),
        Protocol::Stateless if !is_stateless => {
            let error = json!({"code": -32022, "message": "unsupported protocol version",
                "data": {"supported": [STATELESS]}});
            let message = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
            return json_response(StatusCode::BAD_REQUEST, &message);
        }
        _ => {}
    }
    if !is_stateless && session.is_none() && message["method"] != "initialize" {
        return unknown_session(state);
    }
    let session = session.filter(|_| !is_stateless);
    if message["method"].is_null() {
        let is_expected = session.is_some_and(|session| resolve(&session, &message));
        let status = if is_expected { StatusCode::ACCEPTED } else { StatusCode::BAD_REQUEST };
        return full_response(status, "text/plain", "");
    }
    let (head, response) = oneshot::channel();
    dispatch(PendingRequest {
        state: Arc::clone(state),
        session,
        headers,
        message,
        is_stateless,
        reply: Reply::Head(head),
        in_flight: Arc::downgrade(&state.in_flight),
    });
    match response.await {
        Ok(response) => response,
        // A request that its handler drops gets no response.
        Err(_) => std::future::pending().await,
    }
}

/// Handles a request of HTTP+SSE (MCP 2024-11-05).
fn legacy(state: &Arc<State>, parts: Parts, body: &Bytes) -> BoxResponse {
    let posted = parts.uri.query().and_then(|query| query.strip_prefix("session="));
    match (parts.method, posted) {
        (Method::GET, None) => open_legacy_stream(state),
        (Method::POST, Some(id)) => {
            let session = lock(&state.sessions).get(id).cloned();
            let stream = {
                let streams = lock(&state.streams);
                let mut streams = streams.iter();
                streams.find(|it| it.session.as_deref() == Some(id)).map(|it| it.sender.clone())
            };
            let (Some(session), Some(stream)) = (session, stream) else {
                return unknown_session(state);
            };
            let Ok(message) = serde_json::from_slice::<Value>(body) else {
                return full_response(StatusCode::BAD_REQUEST, "text/plain", "not JSON");
            };
            if message["method"].is_null() {
                resolve(&session, &message);
            } else {
                dispatch(PendingRequest {
                    state: Arc::clone(state),
                    session: Some(session),
                    headers: parts.headers,
                    message,
                    is_stateless: false,
                    reply: Reply::Stream(stream),
                    in_flight: Arc::downgrade(&state.in_flight),
                });
            }
            full_response(StatusCode::ACCEPTED, "text/plain", "Accepted")
        }
        _ => full_response(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "POST to the endpoint"),
    }
}

/// Opens the stream of a session, whose first event names the URL for messages.
fn open_legacy_stream(state: &Arc<State>) -> BoxResponse {
    let (response, sender) = event_stream(Arc::clone(&state.in_flight));
    let session = state.open_session();
    let own = || format!("/messages?session={}", session.id);
    let endpoint = state.settings.endpoint.clone().unwrap_or_else(own);
    // The queue of a new stream has room.
    _ = sender.try_send(format!("event: endpoint\ndata: {endpoint}\n\n").into());
    let session = Some(session.id.clone());
    lock(&state.streams).push(NotificationStream { session, subscription: None, sender });
    response
}

/// Passes the client's response to the pending server request. Returns `false` if there is none.
fn resolve(session: &Session, message: &Value) -> bool {
    let pending = if message["id"] == 1 { lock(&session.question).take() } else { None };
    pending.is_some_and(|pending| pending.send(message["result"].clone()).is_ok())
}

/// Passes a request to its handler: that of its tool, that of its method, or the default one.
fn dispatch(request: PendingRequest) {
    let tool = request.params()["name"].as_str().filter(|_| request.method() == "tools/call");
    let of_tool = tool.and_then(|tool| lock(&request.state.tools).get(tool).cloned());
    let handler = of_tool.or_else(|| lock(&request.state.methods).get(request.method()).cloned());
    match handler {
        Some(handler) => handler(request),
        None => defaults::respond(request),
    }
}

fn unknown_session(state: &State) -> BoxResponse {
    let (status, code) = match *lock(&state.loss) {
        SessionLoss::NotFound => (StatusCode::NOT_FOUND, -32001),
        SessionLoss::BadRequest => (StatusCode::BAD_REQUEST, -32000),
    };
    let error = json!({"code": code, "message": "no such session"});
    json_response(status, &json!({"jsonrpc": "2.0", "error": error, "id": null}))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok())
}
