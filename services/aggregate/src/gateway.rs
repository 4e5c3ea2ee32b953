//! The gateway service: construction, reload and shutdown.

mod backend_events;
mod session_messages;
mod workflow_runs;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join_all;
use http::{Request, Response};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tower_service::Service;
use vmcp_compose::Jitter;
use vmcp_core::{Body, CallerPermissions, Generation};
use vmcp_optimize::{Embedder, Query, SearchResult, View};
use vmcp_seal::KeyRing;
use vmcp_session::SessionSeal;

use self::backend_events::apply_events;
use self::session_messages::follow_storage;
use crate::authorizer::{AuthorizerSlot, CallerAuthorizer};
use crate::backend::per_caller::PerCallerCatalogs;
use crate::backend::tasks::{BackendTasks, EndedBackend};
use crate::bridge::Bridge;
use crate::bridge::suspended_calls::SuspendedCalls;
use crate::cache::list_views::Views;
use crate::call::CallContext;
use crate::catalog::{ByGeneration, Kind};
use crate::catalog_store::{CatalogStore, Reload};
use crate::dispatch::Dispatcher;
pub use crate::dispatch::ResponseFuture;
use crate::notify::listeners::Listeners;
use crate::notify::notification_filter::NotificationFilter;
use crate::notify::notifier::ClientNotifier;
use crate::replicas::Replicas;
use crate::seal::Seal;
use crate::session::stateless_sessions::StatelessSessions;
use crate::session::store::{SessionStore, SharedSessions};
use crate::settings::{Limits, Settings};
use crate::status;
use crate::stream::detached::{ClientBudgets, DetachedBudget};
use crate::stream::dropped;
use crate::tool_search::ToolSets;
use crate::workflow_runs::WorkflowContext;

/// Interval between sweeps of ended sessions and streams.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Timeout for closing the sessions at the backends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// `Service` that presents many MCP servers as one. See the [crate docs](crate) for an example.
///
/// Requests that need no waiting are processed synchronously; other futures are boxed. The service is always ready: requests
/// beyond a limit are rejected.
#[derive(Clone, Debug)]
pub struct Gateway(Arc<GatewayInner>);

/// Parts of the service. Dropping it with the last clone of the service ends the tasks.
#[derive(Debug)]
struct GatewayInner {
    dispatcher: Arc<Dispatcher>,
    catalogs: Arc<CatalogStore>,
    notifier: ClientNotifier,
    backend_tasks: BackendTasks,
    tasks: Vec<AbortHandle>,
}

/// Builds the parts of the service that process requests.
fn dispatcher(
    catalogs: &Arc<CatalogStore>,
    notifier: &ClientNotifier,
    limits: Limits,
    ring: KeyRing,
) -> Dispatcher {
    let Limits {
        sessions: _,
        session_ttl: _,
        listeners: _,
        suspended_calls,
        suspended_calls_per_identity,
        suspension_timeout,
        detached_timeout,
        detached_bytes,
        max_buffered_bytes,
        byte_budget,
        workflow_store,
        session_storage,
        peers,
        clock,
    } = limits;
    let authorizer = Arc::<AuthorizerSlot>::default();
    let context = CallContext {
        catalogs: Arc::clone(catalogs),
        notifier: notifier.clone(),
        notification_filter: Arc::new(NotificationFilter::new(
            Arc::clone(&authorizer),
            Arc::clone(catalogs),
        )),
        authorizer,
        budgets: ClientBudgets {
            detached: DetachedBudget::new(detached_bytes),
            process: byte_budget,
        },
        seal: Seal::new(ring, suspension_timeout, clock.clone()),
        replicas: Replicas::new(peers, session_storage),
        workflows: WorkflowContext {
            store: workflow_store,
            clock,
            jitter: Jitter::system(),
            counters: Arc::default(),
            suspended: Arc::default(),
        },
        max_buffered_bytes,
        detached_timeout,
    };
    let bridge = Bridge {
        sessions: StatelessSessions::default(),
        suspended_calls: SuspendedCalls::new(suspended_calls, suspended_calls_per_identity),
        suspension_timeout,
    };
    let list_views = Arc::new(Views::new());
    Dispatcher {
        context: Arc::new(context),
        bridge: Arc::new(bridge),
        task_runs: Arc::default(),
        sessions: Arc::clone(&notifier.sessions),
        listeners: Arc::clone(&notifier.listeners),
        tool_sets: Arc::new(ToolSets::new(Arc::clone(&list_views))),
        list_views,
    }
}

