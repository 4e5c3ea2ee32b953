//! Limits of a store in number, size and time.

use std::time::Duration;

/// Limits of a store.
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
