//! Steps of the store.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use vmcp_compose::{
    Change, Lease, RunId, RunOwner, RunRecord, RunStatus, RunSummary, StoreCounts, StoreError,
    StoreFuture, WorkflowStore,
};

use crate::arguments::Arguments;
use crate::held::{HeldRecord, HeldRun, QueuedWrite};
use crate::reply::{StepOutcome, StoredRecord, status_word};
use crate::sealed::owner_digest;
use crate::store::{RedisWorkflowStore, random_holder};

/// Longest time that [`WorkflowStore::wait`] waits: leases end without a write.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// First and longest pause between two looks at a run of another replica.
const INITIAL_POLL_INTERVAL: Duration = Duration::from_millis(10);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(160);

/// Longest identifier of a run. Others are no keys.
const MAX_RUN_ID_LENGTH: usize = 256;

/// Number of attempts to end a run between two writes of its holder. The next ones take the lease first.
const CANCEL_ATTEMPTS: usize = 4;
const FORCED_CANCEL_ATTEMPTS: usize = 4;

/// Epoch of the lease with which a run is created.
const FIRST_EPOCH: u64 = 1;

impl RedisWorkflowStore {
    async fn create_run(
        &self,
        mut record: RunRecord,
        changes: Vec<Change>,
    ) -> Result<Lease, StoreError> {
        record.apply(changes);
        record.updated_at = self.0.clock.now().into();
        let (size, limit) = (record.size(), self.0.limits.max_bytes_per_run());
        if size > limit {
            return Err(StoreError::RunTooLarge { limit });
        }
        let (holder, seal) = (random_holder()?, self.seal(&record.id, &record.owner));
        let (snapshot, summary) = (seal.snapshot(&record)?, seal.summary(&record)?);
        let bytes = snapshot.len();
        let arguments = self
            .run_arguments(&record.id, &record.owner)?
            .number(record.started_at.0)
            .size(size)
            .bytes(holder.as_str())
            .number(record.version)
            .bytes(snapshot)
            .bytes(summary);
        self.step(&self.0.scripts.create, &arguments).await?.done()?;
        let lease = Lease { run: record.id.clone(), epoch: FIRST_EPOCH };
        let record = HeldRecord::new(record, size).with_stored_bytes(bytes, 0);
        self.hold(HeldRun::new(lease.clone(), holder, record));
        Ok(lease)
    }

    /// Leases a run. `force` takes the lease of another process.
    async fn acquire_run(
        &self,
        owner: &RunOwner,
        run: &RunId,
        force: bool,
    ) -> Result<(Lease, RunRecord), StoreError> {
        let holder = random_holder()?;
        let arguments = self.run_arguments(run, owner)?.bytes(holder.as_str()).flag(force);
        let mut reply = self.step(&self.0.scripts.acquire, &arguments).await?.done()?;
        let stored = reply.record()?;
        let lease = Lease { run: run.clone(), epoch: stored.epoch };
        match self.open_held(run, owner, &stored) {
            Ok(held) => {
                let record = held.record.clone();
                self.hold(HeldRun::new(lease.clone(), holder, held));
                Ok((lease, record))
            }
            Err(error) => {
                // A replica with the key can continue it at once.
                let arguments = self.arguments().bytes(run.as_str()).number(lease.epoch);
                _ = self.step(&self.0.scripts.release, &arguments.bytes(holder)).await;
                Err(error)
            }
        }
    }

    async fn renew_lease(&self, lease: &Lease) -> Result<(), StoreError> {
        let arguments = match self.held(lease) {
            Some(held) => self.lease_arguments(&held),
            None => self.arguments().bytes(lease.run.as_str()).number(lease.epoch).bytes("-"),
        };
        self.step(&self.0.scripts.renew, &arguments).await?.done()?;
        Ok(())
    }

    async fn commit_changes(&self, lease: &Lease, changes: Vec<Change>) -> Result<(), StoreError> {
        let Some(held) = self.held(lease) else {
            // The lease was given back. Redis tells whether the run ended or another process may hold it.
            self.renew_lease(lease).await?;
            return Err(StoreError::Superseded);
        };
        let (done, result) = oneshot::channel();
        held.enqueue(QueuedWrite { changes, done });
        let store = self.clone();
        tokio::spawn(async move { store.write_queued(&held).await });
        // A runtime that shuts down drops the task.
        result.await.unwrap_or(Err(StoreError::Unavailable))
    }