/// Creates the table of sessions. Ids are sealed if other processes have the keys too.
fn sessions(limits: &Limits, ring: &KeyRing, catalogs: &Arc<CatalogStore>) -> SessionStore {
    let store = SessionStore::new(limits.sessions, limits.session_ttl, limits.suspension_timeout);
    if !ring.is_shared() && limits.session_storage.is_none() {
        return store;
    }
    let seal = SessionSeal::new(ring.clone(), limits.clock.clone());
    let store = store.with_seal(seal, limits.peers.clone());
    let Some(storage) = &limits.session_storage else { return store };
    store.with_storage(SharedSessions::new(Arc::clone(storage), Arc::downgrade(catalogs)))
}

/// Removes ended and expired state, and ends runs without answers.
async fn sweep(dispatcher: &Dispatcher) {
    dispatcher.context.replicas.announce();
    dispatcher.sessions.sweep();
    dispatcher.bridge.sessions.sweep();
    dispatcher.list_views.sweep();
    dispatcher.tool_sets.sweep();
    dispatcher.context.catalogs.sweep();
    let workflows = &dispatcher.context.workflows;
    workflows.suspended.end_unanswered(workflows).await;
}

impl Gateway {
    /// Creates the service and starts observing the backends. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(settings: Settings, limits: Limits, ring: KeyRing) -> Self {
        let (catalogs, events) =
            CatalogStore::new(settings, limits.byte_budget.clone(), limits.clock.clone());
        let sessions = sessions(&limits, &ring, &catalogs);
        let notifier = ClientNotifier {
            sessions: Arc::new(sessions),
            listeners: Arc::new(Listeners::new(limits.listeners)),
        };
        let (storage, session_ttl) = (limits.session_storage.clone(), limits.session_ttl);
        let dispatcher = Arc::new(dispatcher(&catalogs, &notifier, limits, ring));
        // The task ends with the last sender, that is, after the state and the tasks of the backends.
        tokio::spawn(apply_events(Arc::downgrade(&catalogs), notifier.clone(), events));
        let sweeping = Arc::clone(&dispatcher);
        let sweeper = tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP_INTERVAL).await;
                sweep(&sweeping).await;
            }
        });
        let preparing = Arc::clone(&dispatcher);
        let preparer = tokio::spawn(async move {
            let catalogs = &preparing.context.catalogs;
            loop {
                catalogs.changed().await;
                preparing.tool_sets.prepare(&catalogs.snapshot()).await;
            }
        });
        let mut tasks = vec![sweeper.abort_handle(), preparer.abort_handle()];
        if let Some(storage) = storage {
            tasks.extend(follow_storage(&*storage, session_ttl, &dispatcher));
        }
        let backend_tasks = BackendTasks::default();
        let running = GatewayInner { dispatcher, catalogs, notifier, backend_tasks, tasks };
        running.observe_backends();
        Self(Arc::new(running))
    }

    /// Applies a new configuration. Requests in flight finish with the old one, except for steps of composite tools that have
    /// not started; unchanged backends keep their sessions and connections.
    pub async fn reload(&self, settings: Settings) {
        let GatewayInner { dispatcher, catalogs, notifier, .. } = &*self.0;
        let Reload { removed, changes } = catalogs.reload(settings).await;
        self.0.observe_backends();
        for backend in &removed {
            backend.retire();
        }
        notifier.notify_clients(&changes);
        // A concurrent reload may have replaced the snapshot again; its backends stay.
        let snapshot = catalogs.snapshot();
        dispatcher.sessions.retain_backends(&snapshot.backends);
        dispatcher.listeners.retain_backends(&snapshot.backends);
        dispatcher.bridge.sessions.retain_backends(&snapshot.backends);
    }

    /// Sets the authorization for messages on open streams and for steps of composite tools, evaluated for each of them, and
    /// notifies all clients that their lists may have changed. Call it after each change of policies; otherwise streams and
    /// runs keep the permissions of the request that began them.
    pub fn set_caller_authorizer(&self, authorizer: Option<CallerAuthorizer>) {
        self.0.dispatcher.context.authorizer.set(authorizer);
        self.0.notifier.notify_clients(&ByGeneration::both(Kind::ALL.to_vec()));
    }

    /// Waits until the first fetch from every backend has succeeded or failed, for at most five seconds.
    pub async fn wait_ready(&self) {
        self.wait_ready_within(Duration::from_secs(5)).await;
    }

    /// Equivalent to [`wait_ready`](Self::wait_ready), for at most `limit`.
    pub async fn wait_ready_within(&self, limit: Duration) {
        let snapshot = self.0.catalogs.snapshot();
        for backend in &snapshot.backends {
            backend.wait_ready(limit).await;
        }
    }

    /// Returns a report on the backends and the aggregated catalog.
    #[must_use]
    pub fn report(&self) -> status::Report {
        status::report(&self.0.catalogs.snapshot(), self.counts())
    }

    /// Returns the counters.
    #[must_use]
    pub fn counts(&self) -> status::Counts {
        let Dispatcher { context, bridge, sessions, .. } = &*self.0.dispatcher;
        let detached = context.budgets.detached.counts();
        status::Counts {
            detached_calls: detached.calls,
            detached_calls_ended: detached.ended,
            sessions: sessions.len(),
            parked_calls: bridge.suspended_calls.len(),
            dropped_messages: dropped(),
        }
    }

    /// Returns the sizes of the in-memory caches.
    #[must_use]
    pub fn cache_sizes(&self) -> status::CacheSizes {
        let Dispatcher { context, bridge, sessions, listeners, list_views, .. } =
            &*self.0.dispatcher;
        let snapshot = context.catalogs.snapshot();
        let own = snapshot.backends.iter().filter_map(|backend| backend.per_caller.as_ref());
        let (caller_offers, distinct_offers) = own
            .map(PerCallerCatalogs::count)
            .fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        status::CacheSizes {
            list_views: list_views.len(),
            stateless_sessions: bridge.sessions.len(),
            ended_sessions: sessions.ended(),
            caller_offers,
            distinct_offers,
            caller_catalogs: context.catalogs.caller_catalogs(),
            listeners: listeners.len(),
            detached_bytes: context.budgets.detached.counts().bytes,
        }
    }

    /// Returns the numbers of requests that were forwarded to other replicas; empty if none are forwarded.
    #[must_use]
    pub fn forward_counts(&self) -> Vec<status::ForwardCount> {
        self.0.dispatcher.context.replicas.counts()
    }

    /// Returns the numbers of runs of composite tools.
    #[must_use]
    pub fn workflow_counts(&self) -> status::WorkflowCounts {
        self.0.dispatcher.context.workflows.counters.counts()
    }

    /// Returns the state of the tool search, if it is configured.
    #[must_use]
    pub fn optimizer(&self) -> Option<status::OptimizerReport> {
        let snapshot = self.0.catalogs.snapshot();
        snapshot.search.as_ref()?;
        let (views, index) = self.0.dispatcher.tool_sets.counts();
        let embedder = snapshot.embedder().map(Embedder::status);
        Some(status::OptimizerReport { views, searches: self.search_counts(), index, embedder })
    }

    /// Searches the tools that a caller with these permissions sees, without those of per-caller backends. `None` without an
    /// optimizer, or if a policy fails.
    pub async fn search_tools(
        &self,
        permissions: &CallerPermissions,
        generation: Generation,
        query: &Query,
    ) -> Option<(View, SearchResult)> {
        let snapshot = self.0.catalogs.snapshot();
        let (search, catalog) = (snapshot.search.as_ref()?, snapshot.catalog(generation));
        let tool_sets = &self.0.dispatcher.tool_sets;
        let view = tool_sets.view(&catalog, Some(permissions), generation).await?;
        let found = search.search(&view, query).await;
        Some((view, found))
    }

    /// Returns the numbers of searches for tools.
    #[must_use]
    pub fn search_counts(&self) -> status::SearchCounts {
        self.0.dispatcher.tool_sets.counters.counts()
    }

    /// Returns the reports of the backends, in configuration order.
    #[must_use]
    pub fn backends(&self) -> Vec<status::BackendReport> {
        status::backends(&self.0.catalogs.snapshot())
    }

    /// Ends long-lived notification streams. Calls continue.
    pub fn drain(&self) {
        self.0.dispatcher.listeners.end();
        self.0.dispatcher.sessions.end_notification_streams();
    }

    /// Waits until no task of a composite tool runs, but for those that wait for input.
    pub async fn wait_for_tasks(&self) {
        self.0.dispatcher.task_runs.paused().await;
    }

    /// Ends all sessions, including those at the backends. Waits for the backends, including those that a reload removed, for at
    /// most two seconds, and then for the workflow store for at most one.
    pub async fn close(&self) {
        let closing = self.0.shut_down().into_iter().map(EndedBackend::closed);
        if timeout(CLOSE_TIMEOUT, join_all(closing)).await.is_err() {
            tracing::debug!("sessions at backends are still open after {CLOSE_TIMEOUT:?}");
        }
        self.0.dispatcher.context.workflows.released().await;
    }
}

