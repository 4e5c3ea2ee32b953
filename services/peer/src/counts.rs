//! Counters of connections between replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Numbers of connections between replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCounts {
    /// Open connections to other replicas.
    pub outgoing: usize,
    /// Open connections of other replicas.
    pub incoming: usize,
    /// Replicas that this process knows.
    pub known: usize,
}

/// Number of open connections. Relaxed: it is only reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge(Arc<AtomicUsize>);

/// Counts one connection until it is dropped.
#[derive(Debug)]
pub(crate) struct GaugeGuard(Gauge);

impl Gauge {
    pub(crate) fn enter(&self) -> GaugeGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        GaugeGuard(self.clone())
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
