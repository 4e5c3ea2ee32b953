//! Runs of a store in the process: the rules of leases, rounds and limits, without locks and clocks.

mod kept_results;

use std::collections::HashMap;
use std::time::Duration;

use super::limits::StoreLimits;
use super::usage::Usage;
use crate::{
    Change, Lease, RunId, RunOwner, RunRecord, RunStatus, RunSummary, StoreCounts, StoreError,
    Timestamp, WriteEffect,
};

/// Runs by identifier.
#[derive(Debug)]
pub(super) struct Table {
    limits: StoreLimits,
    runs: HashMap<RunId, Entry>,
    /// Number of the next start or end of a run.
    next_number: u64,
    owners: HashMap<RunOwner, Usage>,
    /// Usage of all owners.
    all: Usage,
    next_sweep: Timestamp,
}

#[derive(Debug)]
struct Entry {
    record: RunRecord,
    bytes: usize,
    /// Number of the start.
    number: u64,
    /// Number of the end.
    end_number: Option<u64>,
    epoch: u64,
    /// End of the lease. `None` if it was given back.
    leased_until: Option<Timestamp>,
    last_write: Timestamp,
}

/// Time between two searches for expired runs. They are absent for callers before.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

// === impl Entry ===

impl Entry {
    fn is_leased(&self, now: Timestamp) -> bool {
        self.leased_until.is_some_and(|end| now < end)
    }

    fn is_expired(&self, now: Timestamp, limits: &StoreLimits) -> bool {
        let is_ended = self.record.is_finished();
        let lifetime = if is_ended { limits.ended_lifetime } else { limits.lifetime };
        let idle_since = self.leased_until.unwrap_or(self.last_write).max(self.last_write);
        now >= idle_since.plus(lifetime)
    }

    fn status(&self, now: Timestamp) -> RunStatus {
        match self.record.status {
            RunStatus::Running if !self.is_leased(now) => RunStatus::Interrupted,
            status => status,
        }
    }
}

// === impl Table ===

impl Table {
    pub(super) fn new(limits: StoreLimits) -> Self {
        Self {
            limits,
            runs: HashMap::new(),
            next_number: 0,
            owners: HashMap::new(),
            all: Usage::default(),
            next_sweep: Timestamp(0),
        }
    }

    pub(super) fn limits(&self) -> &StoreLimits {
        &self.limits
    }

    pub(super) fn create(
        &mut self,
        mut record: RunRecord,
        changes: Vec<Change>,
        now: Timestamp,
    ) -> Result<Lease, StoreError> {
        self.sweep(now);
        if self.runs.contains_key(&record.id) {
            return Err(StoreError::Leased);
        }
        record.apply(changes);
        record.updated_at = now;
        let bytes = record.size();
        let limit = self.limits.max_bytes_per_run();
        if bytes > limit {
            return Err(StoreError::RunTooLarge { limit });
        }
        self.make_room(&record.owner, 1, bytes)?;
        let (run, owner) = (record.id.clone(), record.owner.clone());
        let leased_until = Some(now.plus(self.limits.lease));
        let number = self.take_number();
        self.owners.entry(owner).or_default().add(number, run.clone(), bytes);
        self.all.add(number, run.clone(), bytes);
        let last_write = now;
        let entry =
            Entry { record, bytes, number, end_number: None, epoch: 1, leased_until, last_write };
        self.runs.insert(run.clone(), entry);
        Ok(Lease { run, epoch: 1 })
    }

    pub(super) fn acquire(
        &mut self,
        owner: &RunOwner,
        run: &RunId,
        now: Timestamp,
    ) -> Result<(Lease, RunRecord), StoreError> {
        let leased_until = now.plus(self.limits.lease);
        let entry = self.owned(owner, run, now)?;
        if entry.record.is_finished() {
            return Err(StoreError::Finished);
        }
        if entry.is_leased(now) {
            return Err(StoreError::Leased);
        }
        entry.epoch += 1;
        entry.leased_until = Some(leased_until);
        Ok((Lease { run: run.clone(), epoch: entry.epoch }, entry.record.clone()))
    }

    pub(super) fn renew(&mut self, lease: &Lease, now: Timestamp) -> Result<(), StoreError> {
        let leased_until = now.plus(self.limits.lease);
        self.leased(lease)?.leased_until = Some(leased_until);
        Ok(())
    }

    pub(super) fn commit(
        &mut self,
        lease: &Lease,
        changes: Vec<Change>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let limits = self.limits;
        let entry = self.leased(lease)?;
        let (before, owner) = (entry.bytes, entry.record.owner.clone());
        let effect = entry.record.check_write(before, &changes, &limits)?;
        let WriteEffect { ends, gives_lease_back, size: after, freed: _ } = effect;
        if !ends {
            self.make_room(&owner, 0, after.saturating_sub(before))?;
        }
        let end_number = ends.then(|| self.take_number());
        let Some(entry) = self.runs.get_mut(&lease.run) else { return Err(StoreError::NotFound) };
        entry.record.apply(changes);
        entry.record.updated_at = now;
        entry.end_number = end_number;
        entry.last_write = now;
        entry.leased_until = (!gives_lease_back).then(|| now.plus(limits.lease));
        // A finished record shrinks; measuring it again is worth its cost only then.
        let bytes = if ends { entry.record.size() } else { after };
        entry.bytes = bytes;
        for usage in [&mut self.all, self.owners.entry(owner).or_default()] {
            usage.resize(before, bytes);
            if let Some(number) = end_number {
                usage.end(number, lease.run.clone(), bytes);
            }
        }
        if ends {
            self.limit_results(&lease.run);
        }
        Ok(())
    }

