//! Requests for a single backend: routed by name and forwarded with minimal changes.
//!
//! Target selection and the request under the backend's own names; the bridges forward it.

pub(crate) mod app;
mod forward;
mod lookup;
mod target;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use vmcp_audit::Auditor;
use vmcp_core::{
    Body, BoxError, BudgetAccount, Caller, CallerPermissions, Generation, McpOperation, McpRequest,
    Rejection, RequestContext, Reservation, cause_ref,
};
use vmcp_session::StorageError;
use vmcp_timeout::Elapsed;
use vmcp_wire::MetaKey;

pub(crate) use self::forward::forward_call;
pub(crate) use self::lookup::{admit_composite, is_composite_visible};
pub(crate) use self::target::CallTarget;
use crate::authorizer::AuthorizerSlot;
use crate::backend::event_reader::EventReader;
use crate::backend::{BackendHandle, handshake};
use crate::cache::caller_catalog_cache::CallerView;
use crate::catalog::{ByGeneration, Kind};
use crate::catalog_store::CatalogStore;
use crate::notify::notification_filter::NotificationFilter;
use crate::notify::notifier::ClientNotifier;
use crate::replicas::{ForwardedRequest, Replicas};
use crate::response::ReservationHolder;
use crate::seal::Seal;
use crate::session::{ActiveCall, Session};
use crate::snapshot::{BackendCatalog, Snapshot};
use crate::stream::detached::{ClientBudgets, Disconnect};
use crate::workflow_runs::WorkflowContext;
use vmcp_core::lock;

/// Parts of the service that every request uses.
#[derive(Debug)]
pub(crate) struct CallContext {
    pub(crate) catalogs: Arc<CatalogStore>,
    pub(crate) notifier: ClientNotifier,
    pub(crate) authorizer: Arc<AuthorizerSlot>,
    pub(crate) notification_filter: Arc<NotificationFilter>,
    pub(crate) budgets: ClientBudgets,
    pub(crate) seal: Seal,
    pub(crate) replicas: Replicas,
    pub(crate) workflows: WorkflowContext,
    /// Maximum size of a backend's response that has to be buffered, in bytes.
    pub(crate) max_buffered_bytes: usize,
    /// Time for which a call of a session continues while its client is disconnected.
    pub(crate) detached_timeout: Duration,
}

/// Origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The client sent it as it is.
    Client,
    /// The client sent it as `call_tool`. Its headers name that tool.
    CallTool,
    /// A step of a composite tool, which may use hidden tools.
    Step,
}

/// Client request with the context that its processing needs.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) context: Arc<CallContext>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) caller: Caller,
    /// Session of the client; `None` for stateless clients.
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) message: McpRequest,
    pub(crate) headers: HeaderMap,
    /// Permissions of the caller; `None` grants access to everything.
    pub(crate) permissions: Option<CallerPermissions>,
    pub(crate) request_context: Option<RequestContext>,
    /// Record of the step of a composite tool that causes this request, or of the client's request if the step is not traced.
    pub(crate) parent: Option<RequestContext>,
    pub(crate) origin: Origin,
    /// `true` if another replica forwarded the request, which is not forwarded again.
    pub(crate) is_forwarded: bool,
    /// Auditor of the request, for the runs of composite tools.
    pub(crate) auditor: Option<Auditor>,
    /// Address of the client, if known.
    pub(crate) address: Option<IpAddr>,
    /// Entry of the request in its session. Created when the request is sent to a backend or when its client disconnects.
    pub(crate) active: OnceLock<Arc<ActiveCall>>,
    /// Reservations for buffered responses, held until the response is sent. Locked by one task at a time, so never contended.
    pub(crate) reservations: Mutex<Vec<Reservation>>,
}

impl ReservationHolder for Call {
    fn account(&self) -> Option<BudgetAccount> {
        self.account()
    }

    fn hold(&self, count: Reservation) {
        self.hold(count);
    }
}

