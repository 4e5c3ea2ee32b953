//! Cache of per-caller catalogs, which merge the shared offers with a caller's own. Callers with equal offers share a catalog.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use tokio::task::spawn_blocking;
use vmcp_core::{Caller, Generation, Rejection, RequestContext, SingleFlight};

use super::dedup_lru_cache::DedupLruCache;
use crate::backend::BackendHandle;
use crate::backend::context::BackendContext;
use crate::backend::per_caller::InternedOffers;
use crate::catalog::WeakCatalogId;
use crate::snapshot::{BackendCatalogs, MAX_INLINE_ITEMS, Snapshot};
use vmcp_core::lock;

/// Maximum number of cached catalogs.
const MAX_ENTRIES: usize = 1024;

/// Maximum size of the cached catalogs, in bytes.
const MAX_BYTES: usize = 128 << 20;

/// Cache of per-caller catalogs.
#[derive(Debug)]
pub(crate) struct CallerCatalogCache {
    /// Held for lookups and insertions only; catalogs are built outside of it, once per key through `flights`.
    kept: Mutex<DedupLruCache<Key, Key, BackendCatalogs>>,
    flights: SingleFlight<Key, Option<Arc<BackendCatalogs>>>,
}

/// Cache key: the shared catalogs, and the caller's own offers in backend order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    shared: WeakCatalogId,
    own: Box<[Option<u64>]>,
}

/// The caller's own offers, in the order of the per-caller backends.
type Offers = Vec<Option<Arc<InternedOffers>>>;

/// Catalogs of one caller, as far as they are known.
pub(crate) struct CallerView {
    pub(crate) catalogs: Arc<BackendCatalogs>,
    /// Backends whose per-caller offers are missing, and the reasons.
    pub(crate) missing: Vec<(Arc<BackendHandle>, Rejection)>,
}

impl CallerCatalogCache {
    pub(crate) fn new() -> Self {
        Self {
            kept: Mutex::new(DedupLruCache::new(MAX_ENTRIES, MAX_BYTES)),
            flights: SingleFlight::new(),
        }
    }

    /// Removes catalogs that were built from replaced ones.
    pub(crate) fn sweep(&self) {
        lock(&self.kept).retain(|key| key.shared.is_alive());
    }

    fn known(&self, key: &Key) -> Option<Arc<BackendCatalogs>> {
        lock(&self.kept).get(key)
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.kept).len()
    }
}

impl Key {
    fn new(shared: &BackendCatalogs, offers: &Offers) -> Self {
        let serial = |offer: &Option<Arc<InternedOffers>>| offer.as_ref().map(|offer| offer.serial);
        let shared = shared.of(Generation::Stateful).serial.refer();
        Self { shared, own: offers.iter().map(serial).collect() }
    }

    /// Returns `true` if the caller has no offers of its own.
    fn is_plain(&self) -> bool {
        self.own.iter().all(Option::is_none)
    }
}

impl CallerCatalogCache {
    /// Returns the caller's catalogs if they are available without waiting.
    pub(crate) fn known_to(
        &self,
        context: &BackendContext,
        snapshot: &Snapshot,
        caller: &Caller,
        cause: Option<&RequestContext>,
    ) -> Option<Arc<BackendCatalogs>> {
        let own = snapshot.backends.iter().filter(|backend| !backend.shared());
        let offers: Offers = own
            .map(|backend| backend.cached_offer(context, caller, cause))
            .collect::<Result<_, _>>()
            .ok()?;
        let shared = snapshot.catalogs();
        let key = Key::new(&shared, &offers);
        if key.is_plain() { Some(shared) } else { self.known(&key) }
    }

    /// Returns the caller's catalogs after waiting for pending offers, each for a limited time from when its fetch began.
    /// `None` if building them failed.
    pub(crate) async fn seen_by(
        self: &Arc<Self>,
        context: &BackendContext,
        snapshot: &Arc<Snapshot>,
        caller: &Caller,
        cause: Option<&RequestContext>,
    ) -> Option<CallerView> {
        let timeout = snapshot.first_offer_timeout();
        let own: Vec<_> = snapshot.backends.iter().filter(|backend| !backend.shared()).collect();
        let offers = own.iter().map(|backend| backend.offer_for(context, caller, cause, timeout));
        let offers = join_all(offers).await;
        let missing = own.into_iter().zip(&offers).filter_map(|(backend, offer)| {
            let rejection = offer.as_ref().err()?;
            Some((Arc::clone(backend), rejection.clone()))
        });
        let missing = missing.collect();
        let offers: Offers = offers.into_iter().map(Result::ok).collect();
        let shared = snapshot.catalogs();
        let key = Key::new(&shared, &offers);
        let catalogs =
            if key.is_plain() { shared } else { self.combine(snapshot, key, offers).await? };
        Some(CallerView { catalogs, missing })
    }

    async fn combine(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        key: Key,
        offers: Offers,
    ) -> Option<Arc<BackendCatalogs>> {
        if let Some(known) = self.known(&key) {
            return Some(known);
        }
        let own = offers.iter().flatten().map(|content| content.offers.len()).sum::<usize>();
        let many = snapshot.items() + own > MAX_INLINE_ITEMS;
        let making = {
            let (cache, snapshot, key) = (Arc::clone(self), Arc::clone(snapshot), key.clone());
            move || {
                let made = Arc::new(snapshot.combine(&offers));
                let bytes = made.size();
                lock(&cache.kept).insert(key.clone(), key, made, bytes)
            }
        };
        let make =
            || async move { if many { spawn_blocking(making).await.ok() } else { Some(making()) } };
        self.flights.join(key, make).await
    }
}
