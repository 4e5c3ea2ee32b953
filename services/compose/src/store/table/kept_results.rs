//! Results of ended runs, within the limits in bytes.

use super::{Table, Usage};
use crate::{RunId, RunOwner, RunResult};

impl Table {
    /// Drops results of ended runs, the oldest first, until a run that just ended leaves its owner and all owners within their
    /// bytes. A result that does not fit even without the other ones is dropped alone.
    pub(super) fn limit_results(&mut self, ended: &RunId) {
        let Some(entry) = self.runs.get(ended) else { return };
        let owner = entry.record.owner.clone();
        let max_bytes = self.limits.max_bytes_per_owner.min(self.limits.max_bytes);
        if self.owner_bytes(&owner) > max_bytes && self.has_result(ended) {
            let size = self.result_size(ended);
            let all: usize = self.kept_results(&owner).map(|run| self.result_size(run)).sum();
            if self.owner_bytes(&owner) - (all - size) > max_bytes {
                self.drop_result(ended);
            }
        }
        while self.owner_bytes(&owner) > max_bytes && self.drop_oldest_result(&owner) {}
        while self.all.bytes() > self.limits.max_bytes {
            let owners = self.owners.iter();
            let with_results =
                owners.filter(|(owner, _)| self.kept_results(owner).next().is_some());
            let largest = with_results.max_by_key(|(_, usage)| usage.bytes());
            let Some(largest) = largest.map(|(owner, _)| owner.clone()) else { return };
            self.drop_oldest_result(&largest);
        }
    }

    fn owner_bytes(&self, owner: &RunOwner) -> usize {
        self.owners.get(owner).map_or(0, Usage::bytes)
    }

    /// Returns the ended runs of an owner whose results are kept, the first one that ended first.
    fn kept_results(&self, owner: &RunOwner) -> impl Iterator<Item = &RunId> {
        let ended = self.owners.get(owner).into_iter().flat_map(Usage::ended);
        ended.filter(|run| self.has_result(run))
    }

    fn has_result(&self, run: &RunId) -> bool {
        let result = self.runs.get(run).and_then(|entry| entry.record.result.as_ref());
        matches!(result, Some(RunResult::Completed(_)))
    }

    fn result_size(&self, run: &RunId) -> usize {
        let result = self.runs.get(run).and_then(|entry| entry.record.result.as_ref());
        result.filter(|_| self.has_result(run)).map_or(0, RunResult::size)
    }

    /// Returns `false` if the owner has no result.
    fn drop_oldest_result(&mut self, owner: &RunOwner) -> bool {
        let oldest = self.kept_results(owner).next().cloned();
        oldest.inspect(|run| self.drop_result(run)).is_some()
    }

    fn drop_result(&mut self, run: &RunId) {
        let Some(entry) = self.runs.get_mut(run) else { return };
        entry.record.result = Some(RunResult::NotKept);
        let (before, after) = (entry.bytes, entry.record.size());
        entry.bytes = after;
        let own = self.owners.get_mut(&entry.record.owner);
        for usage in own.into_iter().chain([&mut self.all]) {
            usage.resize_ended(before, after);
        }
    }
}
