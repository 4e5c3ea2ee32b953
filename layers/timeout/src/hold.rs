//! Stops the time while somebody else than the backend is awaited.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Put into a request's extensions, it lets whoever keeps a clone stop that request's time.
#[derive(Clone, Debug, Default)]
pub struct Hold(Arc<AtomicUsize>);

/// The time stands still until this is dropped.
#[derive(Debug)]
pub struct Pause(Hold);

impl Hold {
    /// Nobody holds yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the time. Several pauses may overlap.
    #[must_use]
    pub fn pause(&self) -> Pause {
        self.0.fetch_add(1, Ordering::AcqRel);
        Pause(self.clone())
    }

    /// Stops the time for good: for streams that may be silent for as long as they like.
    pub fn forever(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn held(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}
