//! State shared by the whole service: the current snapshot, the sessions, the listeners.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::task::JoinHandle;
use vmcp_core::{ByteBudget, Generation, Identity, ItemBackend};
use vmcp_session::Sessions;

use crate::backend::BackendHandle;
use crate::backend::context::{BackendContext, GatewayClientInfo};
use crate::backend::per_caller::{InternedOffers, PerCallerCatalogs};
use crate::backend::tasks::BackendTasks;
use crate::backend_events::apply_events;
use crate::bridge::suspended_calls::SuspendedCalls;
use crate::cache::caller_catalog_cache::CallerCatalogCache;
use crate::cache::list_views::Views;
use crate::catalog::{ByGeneration, Catalog, CatalogInput, Catalogs, Kind, Offer, combine};
use crate::notify::authorizer::NotificationFilter;
use crate::notify::listen::Listeners;
use crate::rebuild::Rebuilds;
use crate::session::Session;
use crate::session::stateless_sessions::StatelessSessions;
use crate::settings::{BackendSettings, Checks, Limits, PartialFailure, Rules, Settings, Sharing};
use crate::stream::detached::{ClientBudgets, DetachedBudget};

/// Maximum number of items for which a catalog is built inline; this takes less than a millisecond.
pub(crate) const MAX_INLINE_ITEMS: usize = 2000;

/// Catalog of one generation, with backend handles.
pub(crate) type BackendCatalog = Catalog<Arc<BackendHandle>>;

/// Catalogs of both generations, with backend handles.
pub(crate) type BackendCatalogs = Catalogs<Arc<BackendHandle>>;

/// Configuration and its current catalogs. A request completes with the snapshot it began with; the catalogs change with the
/// backends.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) partial_failure: PartialFailure,
    pub(crate) checks: Option<Checks>,
    pub(crate) rules: Rules,
    pub(crate) backends: Vec<Arc<BackendHandle>>,
    /// `true` if some backends have per-caller offers.
    pub(crate) per_caller: bool,
    /// Catalogs of the offers that all callers share.
    catalogs: ArcSwap<BackendCatalogs>,
}

/// Shared state of the service.
#[derive(Debug)]
pub(crate) struct GatewayState {
    snapshot: ArcSwap<Snapshot>,
    /// Context of the backends' tasks.
    pub(crate) context: BackendContext,
    pub(crate) rebuilds: Rebuilds,
    backend_tasks: BackendTasks,
    pub(crate) sessions: Sessions<Session>,
    pub(crate) listeners: Listeners,
    pub(crate) stateless_sessions: StatelessSessions,
    pub(crate) list_views: Arc<Views>,
    pub(crate) caller_catalogs: CallerCatalogCache,
    pub(crate) notification_filter: NotificationFilter,
    pub(crate) suspended_calls: SuspendedCalls,
    pub(crate) budgets: ClientBudgets,
    pub(crate) limits: Limits,
    pub(crate) seal: crate::seal::Seal,
}

impl Snapshot {
    fn new(settings: Settings, old: Option<&Self>, budget: Option<&ByteBudget>) -> Self {
        let Settings { name, version, backends, rules, partial_failure, checks } = settings;
        let kept: HashMap<_, _> = old
            .iter()
            .flat_map(|old| &old.backends)
            .map(|backend| ((backend.tag.clone(), backend.fingerprint), Arc::clone(backend)))
            .collect();
        let handle = |settings: BackendSettings| {
            let known = kept.get(&(settings.backend.clone(), settings.fingerprint));
            // An offer that belongs to a caller must not become shared.
            match known.filter(|backend| backend.shared() == (settings.catalog == Sharing::Shared))
            {
                Some(backend) => {
                    backend.reconfigure(&settings);
                    Arc::clone(backend)
                }
                None => BackendHandle::new(settings, budget.cloned()),
            }
        };
        let backends: Vec<_> = backends.into_iter().map(handle).collect();
        let none = combine(&[], &[], &rules);
        let snapshot = Self {
            name,
            version,
            partial_failure,
            checks,
            rules,
            per_caller: backends.iter().any(|backend| !backend.shared()),
            backends,
            catalogs: ArcSwap::from_pointee(none),
        };
        snapshot.store(snapshot.combine(&[]));
        snapshot
    }