    async fn release_lease(&self, held: &HeldRun) {
        // After the write that is being made.
        let _written = held.record.lock().await;
        // Without a response the lease ends by itself.
        _ = self.step(&self.0.scripts.release, &self.lease_arguments(held)).await;
    }

    /// Ends a run between two writes of its holder, whose next write fails.
    async fn cancel_run(&self, owner: &RunOwner, run: &RunId) -> Result<RunStatus, StoreError> {
        for attempt in 0..CANCEL_ATTEMPTS + FORCED_CANCEL_ATTEMPTS {
            let mut record = if attempt < CANCEL_ATTEMPTS {
                self.read_record(owner, run).await?
            } else {
                match self.acquire_run(owner, run, true).await {
                    Err(StoreError::Finished) => self.read_record(owner, run).await?,
                    acquired => {
                        let (lease, record) = acquired?;
                        // Only the end is written, which needs no lease.
                        self.take_held(&lease);
                        record
                    }
                }
            };
            if record.is_finished() {
                return Ok(record.status);
            }
            let (from, now) = (record.version, self.0.clock.now().into());
            record.apply(vec![Change::cancelled(now)]);
            record.updated_at = now;
            let arguments = self
                .arguments()
                .bytes(run.as_str())
                .number(0)
                .bytes(random_holder()?)
                .number(from)
                .number(record.version);
            let arguments = self.end_arguments(arguments, &record, record.size())?.flag(true);
            match self.step(&self.0.scripts.finish, &arguments).await?.outcome()? {
                StepOutcome::Done => {
                    self.0.changed.notify_waiters();
                    return Ok(RunStatus::Cancelled);
                }
                StepOutcome::Behind | StepOutcome::Rejected(StoreError::Finished) => {}
                StepOutcome::Rejected(error) => return Err(error),
            }
        }
        Err(StoreError::Unavailable)
    }

    async fn read_record(&self, owner: &RunOwner, run: &RunId) -> Result<RunRecord, StoreError> {
        let stored = self.read_stored(run, owner).await?;
        let opened = self.seal(run, owner).open_record(&stored);
        let record = opened.map_err(|_| self.0.health.record_corrupt(run))?;
        let status = match stored.status {
            RunStatus::Interrupted => RunStatus::Interrupted,
            _ => record.status,
        };
        Ok(RunRecord { status, ..record })
    }

    pub(crate) async fn read_stored(
        &self,
        run: &RunId,
        owner: &RunOwner,
    ) -> Result<StoredRecord, StoreError> {
        let arguments = self.run_arguments(run, owner)?;
        self.step(&self.0.scripts.read, &arguments).await?.done()?.record()
    }

    /// Opens a record under whose lease this process writes.
    pub(crate) fn open_held(
        &self,
        run: &RunId,
        owner: &RunOwner,
        stored: &StoredRecord,
    ) -> Result<HeldRecord, StoreError> {
        let opened = self.seal(run, owner).open_record(stored);
        let record = opened.map_err(|_| self.0.health.record_corrupt(run))?;
        let changes = stored.changes.iter().map(Vec::len).sum();
        let held = HeldRecord::new(record, stored.size);
        Ok(held.with_stored_bytes(stored.snapshot.len(), changes))
    }

    async fn list_runs(
        &self,
        owner: &RunOwner,
        limit: usize,
    ) -> Result<Vec<RunSummary>, StoreError> {
        let arguments = self.arguments().bytes(owner_digest(owner)).size(limit);
        let reply = self.step(&self.0.scripts.list, &arguments).await?;
        let mut runs = Vec::new();
        for reply in reply.replies() {
            let mut reply = reply?;
            let run = RunId::new(&reply.require::<String>()?);
            let status = reply.status()?;
            let summary: Vec<u8> = reply.require()?;
            // One that cannot be opened does not hide the others.
            match self.seal(&run, owner).open_summary(&summary, status) {
                Ok(summary) => runs.push(summary),
                Err(_) => _ = self.0.health.record_corrupt(&run),
            }
        }
        Ok(runs)
    }

    async fn wait_for_write(
        &self,
        owner: &RunOwner,
        run: &RunId,
        version: u64,
    ) -> Result<(), StoreError> {
        let (deadline, mut interval) = (Instant::now() + MAX_WAIT, INITIAL_POLL_INTERVAL);
        loop {
            // Registered before the look, so that no write in between is missed.
            let mut changed = pin!(self.0.changed.notified());
            changed.as_mut().enable();
            let arguments = self.run_arguments(run, owner)?;
            let mut reply = self.step(&self.0.scripts.progress, &arguments).await?.done()?;
            let status = reply.status()?;
            let current: u64 = reply.require()?;
            if current > version || status != RunStatus::Running || Instant::now() >= deadline {
                return Ok(());
            }
            let pause = interval.min(deadline.saturating_duration_since(Instant::now()));
            // A write of this process ends the pause.
            _ = timeout(pause, changed).await;
            interval = MAX_POLL_INTERVAL.min(interval * 2);
        }
    }

