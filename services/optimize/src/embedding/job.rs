//! Sets whose tools are being embedded.

use std::sync::{Arc, Weak};

use tokio::time::Instant;

use crate::document::MAX_EMBEDDED_TEXT;
use crate::interner::InternedValue;
use crate::set_data::SetData;
use crate::vector::Vector;

/// Set whose tools are being embedded.
pub(super) struct Job {
    pub(super) set: Weak<InternedValue<SetData>>,
    since: Instant,
    pub(super) progress: Progress,
}

/// Vectors that one model made of the first tools of a set.
pub(super) struct Progress {
    pub(super) generation: Option<u64>,
    /// By position. A tool whose text the service rejects has none.
    pub(super) rows: Vec<Option<Vector>>,
    /// Length to which texts are cut, in bytes.
    pub(super) max_text: usize,
    /// Number of texts of the next request. Lower than the model's while the service rejects them.
    pub(super) max_batch: usize,
}

impl Job {
    pub(super) fn new(set: &Arc<InternedValue<SetData>>, since: Instant) -> Self {
        Self { set: Arc::downgrade(set), since, progress: Progress::default() }
    }

    pub(super) fn is_of(&self, set: &Arc<InternedValue<SetData>>) -> bool {
        std::ptr::eq(self.set.as_ptr(), Arc::as_ptr(set))
    }

    pub(super) fn since(&self) -> Instant {
        self.since
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self { generation: None, rows: Vec::new(), max_text: MAX_EMBEDDED_TEXT, max_batch: 1 }
    }
}
