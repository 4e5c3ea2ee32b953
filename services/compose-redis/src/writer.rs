//! Writes to a run under its lease.
//!
//! A task of its own makes the writes of a run one after the other, so that a caller that is dropped leaves no write half known.
//! Writes that wait for the one before are made together, in one round trip.
//!
//! # Lost responses
//!
//! Each write names holder and epoch of its lease, and the versions before and after. So a script that finds the version after
//! the write, under the same holder, knows that the write was made, and a repetition is safe. Until the store knows whether a
//! write was made, it makes no other one under that lease. If Redis stays away, the write fails with
//! [`StoreError::Unavailable`], and so does each further write under the lease: the engine ends its attempt and gives the lease
//! back. What Redis has then is a state that the engine had, with or without the last write. Without it, nothing that the write
//! started was sent. With it, steps may be recorded as started that were not sent: they count as started, which repeats nothing.
//! A write that is even later, delayed in the network, finds no holder and fails.
//!
//! # Failover
//!
//! A failover may lose writes that Redis had acknowledged. The holder has the whole record: it finds that Redis has an earlier
//! version under its own name, and writes the record instead of the changes. If Redis lost the lease, the holder stops: its name
//! is not that of the lease, even if another replica was granted the same epoch.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use vmcp_compose::StoreError;

use crate::arguments::Arguments;
use crate::held::{HeldRecord, HeldRun, QueuedWrite, needed_round};
use crate::reply::{Reply, StepOutcome};
use crate::scripts::StepScript;
use crate::store::RedisWorkflowStore;

/// Time for which a write is repeated while Redis is unavailable. Steps that run meanwhile go on.
const OUTAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// First and longest pause between two attempts.
const INITIAL_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(1);

/// Writes that are made together.
#[derive(Debug, Default)]
struct Batch {
    /// Version before.
    from: u64,
    writes: Vec<QueuedWrite>,
    /// JSON of each write's changes.
    texts: Vec<String>,
    /// Round that the writes need to be open.
    round: Option<usize>,
    /// `true` if the run ends, or waits for the user.
    gives_lease_back: bool,
}

impl RedisWorkflowStore {
    /// Makes the writes that wait.
    pub(crate) async fn write_queued(&self, held: &HeldRun) {
        let mut record = held.record.lock().await;
        let rejected = self.write(held, &mut record, held.take_queue()).await;
        // Together they exceed a limit: find out which one does.
        for write in rejected {
            self.write(held, &mut record, vec![write]).await;
        }
    }

    /// Makes writes together. Returns them if Redis rejected them together.
    async fn write(
        &self,
        held: &HeldRun,
        record: &mut HeldRecord,
        writes: Vec<QueuedWrite>,
    ) -> Vec<QueuedWrite> {
        let batch = self.apply(record, writes);
        if batch.writes.is_empty() {
            return Vec::new();
        }
        let outcome = self.send(held, record, &batch).await;
        let result = match outcome {
            Ok(StepOutcome::Done) => {
                if batch.gives_lease_back {
                    record.error = (!record.record.is_finished()).then_some(StoreError::Superseded);
                    self.take_held(&held.lease);
                }
                self.0.changed.notify_waiters();
                Ok(())
            }
            Ok(StepOutcome::Rejected(
                error @ (StoreError::Full { .. } | StoreError::RoundConsumed),
            )) => {
                // Nothing was written: the record is as before.
                record.error = self.reload(held, record).await.err();
                if batch.writes.len() > 1 && record.error.is_none() {
                    return batch.writes;
                }
                Err(error)
            }
            Ok(StepOutcome::Rejected(error)) | Err(error) => {
                record.error = Some(error);
                Err(error)
            }
            Ok(StepOutcome::Behind) => {
                record.error = Some(StoreError::Superseded);
                Err(StoreError::Superseded)
            }
        };
        for write in batch.writes {
            write.respond(result);
        }
        Vec::new()
    }

