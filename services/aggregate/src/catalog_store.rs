//! Store of the current configuration snapshot and of the catalogs built from the backends' offers.

mod rebuild;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, mpsc};
use vmcp_core::{ByteBudget, Caller, Clock, RequestContext};

use self::rebuild::Rebuilds;
use crate::backend::BackendHandle;
use crate::backend::context::{BackendContext, BackendEvent, GatewayClientInfo};
use crate::backend::per_caller::PerCallerCatalogs;
use crate::cache::caller_catalog_cache::{CallerCatalogCache, CallerView};
use crate::catalog::{ByGeneration, Kind};
use crate::settings::Settings;
use crate::snapshot::{BackendCatalogs, Snapshot};

/// Store of the snapshot and the catalogs.
#[derive(Debug)]
pub(crate) struct CatalogStore {
    snapshot: ArcSwap<Snapshot>,
    /// Context of the backends' tasks.
    context: BackendContext,
    rebuilds: Rebuilds,
    /// Notified when the shared catalogs or the configuration change.
    changed: Notify,
    caller_catalogs: Arc<CallerCatalogCache>,
    /// Byte budget of the process, if it has one.
    budget: Option<ByteBudget>,
    clock: Clock,
}

/// Effect of a new configuration.
#[derive(Debug)]
pub(crate) struct Reload {
    /// Backends that only the old configuration contains.
    pub(crate) removed: Vec<Arc<BackendHandle>>,
    /// Lists that differ.
    pub(crate) changes: ByGeneration<Vec<Kind>>,
}

impl CatalogStore {
    /// Creates the store of a configuration, and the receiver of its backends' events.
    pub(crate) fn new(
        settings: Settings,
        budget: Option<ByteBudget>,
        clock: Clock,
    ) -> (Arc<Self>, mpsc::Receiver<BackendEvent>) {
        let (context, events) = BackendContext::new(&settings.name, &settings.version);
        let store = Self {
            snapshot: ArcSwap::from_pointee(Snapshot::new(settings, None, budget.as_ref(), &clock)),
            context,
            rebuilds: Rebuilds::default(),
            changed: Notify::new(),
            caller_catalogs: Arc::new(CallerCatalogCache::new()),
            budget,
            clock,
        };
        (Arc::new(store), events)
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Returns the context of the backends' tasks.
    pub(crate) fn context(&self) -> &BackendContext {
        &self.context
    }

    /// Waits until the shared catalogs or the configuration have changed since the last call.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the client information of the gateway.
    pub(crate) fn client_info(&self) -> Arc<GatewayClientInfo> {
        self.context.client_info()
    }

    /// Waits for pending first offers and returns `seen`, or its replacement after a reload: backends that only an older
    /// configuration contains are not fetched any more.
    pub(crate) async fn wait_ready(&self, seen: &Arc<Snapshot>) -> Arc<Snapshot> {
        let mut snapshot = Arc::clone(seen);
        loop {
            snapshot.wait_ready().await;
            let newest = self.snapshot();
            if Arc::ptr_eq(&newest, &snapshot) {
                return snapshot;
            }
            snapshot = newest;
        }
    }

    /// Returns the caller's catalogs if they are available without waiting.
    pub(crate) fn known_to(
        &self,
        snapshot: &Snapshot,
        caller: &Caller,
        cause: Option<&RequestContext>,
    ) -> Option<Arc<BackendCatalogs>> {
        self.caller_catalogs.known_to(&self.context, snapshot, caller, cause)
    }

    /// Returns the caller's catalogs after waiting for pending offers, each for a limited time from when its fetch began.
    /// `None` if building them failed.
    pub(crate) async fn seen_by(
        &self,
        snapshot: &Arc<Snapshot>,
        caller: &Caller,
        cause: Option<&RequestContext>,
    ) -> Option<CallerView> {
        self.caller_catalogs.seen_by(&self.context, snapshot, caller, cause).await
    }

    /// Applies a new configuration. Unchanged backends keep their state.
    pub(crate) async fn reload(&self, settings: Settings) -> Reload {
        let guard = self.rebuilds.hold().await;
        let old = self.snapshot();
        let snapshot =
            Arc::new(Snapshot::new(settings, Some(&old), self.budget.as_ref(), &self.clock));
        let mut changes = snapshot.catalogs().changes(&old.catalogs());
        if snapshot.search.is_some() != old.search.is_some() {
            let add_tools = |kinds: &mut Vec<Kind>| {
                if !kinds.contains(&Kind::Tools) {
                    kinds.insert(0, Kind::Tools);
                }
            };
            add_tools(&mut changes.stateful);
            add_tools(&mut changes.stateless);
        }
        if snapshot.per_caller_changed(&old) {
            changes = ByGeneration::both(Kind::ALL.to_vec());
        }
        self.snapshot.store(Arc::clone(&snapshot));
        self.changed.notify_one();
        self.context.set_client_info(&snapshot.name, &snapshot.version);
        drop(guard);
        let is_kept = |backend: &&Arc<BackendHandle>| {
            snapshot.backends.iter().any(|kept| kept.id == backend.id)
        };
        let removed =
            old.backends.iter().filter(|backend| !is_kept(backend)).map(Arc::clone).collect();
        Reload { removed, changes }
    }

    /// Removes catalogs and per-caller offers that are not used any more.
    pub(crate) fn sweep(&self) {
        self.caller_catalogs.sweep();
        let snapshot = self.snapshot();
        snapshot
            .backends
            .iter()
            .filter_map(|backend| backend.per_caller.as_ref())
            .for_each(PerCallerCatalogs::sweep);
    }

    /// Returns the number of cached per-caller catalogs.
    pub(crate) fn caller_catalogs(&self) -> usize {
        self.caller_catalogs.len()
    }
}
