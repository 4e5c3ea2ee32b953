//! The service: one match on what is asked, each arm one call.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{ALLOW, HeaderValue};
use http::{Method, Request, Response, StatusCode, request};
use tokio::task::AbortHandle;
use tower_service::Service;
use vmcp_core::{Body, Generation, McpRequest, Rejection, code};
use vmcp_session::SessionId;
use vmcp_wire::Envelope;

use crate::backend::request::{LAST_EVENT, SESSION};
use crate::call::{Call, event_stream, result};
use crate::catalog::Kind;
use crate::hub::Hub;
use crate::seal::Seal;
use crate::session::Session;
use crate::settings::{Limits, Settings};
use crate::stream::{Opening, parse_id};
use crate::{client, hello, listen, lists, status};

/// How often sessions and streams that are over are let go of.
const SWEEP: Duration = Duration::from_secs(10);

/// Many MCP servers as one. See the [crate docs](crate) for an example.
///
/// The future is boxed. The service is always ready: what is limited is limited by a refusal.
#[derive(Clone, Debug)]
pub struct Gateway {
    hub: Arc<Hub>,
    _running: Arc<Running>,
}

/// Ends the tasks with the last clone of the service.
#[derive(Debug)]
struct Running {
    hub: Arc<Hub>,
    sweeper: AbortHandle,
}

impl Gateway {
    /// Starts observing the backends. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(settings: Settings, limits: Limits, seal: Seal) -> Self {
        let hub = Hub::new(settings, limits, seal);
        let sweeping = Arc::clone(&hub);
        let sweeper = tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                sweeping.sessions.sweep().iter().for_each(|session| session.end());
                sweeping.sessions.for_each(|session| session.prune());
                sweeping.shared.sweep();
            }
        });
        let running = Running { hub: Arc::clone(&hub), sweeper: sweeper.abort_handle() };
        Self { hub, _running: Arc::new(running) }
    }

    /// Takes over another configuration. Requests that have begun end on the old one; backends that
    /// are the same keep their sessions and connections.
    pub async fn reload(&self, settings: Settings) {
        self.hub.reload(settings).await;
    }

    /// Waits until every backend has said what it offers, or that it can't, for at most five seconds.
    pub async fn settled(&self) {
        let snapshot = self.hub.snapshot();
        for link in &snapshot.links {
            link.settled(Duration::from_secs(5)).await;
        }
    }

    /// What is known of the backends and of what they offer together.
    #[must_use]
    pub fn report(&self) -> status::Report {
        status::report(&self.hub)
    }

    /// Ends the streams that would go on by themselves. Calls go on.
    pub fn drain(&self) {
        self.hub.listeners.end();
        self.hub.sessions.for_each(|session| session.quiet());
    }

    /// Ends all sessions and tells the backends, for at most two seconds.
    pub async fn close(&self) {
        self.hub.shut_down();
        // The tasks that tell them are spawned: this gives them their turn.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.sweeper.abort();
        self.hub.shut_down();
    }
}

impl<B> Service<Request<B>> for Gateway {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let hub = Arc::clone(&self.hub);
        let (parts, _) = request.into_parts();
        Box::pin(async move { Ok(answer(hub, parts).await) })
    }
}

async fn answer(hub: Arc<Hub>, mut parts: request::Parts) -> Response<Body> {
    match parts.method {
        Method::POST => match parts.extensions.remove::<McpRequest>() {
            Some(message) => post(hub, parts, message).await,
            // Nobody decoded the message: the stack is put together wrongly.
            None => Rejection::internal().into_response(None),
        },
        Method::GET => open_stream(&hub, &parts).unwrap_or_else(|no| no.into_response(None)),
        Method::DELETE => end_session(&hub, &parts).unwrap_or_else(|no| no.into_response(None)),
        _ => {
            let mut response = Rejection::new(
                StatusCode::METHOD_NOT_ALLOWED,
                code::INVALID_REQUEST,
                "use POST, GET or DELETE",
            )
            .into_response(None);
            let allowed = HeaderValue::from_static("GET, POST, DELETE");
            response.headers_mut().insert(ALLOW, allowed);
            response
        }
    }
}

async fn post(hub: Arc<Hub>, parts: request::Parts, message: McpRequest) -> Response<Body> {
    let stateful = message.generation == Generation::Stateful;
    let id = message.id().map(<[u8]>::to_vec);
    let answered = if stateful {
        stateful_message(hub, parts, message).await
    } else {
        stateless_message(hub, parts, message).await
    };
    answered.unwrap_or_else(|refusal| {
        let refusal = if stateful { refusal.for_session() } else { refusal };
        refusal.into_response(id.as_deref())
    })
}

