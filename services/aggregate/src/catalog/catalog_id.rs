//! Identity of a catalog, for caches of values derived from it.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Process-wide unique number of a catalog.
#[derive(Debug)]
pub(crate) struct CatalogId(Arc<u64>);

/// Weak reference to the number of a catalog.
#[derive(Clone, Debug)]
pub(crate) struct WeakCatalogId {
    number: u64,
    /// Upgradable as long as the catalog, which owns the number, is used.
    catalog: Weak<u64>,
}

impl CatalogId {
    pub(super) fn new() -> Self {
        // Relaxed: only the uniqueness of the numbers counts.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(Arc::new(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn refer(&self) -> WeakCatalogId {
        WeakCatalogId { number: *self.0, catalog: Arc::downgrade(&self.0) }
    }
}

impl WeakCatalogId {
    /// Returns `true` while the catalog exists.
    pub(crate) fn is_alive(&self) -> bool {
        self.catalog.strong_count() > 0
    }
}

impl PartialEq for WeakCatalogId {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for WeakCatalogId {}

impl Hash for WeakCatalogId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}
