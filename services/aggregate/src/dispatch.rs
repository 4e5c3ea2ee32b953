//! Request dispatch by protocol generation and method.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use http::header::{ALLOW, HeaderValue};
use http::{Method, Response, StatusCode, request};
use vmcp_core::{Body, Caller, Generation, McpRequest, Rejection, code};
use vmcp_session::SessionId;
use vmcp_wire::Envelope;

use crate::backend::request::{LAST_EVENT, SESSION};
use crate::call::{Call, complete};
use crate::catalog::Kind;
use crate::event_stream::event_stream;
use crate::gateway_state::GatewayState;
use crate::notify::listen;
use crate::response::result;
use crate::session::Session;
use crate::stream::{Opening, parse_id};
use crate::{client_messages, initialize, lists, tasks};

/// State of a request after its synchronous part.
pub(crate) enum Dispatched {
    Done(Response<Body>),
    Pending(Arc<Call>),
}

/// Starts to process a request.
pub(crate) fn begin(gateway: &Arc<GatewayState>, mut parts: request::Parts) -> Dispatched {
    let answered = match parts.method {
        Method::POST => match parts.extensions.remove::<McpRequest>() {
            Some(message) => return post(gateway, parts, message),
            // The decode layer is missing from the stack.
            None => Err(Rejection::internal()),
        },
        Method::GET => open_stream(gateway, &parts),
        Method::DELETE => end_session(gateway, &parts),
        _ => return Dispatched::Done(wrong_method()),
    };
    Dispatched::Done(answered.unwrap_or_else(|rejection| rejection.into_response(None)))
}

/// Completes a request that needs to wait.
pub(crate) async fn run(call: Arc<Call>) -> Response<Body> {
    let answered = match &call.session {
        Some(session) => stateful(Arc::clone(&call), Arc::clone(session)).await,
        None => stateless(Arc::clone(&call)).await,
    };
    let response = answered.unwrap_or_else(|rejection| refused(&call, rejection));
    call.attach_reservations(response)
}

fn refused(call: &Call, rejection: Rejection) -> Response<Body> {
    let stateful = call.message.generation == Generation::Stateful;
    let rejection = if stateful { rejection.for_stateful_client() } else { rejection };
    rejection.into_response(call.message.id())
}

fn wrong_method() -> Response<Body> {
    let message = "use POST, GET or DELETE";
    let rejection = Rejection::new(StatusCode::METHOD_NOT_ALLOWED, code::INVALID_REQUEST, message);
    let mut response = rejection.into_response(None);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
    response
}

fn post(gateway: &Arc<GatewayState>, mut parts: request::Parts, message: McpRequest) -> Dispatched {
    let stateful = message.generation == Generation::Stateful;
    let request = matches!(message.envelope, Envelope::Request { .. });
    let opens = stateful && request && message.method() == "initialize";
    let caller = initialize::caller(&parts.extensions);
    let session = if stateful && !opens { Some(session(gateway, &parts, &caller)) } else { None };
    let address = parts.extensions.get::<SocketAddr>().map(SocketAddr::ip);
    let mut call = Call {
        gateway: Arc::clone(gateway),
        snapshot: gateway.snapshot(),
        caller,
        session: None,
        message,
        headers: parts.headers,
        permissions: parts.extensions.remove(),
        request_context: parts.extensions.remove(),
        address,
        active: OnceLock::new(),
        reservations: Mutex::default(),
    };
    let answered = match session {
        Some(Ok(session)) => {
            call.session = Some(session);
            return Dispatched::Pending(Arc::new(call));
        }
        Some(Err(rejection)) => Err(rejection),
        None if opens => initialize::initialize(&call, address),
        None if !request => Ok(client_messages::accepted()),
        None => return Dispatched::Pending(Arc::new(call)),
    };
    Dispatched::Done(answered.unwrap_or_else(|rejection| refused(&call, rejection)))
}

async fn stateful(call: Arc<Call>, session: Arc<Session>) -> Result<Response<Body>, Rejection> {
    // Cloning the buffer only increments a reference count; the method borrows from it while the call is moved.
    let bytes = call.message.bytes.clone();
    match call.message.envelope {
        Envelope::Response { id, .. } => {
            Box::pin(client_messages::handle_response(call, &session, id)).await
        }
        Envelope::Notification { method, .. } => {
            Box::pin(client_messages::handle_notification(&call, &session, &method.read(&bytes)))
                .await
        }
        Envelope::Request { method, .. } => match &*method.read(&bytes) {
            "resources/subscribe" => {
                Box::pin(listen::subscribe(call, session, "resources/subscribe")).await
            }
            "resources/unsubscribe" => {
                Box::pin(listen::subscribe(call, session, "resources/unsubscribe")).await
            }
            "logging/setLevel" => Box::pin(client_messages::set_level(&call, &session)).await,
            "ping" => Ok(result(&call.id(), b"{}")),
            method => common(call, method).await,
        },
    }
}

