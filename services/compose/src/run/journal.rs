//! Writes of a run to its store.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::{Change, Lease, StoreError, WorkflowStore};

/// Lease of a run. Gives it back when it is dropped before the run ended.
#[derive(Debug)]
pub(super) struct Journal<'a> {
    store: &'a dyn WorkflowStore,
    lease: Lease,
    renewal_interval: Duration,
    is_over: bool,
}

impl<'a> Journal<'a> {
    pub(super) fn new(store: &'a dyn WorkflowStore, lease: Lease) -> Self {
        let renewal_interval = store.lease_duration() / 3;
        Self { store, lease, renewal_interval, is_over: false }
    }

    /// Applies changes, all or none.
    pub(super) async fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        self.store.commit(&self.lease, changes).await
    }

    /// Extends the lease. A store that does not respond may do so until the lease is over.
    pub(super) async fn renew(&self) -> Result<(), StoreError> {
        match self.store.renew(&self.lease).await {
            Err(StoreError::Unavailable) => Ok(()),
            result => result,
        }
    }

    /// Returns the time between two renewals.
    pub(super) fn renewal_interval(&self) -> Duration {
        self.renewal_interval
    }

    /// Applies the last changes, which give the lease back.
    pub(super) async fn close(&mut self, changes: Vec<Change>) -> Result<(), StoreError> {
        self.store.commit(&self.lease, changes).await?;
        self.is_over = true;
        Ok(())
    }
}

/// Waits for a write while running calls go on. Adds the results of those that end.
pub(super) async fn poll_beside<F: Future>(
    write: impl Future<Output = Result<(), StoreError>>,
    running: &mut FuturesUnordered<F>,
    ended: &mut Vec<F::Output>,
) -> Result<(), StoreError> {
    tokio::pin!(write);
    loop {
        tokio::select! {
            biased;
            result = &mut write => return result,
            Some(end) = running.next() => ended.push(end),
        }
    }
}

impl Drop for Journal<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.store.release(&self.lease);
        }
    }
}