    pub(super) fn release(&mut self, lease: &Lease, now: Timestamp) {
        if let Ok(entry) = self.leased(lease) {
            entry.leased_until = None;
            entry.last_write = now;
        }
    }

    pub(super) fn cancel(
        &mut self,
        owner: &RunOwner,
        run: &RunId,
        now: Timestamp,
    ) -> Result<RunStatus, StoreError> {
        let entry = self.owned(owner, run, now)?;
        if entry.record.is_finished() {
            return Ok(entry.record.status);
        }
        // The holder's next write fails.
        entry.epoch += 1;
        let lease = Lease { run: run.clone(), epoch: entry.epoch };
        self.commit(&lease, vec![Change::cancelled(now)], now)?;
        Ok(RunStatus::Cancelled)
    }

    pub(super) fn read(
        &mut self,
        owner: &RunOwner,
        run: &RunId,
        now: Timestamp,
    ) -> Result<RunRecord, StoreError> {
        let entry = self.owned(owner, run, now)?;
        Ok(RunRecord { status: entry.status(now), ..entry.record.clone() })
    }

    /// Returns the version and status of a run.
    pub(super) fn version(
        &mut self,
        owner: &RunOwner,
        run: &RunId,
        now: Timestamp,
    ) -> Result<(u64, RunStatus), StoreError> {
        let entry = self.owned(owner, run, now)?;
        Ok((entry.record.version, entry.status(now)))
    }

    pub(super) fn list(
        &mut self,
        owner: &RunOwner,
        limit: usize,
        now: Timestamp,
    ) -> Vec<RunSummary> {
        self.sweep(now);
        let Some(usage) = self.owners.get(owner) else { return Vec::new() };
        let live = |entry: &&Entry| !entry.is_expired(now, &self.limits);
        let mut runs: Vec<_> = usage
            .newest()
            .filter_map(|run| self.runs.get(run))
            .filter(live)
            .map(|entry| RunSummary {
                id: entry.record.id.clone(),
                workflow: entry.record.workflow.clone(),
                status: entry.status(now),
                started_at: entry.record.started_at,
                ended_at: entry.record.ended_at,
            })
            .collect();
        // Stable: of runs that started at once, the last one comes first.
        runs.sort_by_key(|run| std::cmp::Reverse(run.started_at));
        runs.truncate(limit);
        runs
    }

    pub(super) fn counts(&mut self, now: Timestamp) -> StoreCounts {
        self.next_sweep = Timestamp(0);
        self.sweep(now);
        let is_suspended = |entry: &&Entry| entry.record.status == RunStatus::InputRequired;
        StoreCounts {
            runs: self.runs.len(),
            active: self.all.active_runs(),
            suspended: self.runs.values().filter(is_suspended).count(),
            bytes: self.all.bytes(),
        }
    }

    fn owned(
        &mut self,
        owner: &RunOwner,
        run: &RunId,
        now: Timestamp,
    ) -> Result<&mut Entry, StoreError> {
        self.sweep(now);
        let limits = &self.limits;
        self.runs
            .get_mut(run)
            .filter(|entry| entry.record.owner == *owner && !entry.is_expired(now, limits))
            .ok_or(StoreError::NotFound)
    }

    fn leased(&mut self, lease: &Lease) -> Result<&mut Entry, StoreError> {
        let entry = self.runs.get_mut(&lease.run).ok_or(StoreError::NotFound)?;
        if entry.epoch != lease.epoch {
            return Err(StoreError::Superseded);
        }
        if entry.record.is_finished() {
            return Err(StoreError::Finished);
        }
        Ok(entry)
    }

    /// Evicts ended runs, the owner's first, until `runs` and `bytes` more fit.
    fn make_room(&mut self, owner: &RunOwner, runs: usize, bytes: usize) -> Result<(), StoreError> {
        let none = Usage::default();
        let own = self.owners.get(owner).unwrap_or(&none);
        if let Some(limit) = self.limits.reached_by_active(own, &self.all, runs, bytes) {
            return Err(StoreError::Full { limit });
        }
        loop {
            let own = self.owners.get(owner).unwrap_or(&none);
            let Some(limit) = self.limits.reached(own, &self.all, runs, bytes) else {
                return Ok(());
            };
            let first = own.ended().next();
            let first = if limit.is_of_owner() { first } else { first.or(self.all.ended().next()) }
                .cloned();
            let Some(run) = first else { return Err(StoreError::Full { limit }) };
            self.remove(&run);
        }
    }

    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn sweep(&mut self, now: Timestamp) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now.plus(SWEEP_INTERVAL);
        let expired: Vec<_> = self
            .runs
            .values()
            .filter(|entry| entry.is_expired(now, &self.limits))
            .map(|entry| entry.record.id.clone())
            .collect();
        for run in expired {
            self.remove(&run);
        }
    }

    fn remove(&mut self, run: &RunId) {
        let Some(entry) = self.runs.remove(run) else { return };
        let (number, end_number, bytes) = (entry.number, entry.end_number, entry.bytes);
        self.all.remove(number, end_number, bytes);
        if let Some(usage) = self.owners.get_mut(&entry.record.owner) {
            usage.remove(number, end_number, bytes);
            if usage.runs() == 0 {
                self.owners.remove(&entry.record.owner);
            }
        }
    }
}
