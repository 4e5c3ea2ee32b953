//! Store in the process.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::Notify;
use vmcp_core::Clock;

use super::limits::StoreLimits;
use super::table::Table;
use crate::{
    Change, Lease, RunId, RunOwner, RunRecord, RunStatus, RunSummary, StoreCounts, StoreError,
    StoreFuture, Timestamp, WorkflowStore,
};

/// Store in the process, for one replica; a restart clears it. Clones share the runs.
///
/// It is limited in number, size and time, in total and per owner. The output of a run is kept only if the run was suspended or
/// says so ([`RunRecord::keeping_result`]).
#[derive(Clone, Debug)]
pub struct MemoryWorkflowStore {
    shared: Arc<Shared>,
    clock: Clock,
}

#[derive(Debug)]
struct Shared {
    table: Mutex<Table>,
    changed: Notify,
}

/// Longest time that [`WorkflowStore::wait`] waits: leases end without a write.
const MAX_WAIT: Duration = Duration::from_secs(1);

impl MemoryWorkflowStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new(limits: StoreLimits, clock: Clock) -> Self {
        let shared = Shared { table: Mutex::new(Table::new(limits)), changed: Notify::new() };
        Self { shared: Arc::new(shared), clock }
    }

    /// Takes one step under the lock. The future is ready at once.
    fn step<'a, T: Send + 'a>(
        &'a self,
        step: impl FnOnce(&mut Table, Timestamp) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        async move { self.with_table(step) }.boxed()
    }

    /// Wakes those who wait for a change.
    pub(super) fn notify(&self) {
        self.shared.changed.notify_waiters();
    }

    pub(super) fn with_table<T>(&self, step: impl FnOnce(&mut Table, Timestamp) -> T) -> T {
        step(&mut vmcp_core::lock(&self.shared.table), self.clock.now().into())
    }
}

impl Default for MemoryWorkflowStore {
    fn default() -> Self {
        Self::new(StoreLimits::default(), Clock::system())
    }
}

impl WorkflowStore for MemoryWorkflowStore {
    fn create(&self, run: RunRecord, changes: Vec<Change>) -> StoreFuture<'_, Lease> {
        self.step(|table, now| table.create(run, changes, now))
    }

    fn acquire<'a>(
        &'a self,
        owner: &'a RunOwner,
        run: &'a RunId,
    ) -> StoreFuture<'a, (Lease, RunRecord)> {
        self.step(move |table, now| table.acquire(owner, run, now))
    }

    fn renew<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        self.step(move |table, now| table.renew(lease, now))
    }

    fn commit<'a>(&'a self, lease: &'a Lease, changes: Vec<Change>) -> StoreFuture<'a, ()> {
        async move {
            self.with_table(|table, now| table.commit(lease, changes, now))?;
            self.notify();
            Ok(())
        }
        .boxed()
    }

    fn release(&self, lease: &Lease) {
        self.with_table(|table, now| table.release(lease, now));
        self.notify();
    }

    fn cancel<'a>(&'a self, owner: &'a RunOwner, run: &'a RunId) -> StoreFuture<'a, RunStatus> {
        async move {
            let status = self.with_table(|table, now| table.cancel(owner, run, now))?;
            self.notify();
            Ok(status)
        }
        .boxed()
    }

    fn read<'a>(&'a self, owner: &'a RunOwner, run: &'a RunId) -> StoreFuture<'a, RunRecord> {
        self.step(move |table, now| table.read(owner, run, now))
    }

    fn list<'a>(&'a self, owner: &'a RunOwner, limit: usize) -> StoreFuture<'a, Vec<RunSummary>> {
        self.step(move |table, now| Ok(table.list(owner, limit, now)))
    }

    fn wait<'a>(
        &'a self,
        owner: &'a RunOwner,
        run: &'a RunId,
        version: u64,
    ) -> StoreFuture<'a, ()> {
        let wait = async move {
            loop {
                // Registered before the look, so that no write in between is missed.
                let changed = self.shared.changed.notified();
                let (current, status) =
                    self.with_table(|table, now| table.version(owner, run, now))?;
                if current > version || status != RunStatus::Running {
                    return Ok(());
                }
                changed.await;
            }
        };
        async move { tokio::time::timeout(MAX_WAIT, wait).await.unwrap_or(Ok(())) }.boxed()
    }

    fn lifetime(&self) -> Duration {
        self.with_table(|table, _| table.limits().lifetime.min(table.limits().ended_lifetime))
    }

    fn lease_duration(&self) -> Duration {
        self.with_table(|table, _| table.limits().lease)
    }

    fn counts(&self) -> StoreFuture<'_, StoreCounts> {
        self.step(|table, now| Ok(table.counts(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::contract::TestStore;

    async fn fresh(limits: StoreLimits) -> TestStore {
        let clock = Clock::manual(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000));
        let store = Arc::new(MemoryWorkflowStore::new(limits, clock.clone()));
        TestStore { replica: store.clone(), store, clock }
    }

    contract!(fresh);
}