impl CallContext {
    /// Returns the sealed handle of this replica if its runs of composite tools are in its memory.
    pub(crate) fn run_replica(&self) -> Option<Arc<str>> {
        if self.workflows.store.is_shared() { None } else { self.replicas.own_handle() }
    }

    /// Returns the caller's catalog under `snapshot` or its replacement after a reload, and the missing backends.
    pub(crate) async fn seen(
        &self,
        snapshot: &Arc<Snapshot>,
        caller: &Caller,
        cause: Option<&RequestContext>,
    ) -> Result<(Arc<Snapshot>, CallerView), Rejection> {
        let snapshot = self.catalogs.wait_ready(snapshot).await;
        let seen = if snapshot.per_caller {
            self.catalogs.seen_by(&snapshot, caller, cause).await
        } else {
            Some(CallerView { catalogs: snapshot.catalogs(), missing: Vec::new() })
        };
        Ok((snapshot, seen.ok_or_else(Rejection::internal)?))
    }
}

/// Records that a client's request to a backend failed.
pub(crate) fn failed(backend: &BackendHandle, error: &BoxError) {
    tracing::debug!(backend = backend.name(), %error, "a call failed");
    // The failure may be due to a changed catalog. A timeout does not suggest that, and a successful list request would not
    // show that calls succeed; nor does a session storage that is away.
    let is_elsewhere = cause_ref::<StorageError>(error.as_ref()).is_some();
    if !is_elsewhere && cause_ref::<Elapsed>(error.as_ref()).is_none() {
        backend.refresh();
    }
}

/// Returns the capabilities of the client, as JSON: those of its session, or those that the request declares.
pub(crate) fn client_capabilities(call: &Call) -> &[u8] {
    if let Some(session) = &call.session {
        return session.capabilities();
    }
    let params = call.message.params();
    let declared = params.and_then(|params| params.meta(MetaKey::ClientCapabilities));
    declared.map_or(b"{}", |span| span.of(&call.message.bytes))
}

impl Call {
    /// Returns the request as another replica gets it.
    pub(crate) fn forwarded(&self) -> ForwardedRequest {
        let message = self.message.bytes.clone();
        ForwardedRequest::of_message(message, &self.headers, &self.caller, self.address)
    }

    /// Returns the record of this request for outgoing requests, if a layer observes it.
    pub(crate) fn cause(&self) -> Option<&RequestContext> {
        let observed = self.request_context.as_ref().or(self.parent.as_ref());
        observed.filter(|request_context| request_context.has_extension())
    }

    /// Attaches the operation to a request for the target's backend, if a layer observes it.
    pub(crate) fn attach_operation(&self, target: &CallTarget, request: &mut Request<Full<Bytes>>) {
        if let Some(request_context) = self.cause() {
            let operation = McpOperation::new(target.method).with_name(target.literal.clone());
            request.extensions_mut().insert(operation.with_client_request(request_context.clone()));
        }
    }

    /// Handles the list change of a stateless backend: all clients are notified once the catalog is updated.
    pub(crate) fn list_changed(&self, target: &CallTarget, kind: Kind) {
        let caller = self.caller.identity();
        match &target.backend.per_caller {
            Some(owns) => {
                owns.changed(caller);
                self.context.notifier.notify_caller(caller, &ByGeneration::both(vec![kind]));
            }
            None => target.backend.list_changed(kind, Generation::Stateless),
        }
    }

    /// Returns the caller's account in the budget of the process, if that has one.
    pub(crate) fn account(&self) -> Option<BudgetAccount> {
        self.context.budgets.process_account(self.caller.identity(), self.address)
    }

    /// Holds the reservation of a response until the response is sent.
    pub(crate) fn hold(&self, count: Reservation) {
        lock(&self.reservations).push(count);
    }

    /// Holds the reservation of the event that was read last.
    pub(crate) fn keep_event_reservation(&self, events: &mut EventReader) {
        if let Some(count) = events.take_reservation() {
            self.hold(count);
        }
    }

