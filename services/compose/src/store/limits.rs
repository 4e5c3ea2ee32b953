//! Limits of a store in number, size and time.

use std::time::Duration;

use super::usage::Usage;

/// Limits of a store. The runs of one owner that have not ended are at most half of what the others leave, in number and in
/// size, so that no few owners use up a store.
///
/// # Defaults
///
/// - `max_runs`: 10,000
/// - `max_runs_per_owner`: 1,000
/// - `max_bytes`: 256 MiB
/// - `max_bytes_per_owner`: 64 MiB
/// - `lease`: 15 seconds
/// - `lifetime`: 1 hour
/// - `ended_lifetime`: 1 hour
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Maximum number of runs, ended ones included. Ended ones are evicted for new ones.
    pub max_runs: usize,
    /// Maximum number of runs of one owner.
    pub max_runs_per_owner: usize,
    /// Maximum estimated size of all runs, in bytes.
    pub max_bytes: usize,
    /// Maximum estimated size of the runs of one owner, in bytes.
    pub max_bytes_per_owner: usize,
    /// Time after which a lease is over unless it is renewed.
    pub lease: Duration,
    /// Time that a run without a lease is kept after its last write, while it can continue.
    pub lifetime: Duration,
    /// Time that a run is kept after its end.
    pub ended_lifetime: Duration,
}

/// Limit that a store has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReachedLimit {
    /// Number of one owner's runs.
    #[error("runs of this caller")]
    OwnerRuns,
    /// Size of one owner's runs.
    #[error("memory of this caller")]
    OwnerBytes,
    /// Number of all runs, or half of what the others leave.
    #[error("runs of all callers")]
    Runs,
    /// Size of all runs, or half of what the others leave.
    #[error("memory of all callers")]
    Bytes,
}

// === impl StoreLimits ===

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            max_runs: 10_000,
            max_runs_per_owner: 1_000,
            max_bytes: 256 * 1024 * 1024,
            max_bytes_per_owner: 64 * 1024 * 1024,
            lease: Duration::from_secs(15),
            lifetime: Duration::from_hours(1),
            ended_lifetime: Duration::from_hours(1),
        }
    }
}

impl StoreLimits {
    /// Returns the maximum estimated size of one run, in bytes.
    #[must_use]
    pub fn max_bytes_per_run(&self) -> usize {
        self.max_bytes_per_owner.min(self.max_bytes / 2)
    }

    /// Returns the limit that an owner's runs exceed with `runs` and `bytes` more. The eviction of ended runs helps.
    pub(super) fn reached(
        &self,
        own: &Usage,
        all: &Usage,
        runs: usize,
        bytes: usize,
    ) -> Option<ReachedLimit> {
        if own.runs() + runs > self.max_runs_per_owner {
            Some(ReachedLimit::OwnerRuns)
        } else if own.bytes() + bytes > self.max_bytes_per_owner {
            Some(ReachedLimit::OwnerBytes)
        } else if all.runs() + runs > self.max_runs {
            Some(ReachedLimit::Runs)
        } else if all.bytes() + bytes > self.max_bytes {
            Some(ReachedLimit::Bytes)
        } else {
            None
        }
    }

    /// Returns the limit that an owner's runs exceed with `runs` and `bytes` more even after the eviction of all ended runs.
    /// An owner whose share became smaller keeps what it has.
    pub(super) fn reached_by_active(
        &self,
        own: &Usage,
        all: &Usage,
        runs: usize,
        bytes: usize,
    ) -> Option<ReachedLimit> {
        let (own_runs, own_bytes) = (own.active_runs() + runs, own.active_bytes() + bytes);
        let share = |limit: usize, all: usize, own: usize| limit.saturating_sub(all - own) / 2;
        if own_runs > self.max_runs_per_owner {
            Some(ReachedLimit::OwnerRuns)
        } else if own_bytes > self.max_bytes_per_owner {
            Some(ReachedLimit::OwnerBytes)
        } else if runs > 0 && own_runs > share(self.max_runs, all.active_runs(), own.active_runs())
        {
            Some(ReachedLimit::Runs)
        } else if bytes > 0
            && own_bytes > share(self.max_bytes, all.active_bytes(), own.active_bytes())
        {
            Some(ReachedLimit::Bytes)
        } else {
            None
        }
    }
}

// === impl ReachedLimit ===

impl ReachedLimit {
    pub(super) fn is_of_owner(self) -> bool {
        matches!(self, Self::OwnerRuns | Self::OwnerBytes)
    }

    /// Returns what the caller can do.
    pub(super) fn remedy(self) -> &'static str {
        if self.is_of_owner() { "answer or cancel open questions" } else { "retry later" }
    }
}
