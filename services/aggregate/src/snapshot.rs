//! Configuration snapshot with the catalogs built from the backends' offers.

mod missing;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use vmcp_core::{ByteBudget, Clock, Generation, ItemBackend};
use vmcp_optimize::{Embedder, ToolSearch};

pub(crate) use self::missing::MissingBackend;
use crate::backend::BackendHandle;
use crate::backend::per_caller::InternedOffers;
use crate::catalog::{Catalog, CatalogInput, Catalogs, Kind, Offer, combine};
use crate::settings::{
    BackendSettings, Checks, EmbeddingSettings, OptimizerSettings, PartialFailure, Rules, Settings,
    Sharing,
};

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
    /// Search in place of the list of tools.
    pub(crate) search: Option<ToolSearch>,
    /// Embeddings of the search, with the fingerprint of their settings.
    embedder: Option<(u64, Embedder)>,
    /// `true` if some backends have per-caller offers.
    pub(crate) per_caller: bool,
    /// Catalogs of the offers that all callers share. Replaced only under the lock of the catalog builds.
    catalogs: ArcSwap<BackendCatalogs>,
}

impl Snapshot {
    /// Creates the snapshot of a configuration. Backends that `old` has with equal settings keep their state.
    pub(crate) fn new(
        settings: Settings,
        old: Option<&Self>,
        budget: Option<&ByteBudget>,
        clock: &Clock,
    ) -> Self {
        let Settings { name, version, backends, rules, partial_failure, checks, optimizer } =
            settings;
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
        let embedder = optimizer.as_ref().and_then(|it| embedder(it, old, clock));
        let search = optimizer.map(|OptimizerSettings { options, embedding: _ }| {
            let search = ToolSearch::new(options);
            match &embedder {
                Some((_, embedder)) => search.embedder(embedder.clone()),
                None => search,
            }
        });
        let none = combine(&[], &[], &rules);
        let snapshot = Self {
            name,
            version,
            partial_failure,
            checks,
            rules,
            search,
            embedder,
            per_caller: backends.iter().any(|backend| !backend.shared()),
            backends,
            catalogs: ArcSwap::from_pointee(none),
        };
        snapshot.store(snapshot.combine(&[]));
        snapshot
    }

    /// Returns `true` if some tools are not of a backend: those of the tool search, or composite tools.
    pub(crate) fn has_own_tools(&self) -> bool {
        self.search.is_some() || !self.rules.workflows.is_empty()
    }

    /// Returns the embeddings of the search, if it uses any.
    pub(crate) fn embedder(&self) -> Option<&Embedder> {
        self.embedder.as_ref().map(|(_, embedder)| embedder)
    }

    /// Borrows the catalogs briefly, which is cheaper than cloning the `Arc`.
    pub(crate) fn load_catalogs(&self) -> arc_swap::Guard<Arc<BackendCatalogs>> {
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
    pub(crate) async fn wait_ready(&self) {
        let timeout = self.first_offer_timeout();
        for backend in self.backends.iter().filter(|backend| backend.shared()) {
            backend.wait_ready(timeout).await;
        }
    }

    /// Returns the time to wait for a first offer.
    pub(crate) fn first_offer_timeout(&self) -> Duration {
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
    pub(crate) fn per_caller_changed(&self, old: &Self) -> bool {
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

/// Returns the embeddings of the search, those of `old` if the service is the same.
fn embedder(
    settings: &OptimizerSettings,
    old: Option<&Snapshot>,
    clock: &Clock,
) -> Option<(u64, Embedder)> {
    let EmbeddingSettings { service, fingerprint } = settings.embedding.as_ref()?;
    let known = old.and_then(|old| old.embedder.clone()).filter(|(known, _)| known == fingerprint);
    Some(known.unwrap_or_else(|| (*fingerprint, Embedder::new(service.clone(), clock.clone()))))
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