async fn stateful_message(
    hub: Arc<Hub>,
    parts: request::Parts,
    message: McpRequest,
) -> Result<Response<Body>, Rejection> {
    let method = message.method().into_owned();
    let request = matches!(message.envelope, Envelope::Request { .. });
    if method == "initialize" && request {
        return hello::initialize(&call(hub, parts, message, None));
    }
    let session = session(&hub, &parts)?;
    let kind = message.envelope;
    let call = call(hub, parts, message, Some(Arc::clone(&session)));
    match kind {
        Envelope::Answer { id, .. } => client::answer(call, &session, id).await,
        Envelope::Notification { .. } => client::notify(call, &session, &method).await,
        Envelope::Request { .. } => stateful_request(call, session, &method).await,
    }
}

async fn stateful_request(
    call: Call,
    session: Arc<Session>,
    method: &str,
) -> Result<Response<Body>, Rejection> {
    match method {
        "tools/call" => call.forward("tools/call").await,
        "tools/list" => lists::list(&call, Kind::Tools).await,
        "prompts/list" => lists::list(&call, Kind::Prompts).await,
        "resources/list" => lists::list(&call, Kind::Resources).await,
        "resources/templates/list" => lists::list(&call, Kind::Templates).await,
        "prompts/get" => call.forward("prompts/get").await,
        "resources/read" => call.forward("resources/read").await,
        "completion/complete" => call.forward("completion/complete").await,
        "resources/subscribe" => listen::subscribe(call, session, "resources/subscribe").await,
        "resources/unsubscribe" => listen::subscribe(call, session, "resources/unsubscribe").await,
        "logging/setLevel" => client::set_level(&call, &session).await,
        "ping" => Ok(result(&call.id(), b"{}")),
        _ => Err(Rejection::unknown_method(method)),
    }
}

async fn stateless_message(
    hub: Arc<Hub>,
    parts: request::Parts,
    message: McpRequest,
) -> Result<Response<Body>, Rejection> {
    if !matches!(message.envelope, Envelope::Request { .. }) {
        return Ok(client::accepted());
    }
    let method = message.method().into_owned();
    let call = call(hub, parts, message, None);
    match &*method {
        "tools/call" => call.forward("tools/call").await,
        "tools/list" => lists::list(&call, Kind::Tools).await,
        "prompts/list" => lists::list(&call, Kind::Prompts).await,
        "resources/list" => lists::list(&call, Kind::Resources).await,
        "resources/templates/list" => lists::list(&call, Kind::Templates).await,
        "prompts/get" => call.forward("prompts/get").await,
        "resources/read" => call.forward("resources/read").await,
        "completion/complete" => call.forward("completion/complete").await,
        "server/discover" => Ok(hello::discover(&call)),
        "subscriptions/listen" => listen::listen(call).await,
        _ => Err(Rejection::unknown_method(&method)),
    }
}

fn call(
    hub: Arc<Hub>,
    parts: request::Parts,
    message: McpRequest,
    session: Option<Arc<Session>>,
) -> Call {
    let caller = hello::caller(&parts.extensions);
    let snapshot = hub.snapshot();
    Call { hub, snapshot, caller, session, message, headers: Arc::new(parts.headers) }
}

/// The session that a request names, if it is the caller's.
fn session(hub: &Hub, parts: &request::Parts) -> Result<Arc<Session>, Rejection> {
    let id = parts.headers.get(SESSION).ok_or_else(|| {
        let message = "send Mcp-Session-Id: initialize gives one";
        Rejection::malformed(code::INVALID_REQUEST, message)
    })?;
    SessionId::parse(id.as_bytes())
        .and_then(|id| hub.sessions.get(id, &hello::caller(&parts.extensions)))
        .ok_or_else(Rejection::no_session)
}

/// The stream on which a stateful client hears what it did not ask for, or the rest of one that broke.
fn open_stream(hub: &Arc<Hub>, parts: &request::Parts) -> Result<Response<Body>, Rejection> {
    vmcp_decode::accepts_events(&parts.headers)?;
    let session = session(hub, parts)?;
    let talk = session.talk();
    let resumed = parts.headers.get(LAST_EVENT).map(|id| {
        let (number, next) = id.to_str().ok().and_then(parse_id)?;
        Some((talk.stream(number)?, next))
    });
    let connection = match resumed {
        Some(Some((stream, next))) => stream.connect(Some(next), Opening::Plain),
        Some(None) => {
            let message = "Last-Event-ID names no stream of this session: open one without it";
            return Err(Rejection::new(StatusCode::NOT_FOUND, code::INVALID_REQUEST, message));
        }
        None => talk.standing().connect(None, Opening::Plain),
    };
    for upstream in session.upstreams() {
        if upstream.open().is_some() {
            listen::follow(&session, &upstream);
        }
    }
    Ok(event_stream(Body::wrap(connection)))
}

fn end_session(hub: &Hub, parts: &request::Parts) -> Result<Response<Body>, Rejection> {
    session(hub, parts)?;
    let id = parts.headers.get(SESSION).and_then(|id| SessionId::parse(id.as_bytes()));
    let ended = id.and_then(|id| hub.sessions.close(id, &hello::caller(&parts.extensions)));
    ended.ok_or_else(Rejection::no_session)?.end();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