    /// Borrows the catalogs briefly, which is cheaper than cloning the `Arc`.
    pub(crate) fn look(&self) -> arc_swap::Guard<Arc<BackendCatalogs>> {
        self.catalogs.load()
    }

    pub(crate) fn catalogs(&self) -> Arc<BackendCatalogs> {
        self.catalogs.load_full()
    }

    /// Returns the catalog for clients of one generation.
    pub(crate) fn catalog(&self, generation: Generation) -> Arc<BackendCatalog> {
        Arc::clone(self.catalogs.load().of(generation))
    }

    pub(crate) fn store(&self, catalogs: BackendCatalogs) {
        self.catalogs.store(Arc::new(catalogs));
    }

    /// Waits for pending first offers, each for a limited time from when its fetch began.
    pub(crate) async fn settle(&self) {
        let patience = self.patience();
        for backend in self.backends.iter().filter(|backend| backend.shared()) {
            backend.wait_ready(patience).await;
        }
    }

    /// Returns the time to wait for a first offer.
    pub(crate) fn patience(&self) -> Duration {
        match self.partial_failure {
            PartialFailure::Fail => Duration::from_secs(5),
            PartialFailure::BestEffort => Duration::from_secs(1),
        }
    }

    /// Returns the number of shared items of all backends.
    pub(crate) fn items(&self) -> usize {
        self.backends.iter().map(|backend| backend.offers.load().len()).sum()
    }

    /// Returns `true` if the per-caller items of any caller may differ from those under `old`.
    fn per_caller_changed(&self, old: &Self) -> bool {
        let own = |backends: &[Arc<BackendHandle>]| -> Vec<_> {
            backends.iter().filter(|backend| !backend.shared()).map(|backend| backend.id).collect()
        };
        let (own, before) = (own(&self.backends), own(&old.backends));
        own != before || !own.is_empty() && self.rules != old.rules
    }

    /// Builds the catalogs of the shared offers and a caller's own offers: one for each per-caller backend, in their order.
    pub(crate) fn combine(&self, own: &[Option<Arc<InternedOffers>>]) -> BackendCatalogs {
        let offers: Vec<_> =
            self.backends.iter().map(|backend| backend.offers.load_full()).collect();
        let (mut own, none) = (own.iter(), Offer::default());
        let parts: Vec<_> = self
            .backends
            .iter()
            .zip(&offers)
            .filter_map(|(backend, offer)| {
                let offers =
                    if backend.shared() { &**offer } else { &own.next()?.as_ref()?.offers };
                let only = offers.only_generation();
                let offers = offers.known(&none)?;
                Some(CatalogInput {
                    name: backend.name(),
                    backend: Arc::clone(backend),
                    offers,
                    only,
                })
            })
            .collect();
        let backends: Vec<_> = self.backends.iter().map(|backend| backend.name()).collect();
        combine(&parts, &backends, &self.rules)
    }
}

impl BackendCatalog {
    /// Returns the policy attributes of the backend `backend`, for a client of this generation.
    pub(crate) fn item_backend<'a>(
        &self,
        backend: &'a BackendHandle,
        client: Generation,
    ) -> ItemBackend<'a> {
        ItemBackend { name: backend.name(), generation: self.spoken(backend.name(), client) }
    }

    /// Returns the policy attributes of the backend of a listed item.
    pub(crate) fn backend_of(
        &self,
        kind: Kind,
        name: &str,
        client: Generation,
    ) -> Option<ItemBackend<'_>> {
        self.owner(kind, name).map(|backend| self.item_backend(backend, client))
    }
}