impl GatewayInner {
    /// Starts tasks for the snapshot's backends and ends those of others.
    fn observe_backends(&self) {
        let snapshot = self.catalogs.snapshot();
        self.backend_tasks.follow(self.catalogs.context(), &snapshot.backends, snapshot.checks);
    }

    /// Ends all tasks and streams. Returns the backends, for callers that wait until they are closed.
    fn shut_down(&self) -> Vec<EndedBackend> {
        let backends = self.backend_tasks.end();
        self.dispatcher.sessions.end();
        self.dispatcher.bridge.sessions.end();
        self.dispatcher.task_runs.end();
        backends
    }
}

impl Drop for GatewayInner {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        drop(self.shut_down());
    }
}

impl<B> Service<Request<B>> for Gateway {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        let dispatcher = &self.0.dispatcher;
        ResponseFuture::new(dispatcher, dispatcher.begin(request.into_parts().0))
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::dispatch::DispatchOutcome;
    use crate::settings::{PartialFailure, Rules};
    use vmcp_core::{Generation, McpRequest};

    #[tokio::test]
    async fn request_future_stays_small() {
        let settings = Settings {
            name: String::new(),
            version: String::new(),
            backends: Vec::new(),
            rules: Rules::default(),
            partial_failure: PartialFailure::BestEffort,
            checks: None,
            optimizer: None,
        };
        let ring = KeyRing::ephemeral(vmcp_core::Clock::system()).unwrap();
        let gateway = Gateway::new(settings, Limits::default(), ring);
        let bytes = bytes::Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        let envelope = vmcp_wire::scan(&bytes).unwrap();
        let (mut parts, ()) = Request::post("/mcp").body(()).unwrap().into_parts();
        parts.extensions.insert(McpRequest { bytes, envelope, generation: Generation::Stateless });
        let dispatcher = Arc::clone(&gateway.0.dispatcher);
        let DispatchOutcome::Pending(call) = dispatcher.begin(parts) else {
            panic!("answered at once")
        };
        // The future is moved to the heap once per request.
        let size = size_of_val(&dispatcher.run(call));
        assert!(size <= 2600, "{size} bytes");
    }
}
