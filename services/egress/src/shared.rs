//! State that all clients of a factory share.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::{Settings, reaper::Reaper, tls::SystemRoots};

/// Shared state of all clients of a factory.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) roots: SystemRoots,
    pub(crate) reaper: Arc<Reaper>,
    /// Number of open connections: one for each live [`OpenGuard`]. Relaxed: it guards no other
    /// memory.
    open: Arc<AtomicUsize>,
}

/// Guard that counts a connection as open.
pub(crate) struct OpenGuard(Arc<AtomicUsize>);

impl Shared {
    pub(crate) fn new(settings: Settings) -> Self {
        let reaper = Arc::new(Reaper::new(settings.reap_interval, settings.idle_timeout));
        Self { settings, roots: SystemRoots::default(), reaper, open: Arc::default() }
    }

    pub(crate) fn count_open(&self) -> OpenGuard {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenGuard(Arc::clone(&self.open))
    }

    /// Returns the number of open connections.
    pub(crate) fn open_count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
