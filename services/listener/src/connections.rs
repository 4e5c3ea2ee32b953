//! Connections of all listeners of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use vmcp_core::ByteBudget;

use crate::connection_limit::ConnectionLimit;

/// Connections of all listeners of a server: their limit, their number, and the budget of their messages. A clone counts
/// the same connections.
#[derive(Clone, Debug)]
pub struct Connections {
    pub(crate) limit: ConnectionLimit,
    /// Number of open connections. Relaxed: it guards no other memory.
    pub(crate) open: Arc<AtomicUsize>,
    pub(crate) budget: ByteBudget,
}

impl Connections {
    /// Creates a limit of `limit` connections, and [`RESERVED_CONNECTIONS`](crate::RESERVED_CONNECTIONS) for probes.
    /// While requests wait for bytes of `budget`, clients must read at a minimum rate.
    #[must_use]
    pub fn new(limit: usize, budget: ByteBudget) -> Self {
        Self { limit: ConnectionLimit::new(limit), open: Arc::default(), budget }
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Returns the number of idle connections that were closed in favor of new ones.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.limit.evictions()
    }
}