impl GatewayState {
    pub(crate) fn new(settings: Settings, limits: Limits, seal: crate::seal::Seal) -> Arc<Self> {
        let (context, events) = BackendContext::new(&settings.name, &settings.version);
        let gateway = Arc::new(Self {
            context,
            snapshot: ArcSwap::from_pointee(Snapshot::new(
                settings,
                None,
                limits.buffered.as_ref(),
            )),
            rebuilds: Rebuilds::default(),
            backend_tasks: BackendTasks::default(),
            sessions: Sessions::new(limits.sessions, limits.session_ttl)
                .in_use_while(Session::is_in_use),
            listeners: Listeners::new(limits.listeners),
            stateless_sessions: StatelessSessions::default(),
            list_views: Arc::new(Views::new()),
            caller_catalogs: CallerCatalogCache::new(),
            notification_filter: NotificationFilter::default(),
            suspended_calls: SuspendedCalls::new(
                limits.parked,
                limits.suspended_calls_per_identity,
            ),
            budgets: ClientBudgets {
                detached: DetachedBudget::new(limits.detached_bytes),
                process: limits.buffered.clone(),
            },
            limits,
            seal,
        });
        // The task ends with the last sender, that is, after the state and the tasks of the backends.
        tokio::spawn(apply_events(Arc::downgrade(&gateway), events));
        gateway.observe_all();
        gateway
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Waits for pending first offers and returns `seen`, or its replacement after a reload: backends that only an older
    /// configuration contains are not fetched any more.
    pub(crate) async fn wait_ready(&self, seen: &Arc<Snapshot>) -> Arc<Snapshot> {
        let mut snapshot = Arc::clone(seen);
        loop {
            snapshot.settle().await;
            let newest = self.snapshot();
            if Arc::ptr_eq(&newest, &snapshot) {
                return snapshot;
            }
            snapshot = newest;
        }
    }

    /// Applies a new configuration. Unchanged backends keep their state.
    pub(crate) async fn reload(self: &Arc<Self>, settings: Settings) {
        let guard = self.rebuilds.hold().await;
        let old = self.snapshot();
        let new = Arc::new(Snapshot::new(settings, Some(&old), self.limits.buffered.as_ref()));
        let mut changes = new.catalogs().changes(&old.catalogs());
        if new.per_caller_changed(&old) {
            changes = ByGeneration::both(Kind::ALL.to_vec());
        }
        self.snapshot.store(Arc::clone(&new));
        self.context.set_client_info(&new.name, &new.version);
        drop(guard);
        self.observe_all();
        let kept =
            |backend: &Arc<BackendHandle>| new.backends.iter().any(|kept| kept.id == backend.id);
        old.backends.iter().filter(|backend| !kept(backend)).for_each(|backend| backend.retire());
        self.notify_clients(&changes);
        self.sessions.for_each(|session| session.retain_backends(&new.backends));
        self.listeners.retain_backends(&new.backends);
        self.stateless_sessions.retain_backends(&new.backends);
    }

    /// Notifies one caller of changed lists.
    pub(crate) fn notify_caller(&self, caller: &Identity, changes: &ByGeneration<Vec<Kind>>) {
        let ByGeneration { stateful, stateless } = changes;
        if !stateful.is_empty() {
            self.sessions.for_each(|session| {
                if session.caller().identity() == caller {
                    session.lists_changed(stateful);
                }
            });
        }
        self.listeners.lists_changed(stateless, Some(caller));
    }

    /// Notifies the clients of each generation of changed lists.
    pub(crate) fn notify_clients(&self, changes: &ByGeneration<Vec<Kind>>) {
        let ByGeneration { stateful, stateless } = changes;
        if !stateful.is_empty() {
            self.sessions.for_each(|session| session.lists_changed(stateful));
        }
        self.listeners.lists_changed(stateless, None);
    }

    /// Returns the client information of the gateway.
    pub(crate) fn client_info(&self) -> Arc<GatewayClientInfo> {
        self.context.client_info()
    }

    /// Starts tasks for the snapshot's backends and ends those of others.
    fn observe_all(self: &Arc<Self>) {
        let snapshot = self.snapshot();
        self.backend_tasks.follow(&self.context, &snapshot.backends, snapshot.checks);
    }

    /// Removes ended and expired state.
    pub(crate) fn sweep(&self) {
        for session in self.sessions.sweep() {
            session.end();
        }
        self.sessions.for_each(|session| session.prune(self.limits.suspension_timeout));
        self.stateless_sessions.sweep();
        self.list_views.sweep();
        self.caller_catalogs.sweep();
        let snapshot = self.snapshot();
        snapshot
            .backends
            .iter()
            .filter_map(|backend| backend.per_caller.as_ref())
            .for_each(PerCallerCatalogs::sweep);
    }

    /// Ends all tasks and streams. Returns the tasks of the backends, for callers that wait until they have ended.
    pub(crate) fn shut_down(&self) -> Vec<JoinHandle<()>> {
        let tasks = self.backend_tasks.end();
        self.sessions.for_each(|session| session.end());
        self.stateless_sessions.end();
        tasks
    }
}
