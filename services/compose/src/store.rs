//! Storage of runs.

#[cfg(any(test, feature = "contract"))]
#[macro_use]
pub mod contract;
#[cfg(any(test, feature = "contract"))]
mod file;
mod limits;
mod memory;
mod table;
mod usage;

use std::fmt::Debug;
use std::time::Duration;

use futures_util::future::BoxFuture;

#[cfg(any(test, feature = "contract"))]
pub use self::file::FileWorkflowStore;
pub use self::{
    limits::{ReachedLimit, StoreLimits},
    memory::MemoryWorkflowStore,
};
use crate::limits::bytes_text;
use crate::{Change, RunId, RunOwner, RunRecord, RunStatus, RunSummary};

/// Future of a store.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Right to write to a run. A later lease of the same run has a higher epoch, and writes of older epochs fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The run.
    pub run: RunId,
    /// Epoch of the lease.
    pub epoch: u64,
}

/// Error of a store. Contains no values of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store did not respond in time. The write may have happened.
    #[error("the workflow store is unavailable: retry later")]
    Unavailable,
    /// A limit is reached. Nothing was written.
    #[error("the workflow store is full ({limit}): {}", limit.remedy())]
    Full {
        /// The limit.
        limit: ReachedLimit,
    },
    /// The results of one run alone exceed the memory of an owner. Nothing was written.
    #[error(
        "the results of the run need more than {} of memory, the limit of the workflow store: \
         let its tools return less, or split the composite tool",
        bytes_text(*limit)
    )]
    RunTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The owner has no such run.
    #[error(
        "no such run: it may have expired, ended with its process, or be in the memory of another replica"
    )]
    NotFound,
    /// Another process holds the lease.
    #[error("another process continues the run")]
    Leased,
    /// The lease is over: another process took the run, or its owner cancelled it. The holder stops.
    #[error("the lease of the run is over")]
    Superseded,
    /// The run ended; nothing can be written.
    #[error("the run ended")]
    Finished,
    /// The round is not the open one.
    #[error("the round of questions was answered already")]
    RoundConsumed,
    /// The record was written by a newer version.
    #[error("failed to read a stored run: unknown format")]
    Corrupt,
}

/// Number and size of the runs in a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Runs in the store, ended ones included.
    pub runs: usize,
    /// Runs that have not ended.
    pub active: usize,
    /// Runs among them that are suspended until the user answers.
    pub suspended: usize,
    /// Their estimated size, in bytes.
    pub bytes: usize,
}

/// Store of runs. Each method is one atomic step for any number of replicas; a replica that shares the store can continue
/// what another one began. Expired runs are absent.
///
/// A dropped future may or may not have taken its step. The feature `contract` has the tests that each implementation has to
/// pass.
pub trait WorkflowStore: Debug + Send + Sync + 'static {
    /// Stores a run that starts, with its first changes, and leases it. Evicts runs that ended, the owner's first, if a limit
    /// is reached.
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::RunTooLarge`], and [`StoreError::Leased`] for an identifier that is in use.
    fn create(&self, run: RunRecord, changes: Vec<Change>) -> StoreFuture<'_, Lease>;

    /// Leases a run whose lease is over, given back or none, and returns it.
    ///
    /// # Errors
    /// [`StoreError::Leased`] while another lease is valid, [`StoreError::Finished`] for a run that ended.
    fn acquire<'a>(
        &'a self,
        owner: &'a RunOwner,
        run: &'a RunId,
    ) -> StoreFuture<'a, (Lease, RunRecord)>;

    /// Extends a lease.
    ///
    /// # Errors
    /// [`StoreError::Superseded`], as for each write of an earlier epoch.
    fn renew<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()>;

    /// Applies changes to a run, all or none, and extends the lease. The holder of an expired lease may still write unless
    /// another one was granted. [`Change::RoundOpened`] and [`Change::RunFinished`] give the lease back. Of a run that ends,
    /// the course remains for a while, and the output if the run asked for it ([`RunRecord::keeps_result`]) or had a round of
    /// questions. Kept outputs beyond the limits in bytes are dropped ([`RunResult::NotKept`](crate::RunResult::NotKept)), the
    /// oldest of the owner first, then those of the owner with the most bytes.
    ///
    /// # Errors
    /// [`StoreError::Superseded`] for an earlier epoch, [`StoreError::Finished`] after the end, [`StoreError::RoundConsumed`]
    /// if a change consumes a round that is not open, and [`StoreError::Full`] or [`StoreError::RunTooLarge`], but not for the
    /// end of a run.
    fn commit<'a>(&'a self, lease: &'a Lease, changes: Vec<Change>) -> StoreFuture<'a, ()>;

    /// Gives a lease back, as far as that is possible without waiting. The run is interrupted until it is acquired.
    fn release(&self, lease: &Lease);

    /// Cancels a run: its status changes, and its lease is over. Returns the status that the run has then, which is another
    /// one if it had ended before.
    fn cancel<'a>(&'a self, owner: &'a RunOwner, run: &'a RunId) -> StoreFuture<'a, RunStatus>;

    /// Returns a run. A running one without a valid lease is [`RunStatus::Interrupted`].
    fn read<'a>(&'a self, owner: &'a RunOwner, run: &'a RunId) -> StoreFuture<'a, RunRecord>;

    /// Returns up to `limit` of the owner's runs, the newest first, ended ones included.
    fn list<'a>(&'a self, owner: &'a RunOwner, limit: usize) -> StoreFuture<'a, Vec<RunSummary>>;

    /// Waits until the version of a run exceeds `version` or its lease is over, or for a while.
    fn wait<'a>(&'a self, owner: &'a RunOwner, run: &'a RunId, version: u64)
    -> StoreFuture<'a, ()>;

    /// Returns `true` if other processes have the same runs.
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns the time for which a run is kept at least, after its last write or the end of its lease.
    fn lifetime(&self) -> Duration;

    /// Returns the time after which a lease is over unless it is renewed.
    fn lease_duration(&self) -> Duration;

    /// Returns the number and size of the runs.
    fn counts(&self) -> StoreFuture<'_, StoreCounts>;

    /// Waits until each lease of this process is given back, for a shutdown: other replicas continue its runs at once. Callers
    /// limit the time.
    fn released(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