    /// Takes the held reservations.
    pub(crate) fn take_reservations(&self) -> Vec<Reservation> {
        std::mem::take(&mut *lock(&self.reservations))
    }

    /// Attaches the held reservations to the response.
    pub(crate) fn attach_reservations(&self, response: Response<Body>) -> Response<Body> {
        let reservations = self.take_reservations();
        if reservations.is_empty() {
            return response;
        }
        let attach = |bytes, count: Reservation| count.attach(bytes);
        // Streaming responses hold their own reservations.
        response.map(|body| body.map_longest(|bytes| reservations.into_iter().fold(bytes, attach)))
    }

    /// Returns the entry of the request in its session.
    pub(crate) fn active(&self) -> &Arc<ActiveCall> {
        self.active.get_or_init(|| match self.origin {
            Origin::Client | Origin::CallTool => {
                ActiveCall::of_client(self.id(), self.request_context.clone())
            }
            Origin::Step => ActiveCall::of_step(self.id()),
        })
    }

    /// Returns the departure of the client, if it disconnected before the response.
    pub(crate) fn departure(&self) -> Option<&Disconnect> {
        self.active.get()?.departure()
    }

    /// Records that the client disconnected. Returns `true` if the request may continue: it belongs to a session that is below
    /// its limit of detached calls.
    pub(crate) fn detach(&self) -> bool {
        let account = self.session.as_ref().map(|it| it.account(&self.context.budgets));
        let departure = account.as_ref().and_then(Disconnect::new);
        departure.is_some_and(|departure| self.active().depart(departure))
    }

    /// Returns the client's request id, as JSON; empty for a notification.
    pub(crate) fn id(&self) -> Bytes {
        self.message.id().map_or_else(Bytes::new, |id| self.message.bytes.slice_ref(id))
    }

    /// Returns the error message that ends the stream of a failed call, and records its code.
    pub(crate) fn failure(&self, rejection: &Rejection) -> Bytes {
        if let Some(request_context) = &self.request_context {
            request_context.record_error(rejection.code().into());
        }
        rejection.to_json(Some(&self.id()))
    }

    /// Returns the protocol generation of the client.
    pub(crate) fn generation(&self) -> Generation {
        self.message.generation
    }

    /// Returns the caller's catalog, after waiting for pending offers.
    pub(crate) async fn offered(&self) -> Result<Arc<BackendCatalog>, Rejection> {
        let (_, seen) = self.seen().await?;
        Ok(Arc::clone(seen.catalogs.of(self.generation())))
    }

    /// Returns the caller's catalog, its missing backends and the snapshot that it belongs to.
    pub(crate) async fn seen(&self) -> Result<(Arc<Snapshot>, CallerView), Rejection> {
        self.context.seen(&self.snapshot, &self.caller, self.cause()).await
    }

    /// Returns the generation in which to call a backend; probes the backend if that is not known.
    pub(crate) async fn backend_generation(
        &self,
        backend: &Arc<BackendHandle>,
    ) -> Result<Generation, BoxError> {
        let client = self.message.generation;
        if let Some(modes) = backend.modes() {
            return Ok(modes.with(client));
        }
        let client_info = self.context.catalogs.client_info();
        let client_info = client_info.before(backend, &self.caller).caused_by(self.cause());
        let (modes, _) = Box::pin(handshake::probe(backend, client_info)).await?;
        backend.set_modes(modes);
        Ok(modes.with(client))
    }

    /// Rejects a call that policies decided for the backend's other generation, and requests a fetch of its offer.
    pub(crate) fn outdated(&self, backend: &BackendHandle) -> Rejection {
        match &backend.per_caller {
            Some(owns) => owns.changed(self.caller.identity()),
            None => backend.reconnect.notify_waiters(),
        }
        let problem = "has changed its protocol generation: try again";
        Rejection::backend_unavailable(backend.name(), problem)
    }
}
