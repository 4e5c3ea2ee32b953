//! Request dispatch by protocol generation and method.

mod client_messages;
mod complete;
mod elsewhere;
mod initialize;
mod listen;
mod lists;
mod response_future;
mod session_requests;
mod subscribe;
mod tasks;

use std::sync::{Arc, Mutex, OnceLock};

use futures_util::future::BoxFuture;
use http::header::{ALLOW, HeaderValue};
use http::{Method, Response, StatusCode, request};
use vmcp_core::{Body, Generation, McpRequest, Rejection, code};
use vmcp_peer::Forwarded;
use vmcp_wire::Envelope;

pub use self::response_future::ResponseFuture;
use self::session_requests::address;
use crate::bridge::Bridge;
use crate::cache::list_views::Views;
use crate::call::{Call, CallContext, Origin};
use crate::catalog::Kind;
use crate::composite::{self, TaskRuns};
use crate::notify::listeners::Listeners;
use crate::response::result;
use crate::session::Session;
use crate::session::store::{SessionAccess, SessionStore};
use crate::tool_search::{self, MetaToolCall, ToolSets};

/// Entry point of requests, with the parts of the service that they use.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    pub(crate) context: Arc<CallContext>,
    pub(crate) bridge: Arc<Bridge>,
    pub(crate) task_runs: Arc<TaskRuns>,
    pub(crate) sessions: Arc<SessionStore>,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) list_views: Arc<Views>,
    pub(crate) tool_sets: Arc<ToolSets>,
}

/// State of a request after its synchronous part.
pub(crate) enum DispatchOutcome {
    Done(Response<Body>),
    Pending(Arc<Call>),
    /// The session storage, or another replica, comes first.
    Deferred(BoxFuture<'static, Response<Body>>),
}

impl Dispatcher {
    /// Starts to process a request.
    pub(crate) fn begin(self: &Arc<Self>, mut parts: request::Parts) -> DispatchOutcome {
        match parts.method {
            Method::POST => match parts.extensions.remove::<McpRequest>() {
                Some(message) => self.post(parts, message),
                // The decode layer is missing from the stack.
                None => DispatchOutcome::of(Err(Rejection::internal())),
            },
            Method::GET => self.begin_stream(parts),
            Method::DELETE => self.end_session(&parts),
            _ => DispatchOutcome::Done(wrong_method()),
        }
    }

    /// Completes a request that needs to wait.
    pub(crate) async fn run(self: Arc<Self>, call: Arc<Call>) -> Response<Body> {
        let answered = match &call.session {
            Some(session) => self.stateful(Arc::clone(&call), Arc::clone(session)).await,
            None => self.stateless(Arc::clone(&call)).await,
        };
        let response = answered.unwrap_or_else(|rejection| refused(&call, rejection));
        call.attach_reservations(response)
    }

    fn post(self: &Arc<Self>, mut parts: request::Parts, message: McpRequest) -> DispatchOutcome {
        let stateful = message.generation == Generation::Stateful;
        let request = matches!(message.envelope, Envelope::Request { .. });
        let opens = stateful && request && message.method() == "initialize";
        let caller = initialize::caller(&parts.extensions);
        let session = if stateful && !opens { Some(self.access(&parts, &caller)) } else { None };
        let address = address(&parts);
        let snapshot = self.context.catalogs.snapshot();
        let own_tools = snapshot.has_own_tools();
        let mut call = Call {
            context: Arc::clone(&self.context),
            snapshot,
            caller,
            session: None,
            message,
            headers: parts.headers,
            permissions: parts.extensions.remove(),
            request_context: parts.extensions.remove(),
            parent: None,
            origin: Origin::Client,
            is_forwarded: parts.extensions.get::<Forwarded>().is_some(),
            auditor: own_tools.then(|| parts.extensions.remove()).flatten(),
            address,
            active: OnceLock::new(),
            reservations: Mutex::default(),
        };
        let answered = match session {
            Some(Ok(SessionAccess::Ready(session))) => {
                call.session = Some(session);
                return DispatchOutcome::Pending(Arc::new(call));
            }
            Some(Ok(access)) => return self.defer(call, access),
            Some(Err(rejection)) => Err(rejection),
            None if opens && self.sessions.is_shared() => return self.defer_initialize(call),
            None if opens => initialize::initialize(&call, &self.sessions, address),
            None if !request => Ok(client_messages::accepted()),
            None => return DispatchOutcome::Pending(Arc::new(call)),
        };
        DispatchOutcome::Done(answered.unwrap_or_else(|rejection| refused(&call, rejection)))
    }

    /// Processes a request once the storage has found its session.
    fn defer(self: &Arc<Self>, mut call: Call, access: SessionAccess) -> DispatchOutcome {
        let this = Arc::clone(self);
        DispatchOutcome::Deferred(Box::pin(async move {
            match this.session(access, &call.caller, call.address).await {
                Ok(session) => {
                    call.session = Some(session);
                    let begun = DispatchOutcome::Pending(Arc::new(call));
                    let Ok(response) = ResponseFuture::new(&this, begun).await;
                    response
                }
                Err(rejection) => refused(&call, rejection),
            }
        }))
    }