async fn stateless(call: Arc<Call>) -> Result<Response<Body>, Rejection> {
    let bytes = call.message.bytes.clone();
    let Envelope::Request { method, .. } = call.message.envelope else {
        return Ok(client_messages::accepted());
    };
    match &*method.read(&bytes) {
        "server/discover" => Ok(initialize::discover(&call)),
        "subscriptions/listen" => Box::pin(listen::listen(call)).await,
        "tasks/get" => Box::pin(tasks::request(call, "tasks/get")).await,
        "tasks/update" => Box::pin(tasks::request(call, "tasks/update")).await,
        "tasks/cancel" => Box::pin(tasks::request(call, "tasks/cancel")).await,
        method => common(call, method).await,
    }
}

/// Dispatches methods common to both generations.
async fn common(call: Arc<Call>, method: &str) -> Result<Response<Body>, Rejection> {
    let method = match method {
        "tools/call" => "tools/call",
        "prompts/get" => "prompts/get",
        "resources/read" => "resources/read",
        "completion/complete" => return Box::pin(complete(call)).await,
        "tools/list" => return Box::pin(lists::list(&call, Kind::Tools)).await,
        "prompts/list" => return Box::pin(lists::list(&call, Kind::Prompts)).await,
        "resources/list" => return Box::pin(lists::list(&call, Kind::Resources)).await,
        "resources/templates/list" => return Box::pin(lists::list(&call, Kind::Templates)).await,
        _ => return Err(Rejection::method_not_found(method)),
    };
    call.forward(method).await
}

/// Returns the session named by a request, if it belongs to the caller.
fn session(
    gateway: &GatewayState,
    parts: &request::Parts,
    caller: &Caller,
) -> Result<Arc<Session>, Rejection> {
    let mut ids = parts.headers.get_all(SESSION).iter();
    let id = ids.next().ok_or_else(|| {
        let message = "Mcp-Session-Id is missing: send the one that initialize returned";
        Rejection::malformed(code::INVALID_REQUEST, message)
    })?;
    if ids.next().is_some() {
        // An upstream router may have read the other header.
        let message = "send one Mcp-Session-Id";
        return Err(Rejection::malformed(code::INVALID_REQUEST, message));
    }
    let session = SessionId::parse(id.as_bytes())
        .and_then(|id| gateway.sessions.get(id, caller.identity()))
        .ok_or_else(Rejection::session_not_found)?;
    session.update_token(caller);
    Ok(session)
}

/// Opens the notification stream of a stateful client, or resumes a stream.
fn open_stream(
    gateway: &Arc<GatewayState>,
    parts: &request::Parts,
) -> Result<Response<Body>, Rejection> {
    vmcp_decode::require_event_stream(&parts.headers)?;
    let session = session(gateway, parts, &initialize::caller(&parts.extensions))?;
    let talk = session.streams();
    let resumed = parts.headers.get(LAST_EVENT).map(|id| {
        let (number, next) = id.to_str().ok().and_then(parse_id)?;
        Some((talk.stream(number)?, next))
    });
    let connection = match resumed {
        Some(Some((stream, next))) => stream.connect(Some(next), Opening::Plain),
        Some(None) => {
            let message = "Last-Event-ID names no stream of this session: open one without it";
            // Not 404, which would tell the client that its session has ended.
            return Err(Rejection::malformed(code::INVALID_REQUEST, message));
        }
        None => {
            let standing = talk.standing(|| session.account(&gateway.budgets));
            standing.connect(None, Opening::Plain)
        }
    };
    for slot in session.backend_slots() {
        if slot.open().is_some() {
            listen::follow(gateway, &session, &slot);
        }
    }
    Ok(event_stream(Body::wrap(connection)))
}

fn end_session(
    gateway: &GatewayState,
    parts: &request::Parts,
) -> Result<Response<Body>, Rejection> {
    let caller = initialize::caller(&parts.extensions);
    session(gateway, parts, &caller)?;
    let id = parts.headers.get(SESSION).and_then(|id| SessionId::parse(id.as_bytes()));
    let ended = id.and_then(|id| gateway.sessions.close(id, caller.identity()));
    ended.ok_or_else(Rejection::session_not_found)?.end();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::seal::Seal;
    use crate::settings::{Limits, PartialFailure, Rules, Settings};

    #[tokio::test]
    async fn request_future_stays_small() {
        let settings = Settings {
            name: String::new(),
            version: String::new(),
            backends: Vec::new(),
            rules: Rules::default(),
            partial_failure: PartialFailure::BestEffort,
            checks: None,
        };
        let seal = Seal::new(&[[0; 32]], std::time::Duration::from_secs(1));
        let gateway = GatewayState::new(settings, Limits::default(), seal);
        let bytes = bytes::Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        let envelope = vmcp_wire::scan(&bytes).unwrap();
        let (mut parts, ()) = Request::post("/mcp").body(()).unwrap().into_parts();
        parts.extensions.insert(McpRequest { bytes, envelope, generation: Generation::Stateless });
        let Dispatched::Pending(call) = begin(&gateway, parts) else { panic!("answered at once") };
        // The future is moved to the heap once per request.
        let size = size_of_val(&run(call));
        assert!(size <= 2600, "{size} bytes");
    }
}