    /// Applies writes to the record before they are stored. Each that does not fit is rejected by itself.
    fn apply(&self, record: &mut HeldRecord, writes: Vec<QueuedWrite>) -> Batch {
        let from = record.record.version;
        let mut batch = Batch { from, ..Batch::default() };
        for write in writes {
            match record.apply(&write.changes, &self.0.limits, self.0.clock.now()) {
                Ok((text, gives_lease_back)) => {
                    batch.gives_lease_back |= gives_lease_back;
                    batch.round = batch.round.or(needed_round(&write.changes));
                    batch.texts.push(text);
                    batch.writes.push(write);
                }
                Err(error) => write.respond(Err(error)),
            }
        }
        batch
    }

    async fn send(
        &self,
        held: &HeldRun,
        record: &mut HeldRecord,
        batch: &Batch,
    ) -> Result<StepOutcome, StoreError> {
        if record.record.is_finished() {
            return self.send_end(held, record, batch).await;
        }
        let seal = self.seal(&record.record.id, &record.record.owner);
        let changes = seal.writes(batch.from, record.record.updated_at, &batch.texts)?;
        if !record.needs_snapshot(changes.len()) {
            let bytes = changes.len();
            let outcome = self.send_commit(held, record, batch, ("append", changes)).await?;
            if outcome == StepOutcome::Done {
                record.appended(bytes);
            }
            if outcome != StepOutcome::Behind {
                return Ok(outcome);
            }
            tracing::warn!(run = %held.lease.run, "stored run is older than written, as after a failover; written again");
        }
        let seal = self.seal(&record.record.id, &record.record.owner);
        let snapshot = seal.snapshot(&record.record)?;
        let bytes = snapshot.len();
        let outcome = self.send_commit(held, record, batch, ("replace", snapshot)).await?;
        if outcome == StepOutcome::Done {
            record.replaced(bytes);
        }
        Ok(outcome)
    }

    async fn send_commit(
        &self,
        held: &HeldRun,
        HeldRecord { record, size, .. }: &HeldRecord,
        batch: &Batch,
        (mode, sealed): (&str, Vec<u8>),
    ) -> Result<StepOutcome, StoreError> {
        let arguments = self
            .lease_arguments(held)
            .number(batch.from)
            .number(record.version)
            .bytes(mode)
            .bytes(sealed)
            .size(*size)
            .index(record.open_round())
            .index(batch.round)
            .flag(batch.gives_lease_back);
        self.repeat(&self.0.scripts.commit, &arguments, batch).await?.outcome()
    }

    async fn send_end(
        &self,
        held: &HeldRun,
        HeldRecord { record, size, .. }: &HeldRecord,
        batch: &Batch,
    ) -> Result<StepOutcome, StoreError> {
        let arguments = self.lease_arguments(held).number(batch.from).number(record.version);
        let arguments = self.end_arguments(arguments, record, *size)?.flag(false);
        self.repeat(&self.0.scripts.finish, &arguments, batch).await?.outcome()
    }

    pub(crate) fn lease_arguments(&self, held: &HeldRun) -> Arguments {
        let lease = &held.lease;
        self.arguments().bytes(lease.run.as_str()).number(lease.epoch).bytes(held.holder.as_str())
    }

    /// Repeats a step while Redis is unavailable and a caller waits.
    async fn repeat(
        &self,
        script: &StepScript,
        arguments: &Arguments,
        batch: &Batch,
    ) -> Result<Reply, StoreError> {
        let (deadline, mut backoff) = (Instant::now() + OUTAGE_TIMEOUT, INITIAL_BACKOFF);
        loop {
            let error = match self.step(script, arguments).await {
                Err(error @ StoreError::Unavailable) => error,
                result => return result,
            };
            let is_waited_for = batch.writes.iter().any(|write| !write.done.is_closed());
            if !is_waited_for || Instant::now() + backoff >= deadline {
                return Err(error);
            }
            sleep(backoff).await;
            backoff = MAX_BACKOFF.min(backoff * 2);
        }
    }

    /// Reads the record again after a write that was rejected.
    async fn reload(&self, held: &HeldRun, record: &mut HeldRecord) -> Result<(), StoreError> {
        let (run, owner) = (held.lease.run.clone(), record.record.owner.clone());
        let stored = self.read_stored(&run, &owner).await?;
        if stored.epoch != held.lease.epoch {
            return Err(StoreError::Superseded);
        }
        *record = self.open_held(&run, &owner, &stored)?;
        Ok(())
    }
}
