//! Count of the calls that use a slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Count of the leases of one slot. Smaller than a channel: most slots are never waited for.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases(Arc<Counter>);

/// Lease of one call.
#[derive(Debug)]
pub(super) struct Lease(Arc<Counter>);

#[derive(Debug, Default)]
struct Counter {
    /// Number of [`Lease`] values that exist. Incremented only by [`Leases::lease`], decremented only when a lease is dropped.
    open: AtomicUsize,
    /// Notified each time the number becomes zero.
    unused: Notify,
}

impl Leases {
    pub(super) fn lease(&self) -> Lease {
        // Relaxed: a lease guards no other memory.
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Lease(Arc::clone(&self.0))
    }

    pub(super) fn is_any_open(&self) -> bool {
        self.0.open.load(Ordering::Acquire) > 0
    }

    /// Waits until no lease exists.
    pub(super) async fn ended(&self) {
        loop {
            // Created before the check, so a lease that ends in between is noticed.
            let unused = self.0.unused.notified();
            if !self.is_any_open() {
                return;
            }
            unused.await;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Cannot underflow: each lease has counted itself. Release: what the call did precedes the closing of its session.
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.unused.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn ends_with_last_lease() {
        let leases = Leases::default();
        let (first, second) = (leases.lease(), leases.lease());
        let mut ended = pin!(leases.ended());
        assert!(ended.as_mut().now_or_never().is_none());
        drop(first);
        assert!(ended.as_mut().now_or_never().is_none());
        assert!(leases.is_any_open());
        drop(second);
        assert!(ended.now_or_never().is_some());
        assert!(!leases.is_any_open());
    }
}
