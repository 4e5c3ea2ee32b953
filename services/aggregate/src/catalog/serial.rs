//! Which catalog is meant, for whoever keeps what was made of it.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A catalog's own number among all catalogs of the process.
#[derive(Debug)]
pub(crate) struct Serial(Arc<u64>);

/// The number of a catalog that may be gone.
#[derive(Clone, Debug)]
pub(crate) struct SerialRef {
    number: u64,
    catalog: Weak<u64>,
}

impl Serial {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(Arc::new(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn refer(&self) -> SerialRef {
        SerialRef { number: *self.0, catalog: Arc::downgrade(&self.0) }
    }
}

impl SerialRef {
    /// Whether the catalog is still there.
    pub(crate) fn is_alive(&self) -> bool {
        self.catalog.strong_count() > 0
    }
}

impl PartialEq for SerialRef {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for SerialRef {}

impl Hash for SerialRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}