    fn defer_initialize(self: &Arc<Self>, call: Call) -> DispatchOutcome {
        let this = Arc::clone(self);
        DispatchOutcome::Deferred(Box::pin(async move {
            let opened = initialize::initialize_shared(&call, &this.sessions).await;
            opened.unwrap_or_else(|rejection| refused(&call, rejection))
        }))
    }

    async fn stateful(
        &self,
        call: Arc<Call>,
        session: Arc<Session>,
    ) -> Result<Response<Body>, Rejection> {
        // Cloning the buffer only increments a reference count; the method borrows from it while the call is moved.
        let bytes = call.message.bytes.clone();
        match call.message.envelope {
            Envelope::Response { id, .. } => {
                Box::pin(client_messages::handle_response(call, &session, id)).await
            }
            Envelope::Notification { method, .. } => {
                Box::pin(client_messages::handle_notification(
                    &call,
                    &session,
                    &method.read(&bytes),
                ))
                .await
            }
            Envelope::Request { method, .. } => match &*method.read(&bytes) {
                "resources/subscribe" => {
                    Box::pin(subscribe::subscribe(
                        &self.bridge,
                        call,
                        session,
                        "resources/subscribe",
                    ))
                    .await
                }
                "resources/unsubscribe" => {
                    Box::pin(subscribe::subscribe(
                        &self.bridge,
                        call,
                        session,
                        "resources/unsubscribe",
                    ))
                    .await
                }
                "logging/setLevel" => Box::pin(client_messages::set_level(&call, &session)).await,
                "ping" => Ok(result(&call.id(), b"{}")),
                method => self.common(call, method).await,
            },
        }
    }

    /// Returns the parts that runs of composite tools use.
    fn run_parts(&self) -> (&Arc<Bridge>, &Arc<TaskRuns>) {
        (&self.bridge, &self.task_runs)
    }

    async fn stateless(&self, call: Arc<Call>) -> Result<Response<Body>, Rejection> {
        let bytes = call.message.bytes.clone();
        let Envelope::Request { method, .. } = call.message.envelope else {
            return Ok(client_messages::accepted());
        };
        match &*method.read(&bytes) {
            "server/discover" => Ok(initialize::discover(&call)),
            "subscriptions/listen" => {
                Box::pin(listen::listen(call, &self.listeners, self.run_parts())).await
            }
            "tasks/get" => Box::pin(tasks::request(self.run_parts(), call, "tasks/get")).await,
            "tasks/update" => {
                Box::pin(tasks::request(self.run_parts(), call, "tasks/update")).await
            }
            "tasks/cancel" => {
                Box::pin(tasks::request(self.run_parts(), call, "tasks/cancel")).await
            }
            method => self.common(call, method).await,
        }
    }

    /// Dispatches methods common to both generations.
    async fn common(&self, call: Arc<Call>, method: &str) -> Result<Response<Body>, Rejection> {
        let method = match method {
            "tools/call" if call.snapshot.has_own_tools() => {
                return Box::pin(self.call_tool(call)).await;
            }
            "tools/call" => "tools/call",
            "prompts/get" => "prompts/get",
            "resources/read" => "resources/read",
            "completion/complete" => return Box::pin(complete::complete(&self.bridge, call)).await,
            "tools/list" => {
                return Box::pin(lists::list(&call, Kind::Tools, &self.list_views)).await;
            }
            "prompts/list" => {
                return Box::pin(lists::list(&call, Kind::Prompts, &self.list_views)).await;
            }
            "resources/list" => {
                return Box::pin(lists::list(&call, Kind::Resources, &self.list_views)).await;
            }
            "resources/templates/list" => {
                return Box::pin(lists::list(&call, Kind::Templates, &self.list_views)).await;
            }
            _ => return Err(Rejection::method_not_found(method)),
        };
        self.bridge.forward(call, method).await
    }

    /// Calls a tool, if some are of the gateway itself: the two of the tool search, and composite tools.
    async fn call_tool(&self, mut call: Arc<Call>) -> Result<Response<Body>, Rejection> {
        if let Some(search) = call.snapshot.search.clone() {
            match tool_search::call(&call, &search, &self.tool_sets).await.transpose()? {
                Some(MetaToolCall::Found(response)) => return Ok(response),
                Some(MetaToolCall::Forward(forwarded)) => call = forwarded,
                None => {}
            }
        }
        match composite::call(self.run_parts(), &call).await {
            Some(answered) => answered,
            None => self.bridge.forward(call, "tools/call").await,
        }
    }
}

impl DispatchOutcome {
    /// Creates the outcome of a request without a JSON-RPC id.
    fn of(answered: Result<Response<Body>, Rejection>) -> Self {
        Self::Done(answered.unwrap_or_else(|rejection| rejection.into_response(None)))
    }
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
