//! Store in a file, for tests of runs that outlive their process.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use serde::{Deserialize, Serialize};
use vmcp_core::Clock;

use super::limits::StoreLimits;
use super::memory::MemoryWorkflowStore;
use super::table::Table;
use crate::{
    Change, Lease, RunId, RunOwner, RunRecord, RunStatus, RunSummary, StoreCounts, StoreError,
    StoreFuture, Timestamp, WorkflowStore,
};

/// Store in the process that logs each step to a file and reads it when it is opened. One process at a time uses the file,
/// which only grows: for tests, not for production.
#[derive(Clone, Debug)]
pub struct FileWorkflowStore {
    memory: MemoryWorkflowStore,
    log: Arc<Mutex<File>>,
}

/// Operation of the store, one line of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Operation {
    Create(Box<RunRecord>, Vec<Change>),
    Acquire(RunOwner, RunId),
    Renew(RunId, u64),
    Commit(RunId, u64, Vec<Change>),
    Release(RunId, u64),
    Cancel(RunOwner, RunId),
}

/// Result of a step.
enum OperationResult {
    Lease(Lease),
    Leased(Lease, Box<RunRecord>),
    Status(RunStatus),
    Nothing,
}

impl FileWorkflowStore {
    /// Opens a store, and creates the file if there is none.
    ///
    /// # Errors
    /// A file that cannot be read, or with a line that is not a step.
    pub fn open(path: &Path, limits: StoreLimits, clock: Clock) -> io::Result<Self> {
        let log = OpenOptions::new().create(true).append(true).read(true).open(path)?;
        let memory = MemoryWorkflowStore::new(limits, clock);
        for line in BufReader::new(File::open(path)?).lines() {
            let (at, step): (Timestamp, Operation) = serde_json::from_str(&line?)?;
            // A logged step was taken, and is taken again by the same rules.
            _ = memory.with_table(|table, _| step.take(table, at));
        }
        Ok(Self { memory, log: Arc::new(Mutex::new(log)) })
    }

    /// Takes a step and logs it. The lock keeps the log in the order of the steps.
    fn take(&self, step: &Operation) -> Result<OperationResult, StoreError> {
        let mut log = vmcp_core::lock(&self.log);
        let (at, taken) = self.memory.with_table(|table, now| (now, step.clone().take(table, now)));
        let taken = taken?;
        let mut line = serde_json::to_vec(&(at, step)).map_err(|_| StoreError::Corrupt)?;
        line.push(b'\n');
        log.write_all(&line).map_err(|_| StoreError::Unavailable)?;
        drop(log);
        self.memory.notify();
        Ok(taken)
    }

    fn step<'a, T: Send + 'a>(
        &'a self,
        step: Operation,
        result: impl FnOnce(OperationResult) -> Option<T> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        async move { result(self.take(&step)?).ok_or(StoreError::Corrupt) }.boxed()
    }
}

impl Operation {
    fn take(self, table: &mut Table, now: Timestamp) -> Result<OperationResult, StoreError> {
        match self {
            Self::Create(run, changes) => {
                table.create(*run, changes, now).map(OperationResult::Lease)
            }
            Self::Acquire(owner, run) => table
                .acquire(&owner, &run, now)
                .map(|(lease, run)| OperationResult::Leased(lease, Box::new(run))),
            Self::Renew(run, epoch) => {
                table.renew(&Lease { run, epoch }, now).map(|()| OperationResult::Nothing)
            }
            Self::Commit(run, epoch, changes) => {
                table.commit(&Lease { run, epoch }, changes, now).map(|()| OperationResult::Nothing)
            }
            Self::Release(run, epoch) => {
                table.release(&Lease { run, epoch }, now);
                Ok(OperationResult::Nothing)
            }
            Self::Cancel(owner, run) => {
                table.cancel(&owner, &run, now).map(OperationResult::Status)
            }
        }
    }
}

impl OperationResult {
    fn nothing(self) -> Option<()> {
        matches!(self, Self::Nothing).then_some(())
    }
}

impl WorkflowStore for FileWorkflowStore {
    fn create(&self, run: RunRecord, changes: Vec<Change>) -> StoreFuture<'_, Lease> {
        self.step(Operation::Create(Box::new(run), changes), |taken| match taken {
            OperationResult::Lease(lease) => Some(lease),
            _ => None,
        })
    }

    fn acquire<'a>(
        &'a self,
        owner: &'a RunOwner,
        run: &'a RunId,
    ) -> StoreFuture<'a, (Lease, RunRecord)> {
        self.step(Operation::Acquire(owner.clone(), run.clone()), |taken| match taken {
            OperationResult::Leased(lease, run) => Some((lease, *run)),
            _ => None,
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        self.step(Operation::Renew(lease.run.clone(), lease.epoch), OperationResult::nothing)
    }

    fn commit<'a>(&'a self, lease: &'a Lease, changes: Vec<Change>) -> StoreFuture<'a, ()> {
        self.step(
            Operation::Commit(lease.run.clone(), lease.epoch, changes),
            OperationResult::nothing,
        )
    }

    fn release(&self, lease: &Lease) {
        // Without a line in the log, the lease ends by itself.
        _ = self.take(&Operation::Release(lease.run.clone(), lease.epoch));
    }

    fn cancel<'a>(&'a self, owner: &'a RunOwner, run: &'a RunId) -> StoreFuture<'a, RunStatus> {
        self.step(Operation::Cancel(owner.clone(), run.clone()), |taken| match taken {
            OperationResult::Status(status) => Some(status),
            _ => None,
        })
    }

    fn read<'a>(&'a self, owner: &'a RunOwner, run: &'a RunId) -> StoreFuture<'a, RunRecord> {
        self.memory.read(owner, run)
    }

    fn list<'a>(&'a self, owner: &'a RunOwner, limit: usize) -> StoreFuture<'a, Vec<RunSummary>> {
        self.memory.list(owner, limit)
    }

    fn wait<'a>(
        &'a self,
        owner: &'a RunOwner,
        run: &'a RunId,
        version: u64,
    ) -> StoreFuture<'a, ()> {
        self.memory.wait(owner, run, version)
    }

    fn lifetime(&self) -> Duration {
        self.memory.lifetime()
    }

    fn lease_duration(&self) -> Duration {
        self.memory.lease_duration()
    }

    fn counts(&self) -> StoreFuture<'_, StoreCounts> {
        self.memory.counts()
    }
}

#[cfg(test)]
mod tests;
