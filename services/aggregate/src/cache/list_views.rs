//! Cache of lists as single callers see them; callers with equal permissions share a list.

use std::sync::{Arc, Mutex};

use tokio::task::spawn_blocking;
use vmcp_core::{CallerPermissions, Fingerprint, Generation, Item, ItemKind, SingleFlight};

use super::dedup_lru_cache::DedupLruCache;
use crate::catalog::{Kind, List, Selection, WeakCatalogId};
use crate::snapshot::BackendCatalog;
use vmcp_core::lock;

/// Maximum number of cached views over all catalogs, kinds and callers.
const MAX_ENTRIES: usize = 8192;

/// Maximum size of the cached lists, in bytes; a list that several views share counts once.
const MAX_BYTES: usize = 64 << 20;

/// Maximum number of items that are authorized inline; this takes less than a millisecond.
const MAX_INLINE_CHECKS: usize = 32;

/// Cache of filtered lists.
#[derive(Debug)]
pub(crate) struct Views {
    /// Held for lookups and insertions only; views are computed outside of it, once per key through `flights`.
    kept: Mutex<DedupLruCache<Key, Content, Option<List>>>,
    flights: SingleFlight<Key, Option<View>>,
}

/// Visible items of one kind: a subset, or all.
#[derive(Clone, Debug)]
pub(crate) struct View(Arc<Option<List>>);

/// Cache key. It includes the client's generation if policies read that of backends.
type Key = (WeakCatalogId, Kind, Fingerprint, Option<Generation>);
type Content = (WeakCatalogId, Kind, Selection);

impl Views {
    pub(crate) fn new() -> Self {
        Self {
            kept: Mutex::new(DedupLruCache::new(MAX_ENTRIES, MAX_BYTES)),
            flights: SingleFlight::new(),
        }
    }

    /// Returns the items of one kind that are visible under `permissions`. `None` if policy evaluation failed.
    pub(crate) async fn of(
        self: &Arc<Self>,
        catalog: &Arc<BackendCatalog>,
        kind: Kind,
        permissions: &CallerPermissions,
        client: Generation,
    ) -> Option<View> {
        let read = permissions.reads_backend().then_some(client);
        let key = (catalog.serial.refer(), kind, permissions.visibility_key(), read);
        if let Some(known) = lock(&self.kept).get(&key) {
            return Some(View(known));
        }
        let making = {
            let (views, catalog, permissions) =
                (Arc::clone(self), Arc::clone(catalog), permissions.clone());
            let key = key.clone();
            move || views.make(key, &catalog, &permissions)
        };
        if catalog.list(kind).len() <= MAX_INLINE_CHECKS {
            return Some(making());
        }
        self.flights.join(key, || async move { spawn_blocking(making).await.ok() }).await
    }

    fn make(&self, key: Key, catalog: &BackendCatalog, permissions: &CallerPermissions) -> View {
        let (serial, kind, _, read) = &key;
        let list = catalog.list(*kind);
        let is_visible = |name: &str| {
            let annotations = catalog.annotations(*kind, name);
            let backend = read.and_then(|client| catalog.backend_of(*kind, name, client));
            permissions.is_visible(&Item { kind: kind.of_item(), name, annotations, backend })
        };
        let selection = list.select(|name| {
            is_visible(name)
                && catalog.composite(*kind, name).is_none_or(|composite| {
                    composite.tools.values().all(|tool| {
                        let (name, annotations) = (&*tool.name, tool.annotations);
                        let route = catalog.tools.get(name).map(|route| &route.backend);
                        let backend =
                            read.and_then(|client| Some(catalog.item_backend(route?, client)));
                        let kind = ItemKind::Tool;
                        permissions.is_visible(&Item { kind, name, annotations, backend })
                    })
                })
        });
        let content = (serial.clone(), *kind, selection);
        let known = lock(&self.kept).content(&content);
        let (_, _, selection) = &content;
        let made =
            known.unwrap_or_else(|| Arc::new((!selection.whole).then(|| list.only(selection))));
        let bytes = made.as_ref().as_ref().map_or(0, List::size) + selection.size();
        View(lock(&self.kept).insert(key, content, made, bytes))
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.kept).len()
    }

    /// Removes the views of catalogs that no longer exist.
    pub(crate) fn sweep(&self) {
        lock(&self.kept).retain(|(serial, ..)| serial.is_alive());
    }
}

impl View {
    /// Returns the visible part of `whole`.
    pub(crate) fn list<'a>(&'a self, whole: &'a List) -> &'a List {
        self.0.as_ref().as_ref().unwrap_or(whole)
    }

    /// Returns the names of the visible items of `whole`, in order.
    pub(crate) fn names(&self, whole: &List) -> Vec<Box<str>> {
        self.list(whole).keys().map(Into::into).collect()
    }
}

#[cfg(test)]
mod tests;