    async fn count_runs(&self) -> Result<StoreCounts, StoreError> {
        let mut reply = self.step(&self.0.scripts.counts, &self.arguments()).await?.done()?;
        Ok(StoreCounts {
            runs: reply.require()?,
            active: reply.require()?,
            suspended: reply.require()?,
            bytes: reply.require()?,
        })
    }

    fn run_arguments(&self, run: &RunId, owner: &RunOwner) -> Result<Arguments, StoreError> {
        if run.as_str().len() > MAX_RUN_ID_LENGTH {
            return Err(StoreError::NotFound);
        }
        Ok(self.arguments().bytes(run.as_str()).bytes(owner_digest(owner)))
    }

    /// Appends the arguments of a run that ended.
    pub(crate) fn end_arguments(
        &self,
        arguments: Arguments,
        record: &RunRecord,
        size: usize,
    ) -> Result<Arguments, StoreError> {
        let seal = self.seal(&record.id, &record.owner);
        let result = seal.result(record)?;
        let result_size = record.result.as_ref().filter(|_| result.is_some());
        Ok(arguments
            .bytes(status_word(record.status))
            .bytes(seal.snapshot(record)?)
            .bytes(seal.summary(record)?)
            .size(size)
            .bytes(result.unwrap_or_default())
            .size(result_size.map_or(0, vmcp_compose::RunResult::size)))
    }
}

impl WorkflowStore for RedisWorkflowStore {
    fn create(&self, run: RunRecord, changes: Vec<Change>) -> StoreFuture<'_, Lease> {
        self.create_run(run, changes).boxed()
    }

    fn acquire<'a>(
        &'a self,
        owner: &'a RunOwner,
        run: &'a RunId,
    ) -> StoreFuture<'a, (Lease, RunRecord)> {
        self.acquire_run(owner, run, false).boxed()
    }

    fn renew<'a>(&'a self, lease: &'a Lease) -> StoreFuture<'a, ()> {
        self.renew_lease(lease).boxed()
    }

    fn commit<'a>(&'a self, lease: &'a Lease, changes: Vec<Change>) -> StoreFuture<'a, ()> {
        self.commit_changes(lease, changes).boxed()
    }

    fn release(&self, lease: &Lease) {
        let Some(held) = self.take_held(lease) else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        let Ok(permit) = Arc::clone(&self.0.releases).try_acquire_owned() else { return };
        let store = self.clone();
        runtime.spawn(async move {
            store.release_lease(&held).await;
            drop(permit);
            store.0.changed.notify_waiters();
        });
    }

    fn released(&self) -> BoxFuture<'_, ()> {
        async move {
            loop {
                // Registered before the look, so that no change in between is missed.
                let mut changed = pin!(self.0.changed.notified());
                changed.as_mut().enable();
                if self.is_released() {
                    return;
                }
                changed.await;
            }
        }
        .boxed()
    }

    fn cancel<'a>(&'a self, owner: &'a RunOwner, run: &'a RunId) -> StoreFuture<'a, RunStatus> {
        self.cancel_run(owner, run).boxed()
    }

    fn read<'a>(&'a self, owner: &'a RunOwner, run: &'a RunId) -> StoreFuture<'a, RunRecord> {
        self.read_record(owner, run).boxed()
    }

    fn list<'a>(&'a self, owner: &'a RunOwner, limit: usize) -> StoreFuture<'a, Vec<RunSummary>> {
        self.list_runs(owner, limit).boxed()
    }

    fn wait<'a>(
        &'a self,
        owner: &'a RunOwner,
        run: &'a RunId,
        version: u64,
    ) -> StoreFuture<'a, ()> {
        self.wait_for_write(owner, run, version).boxed()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn lifetime(&self) -> Duration {
        self.0.limits.lifetime.min(self.0.limits.ended_lifetime)
    }

    fn lease_duration(&self) -> Duration {
        self.0.limits.lease
    }

    fn counts(&self) -> StoreFuture<'_, StoreCounts> {
        self.count_runs().boxed()
    }
}
