//! Runs whose lease this process holds.

use std::sync::Mutex;
use std::time::SystemTime;

use tokio::sync::oneshot;
use vmcp_compose::{Change, Lease, RunRecord, StoreError, StoreLimits};

use crate::sealed::json;

/// Size of changes, or of values that nothing reads any more, from which a record is written again as a whole. A record that is
/// larger has to have as many, so that all writes together cost at most twice their size.
const COMPACTION_BYTES: usize = 16 * 1024;

/// Run whose lease this process holds.
#[derive(Debug)]
pub(crate) struct HeldRun {
    pub(crate) lease: Lease,
    /// Random name of the lease. After a failover that lost a lease, two leases may have the same epoch.
    pub(crate) holder: String,
    queue: Mutex<Vec<QueuedWrite>>,
    /// Locked by the task that writes.
    pub(crate) record: tokio::sync::Mutex<HeldRecord>,
}

/// Write that waits for the ones before.
#[derive(Debug)]
pub(crate) struct QueuedWrite {
    pub(crate) changes: Vec<Change>,
    pub(crate) done: oneshot::Sender<Result<(), StoreError>>,
}

/// Record after the writes of this process. No other process writes to it while the lease is held: each script checks the holder.
#[derive(Debug)]
pub(crate) struct HeldRecord {
    pub(crate) record: RunRecord,
    /// Estimated size.
    pub(crate) size: usize,
    /// Bytes of the snapshot in Redis.
    snapshot_bytes: usize,
    /// Bytes of the changes in Redis.
    changes_bytes: usize,
    /// Estimated size of the values in snapshot and changes that nothing reads any more.
    freed_bytes: usize,
    /// Error after which nothing can be written under this lease.
    pub(crate) error: Option<StoreError>,
}

// === impl HeldRun ===

impl HeldRun {
    pub(crate) fn new(lease: Lease, holder: String, record: HeldRecord) -> Self {
        let record = tokio::sync::Mutex::new(record);
        Self { lease, holder, queue: Mutex::default(), record }
    }

    pub(crate) fn enqueue(&self, write: QueuedWrite) {
        vmcp_core::lock(&self.queue).push(write);
    }

    pub(crate) fn take_queue(&self) -> Vec<QueuedWrite> {
        std::mem::take(&mut *vmcp_core::lock(&self.queue))
    }
}

// === impl QueuedWrite ===

impl QueuedWrite {
    /// Sends the result. A caller that is gone needs none.
    pub(crate) fn respond(self, result: Result<(), StoreError>) {
        _ = self.done.send(result);
    }
}

// === impl HeldRecord ===

impl HeldRecord {
    pub(crate) fn new(record: RunRecord, size: usize) -> Self {
        Self { record, size, snapshot_bytes: 0, changes_bytes: 0, freed_bytes: 0, error: None }
    }

    /// Sets the sizes in Redis.
    pub(crate) fn with_stored_bytes(mut self, snapshot: usize, changes: usize) -> Self {
        (self.snapshot_bytes, self.changes_bytes) = (snapshot, changes);
        self
    }

    /// Applies the changes of a write that was not stored yet. Returns them as JSON, and whether they give the lease back.
    pub(crate) fn apply(
        &mut self,
        changes: &[Change],
        limits: &StoreLimits,
        now: SystemTime,
    ) -> Result<(String, bool), StoreError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let effect = self.record.check_write(self.size, changes, limits)?;
        let text = String::from_utf8(json(&changes)?).map_err(|_| StoreError::Corrupt)?;
        self.record.apply(changes.to_vec());
        self.record.updated_at = now.into();
        self.size = if effect.ends { self.record.size() } else { effect.size };
        self.freed_bytes += effect.freed;
        Ok((text, effect.gives_lease_back))
    }

    /// Returns whether the record is written as a whole instead of `bytes` of changes.
    pub(crate) fn needs_snapshot(&self, bytes: usize) -> bool {
        self.changes_bytes + bytes > COMPACTION_BYTES + self.snapshot_bytes
            || self.freed_bytes > COMPACTION_BYTES + self.size
    }

    pub(crate) fn appended(&mut self, bytes: usize) {
        self.changes_bytes += bytes;
    }

    pub(crate) fn replaced(&mut self, bytes: usize) {
        (self.snapshot_bytes, self.changes_bytes, self.freed_bytes) = (bytes, 0, 0);
    }
}

/// Returns the round that the changes need to be open.
pub(crate) fn needed_round(changes: &[Change]) -> Option<usize> {
    changes.iter().find_map(|change| match change {
        Change::AnswersKept { round, .. } | Change::RoundConsumed { round, .. } => Some(*round),
        _ => None,
    })
}
