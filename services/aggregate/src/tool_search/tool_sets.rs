//! Indexed tools of catalogs, and the views of callers.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::task::spawn_blocking;
use vmcp_core::{CallerPermissions, Fingerprint, Generation, SingleFlight, lock};
use vmcp_optimize::{Index, IndexCounts, ToolDefinition, ToolSet, View};
use vmcp_wire::{find, parse_json_string};

use crate::cache::dedup_lru_cache::DedupLruCache;
use crate::cache::list_views::Views;
use crate::catalog::{Kind, WeakCatalogId};
use crate::snapshot::{BackendCatalog, Snapshot};
use crate::tool_search::search_counters::SearchCounters;

/// Maximum number of indexed catalogs.
const MAX_SETS: usize = 1024;

/// Maximum number of views of callers.
const MAX_VIEWS: usize = 8192;

/// Maximum size of the definitions in indexed catalogs, and of the views, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// Server of composite tools in the index.
const COMPOSITE_TOOLS: &str = "compositeTools";

/// Cache of indexed catalogs and views. All of them share one index.
pub(crate) struct ToolSets {
    pub(crate) counters: SearchCounters,
    index: Index,
    list_views: Arc<Views>,
    sets: Mutex<DedupLruCache<WeakCatalogId, WeakCatalogId, ToolSet>>,
    views: Mutex<DedupLruCache<ViewKey, ViewKey, View>>,
    flights: SingleFlight<ViewKey, Option<View>>,
    /// Set that was indexed last. Kept, so that the next one indexes only what has changed.
    latest: Mutex<Option<ToolSet>>,
}

/// Catalog, the caller's visibility, and the client's generation if policies read that of backends.
type ViewKey = (WeakCatalogId, Option<Fingerprint>, Option<Generation>);

impl ToolSets {
    pub(crate) fn new(list_views: Arc<Views>) -> Self {
        Self {
            counters: SearchCounters::default(),
            index: Index::new(),
            list_views,
            sets: Mutex::new(DedupLruCache::new(MAX_SETS, MAX_BYTES)),
            views: Mutex::new(DedupLruCache::new(MAX_VIEWS, MAX_BYTES)),
            flights: SingleFlight::new(),
            latest: Mutex::default(),
        }
    }

    /// Returns the tools of a catalog that the caller may see. `None` if policies or the index fail.
    pub(crate) async fn view(
        self: &Arc<Self>,
        catalog: &Arc<BackendCatalog>,
        permissions: Option<&CallerPermissions>,
        generation: Generation,
    ) -> Option<View> {
        let read = permissions.filter(|it| it.reads_backend()).map(|_| generation);
        let visibility = permissions.map(CallerPermissions::visibility_key);
        let key = (catalog.serial.refer(), visibility, read);
        if let Some(known) = lock(&self.views).get(&key) {
            return Some((*known).clone());
        }
        let names = match permissions {
            None => None,
            Some(permissions) => {
                let visible =
                    self.list_views.of(catalog, Kind::Tools, permissions, generation).await?;
                Some(visible.names(catalog.list(Kind::Tools)))
            }
        };
        let making = {
            let (this, catalog, key) = (Arc::clone(self), Arc::clone(catalog), key.clone());
            move || this.make(key, &catalog, names.as_deref())
        };
        self.flights.join(key, || async move { spawn_blocking(making).await.ok().flatten() }).await
    }

    fn make(
        &self,
        key: ViewKey,
        catalog: &BackendCatalog,
        visible: Option<&[Box<str>]>,
    ) -> Option<View> {
        let set = self.set(&key.0, catalog)?;
        let view = match visible {
            None => set.view_of_all(),
            Some(visible) => {
                let names = model_tools(catalog).map(|(name, _)| name);
                let positions = names.enumerate().filter(|(_, name)| {
                    visible.binary_search_by(|other| (**other).cmp(name)).is_ok()
                });
                set.view(positions.map(|(position, _)| position)).ok()?
            }
        };
        let bytes = 4 * (set.len() + view.len());
        let view = lock(&self.views).insert(key.clone(), key, Arc::new(view), bytes);
        Some((*view).clone())
    }

    /// Returns the indexed tools of a catalog.
    fn set(&self, serial: &WeakCatalogId, catalog: &BackendCatalog) -> Option<ToolSet> {
        if let Some(known) = lock(&self.sets).get(serial) {
            return Some((*known).clone());
        }
        let tools: Vec<_> = model_tools(catalog)
            .map(|(name, json)| {
                let backend = catalog.owner(Kind::Tools, name).map(|backend| backend.name());
                // A copy: a slice would keep the whole list of the catalog in memory.
                let json = Bytes::copy_from_slice(&json);
                ToolDefinition { server: backend.unwrap_or(COMPOSITE_TOOLS).into(), json }
            })
            .collect();
        let set = match self.index.insert(&tools) {
            Ok(set) => set,
            Err(error) => {
                tracing::error!(%error, "failed to index the tools for find_tool");
                return None;
            }
        };
        *lock(&self.latest) = Some(set.clone());
        let bytes = tools.iter().map(|tool| tool.json.len()).sum();
        lock(&self.sets).insert(serial.clone(), serial.clone(), Arc::new(set.clone()), bytes);
        Some(set)
    }

    /// Indexes the tools of the shared catalogs, and starts to embed them, so that the first search need not wait. Tools of
    /// per-caller backends wait for their callers.
    pub(crate) async fn prepare(self: &Arc<Self>, snapshot: &Snapshot) {
        let Some(search) = snapshot.search.as_ref().filter(|search| search.has_embedder()) else {
            return;
        };
        for generation in [Generation::Stateful, Generation::Stateless] {
            let (this, catalog) = (Arc::clone(self), snapshot.catalog(generation));
            let make = move || this.set(&catalog.serial.refer(), &catalog);
            let set = spawn_blocking(make).await.ok().flatten();
            if let Some(set) = set.filter(|set| !set.is_empty()) {
                search.prepare(&set);
            }
        }
    }

    /// Removes the sets and views of catalogs that no longer exist.
    pub(crate) fn sweep(&self) {
        lock(&self.sets).retain(WeakCatalogId::is_alive);
        lock(&self.views).retain(|(serial, ..)| serial.is_alive());
    }

    /// Returns the number of views, and what the index holds.
    pub(crate) fn counts(&self) -> (usize, IndexCounts) {
        (lock(&self.views).len(), self.index.counts())
    }
}

/// Returns the listed tools that models may call, with their definitions, by name.
fn model_tools(catalog: &BackendCatalog) -> impl Iterator<Item = (&str, Bytes)> {
    catalog.list(Kind::Tools).entries().filter(|(_, definition)| !is_for_apps_only(definition))
}

/// Returns `true` for a tool that only apps may call (`_meta.ui.visibility`, MCP Apps).
fn is_for_apps_only(definition: &[u8]) -> bool {
    let visibility = find(definition, "_meta")
        .and_then(|meta| find(meta, "ui"))
        .and_then(|ui| find(ui, "visibility"));
    let Some(visibility) = visibility else { return false };
    let for_model = vmcp_wire::elements(visibility)
        .any(|element| parse_json_string(element).as_deref() == Some("model"));
    visibility.starts_with(b"[") && !for_model
}

impl std::fmt::Debug for ToolSets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolSets").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
