//! Settings of the backends' health checks.

use std::num::NonZeroU32;
use std::time::Duration;

use vmcp_core::Backend;

/// Health checks of the backends (seed section 2.9.5, `operational.failureHandling`).
///
/// A check uses existing connections: `ping` in the open session of a stateful backend, `server/discover` for a stateless one.
/// Its requests pass through the [`BackendService`](super::BackendService), so the circuit breaker counts them, and are sent as
/// the gateway itself ([`vmcp_core::Caller::Gateway`]).
#[derive(Clone, Copy, Debug)]
pub struct Checks {
    interval: Duration,
    timeout: Duration,
    unhealthy_threshold: NonZeroU32,
    first_offset: CheckOffset,
}

/// Offset of a backend's first check, as a fraction of the interval: 0 is its beginning, `u32::MAX` its end.
pub type CheckOffset = fn(&Backend) -> u32;

impl Checks {
    /// Checks each backend every `interval` with `timeout`, which is capped at the interval. A check that takes more than half
    /// of the timeout counts as slow. `unhealthy_threshold` consecutive failures make a backend unavailable.
    ///
    /// Checks of different backends begin at random points of the first interval.
    #[must_use]
    pub fn new(interval: Duration, timeout: Duration, unhealthy_threshold: NonZeroU32) -> Self {
        // Without randomness, all checks begin at once, which is only less smooth.
        let first_offset: CheckOffset = |_| getrandom::u32().unwrap_or(0);
        Self { interval, timeout: timeout.min(interval), unhealthy_threshold, first_offset }
    }

    /// Replaces the offset of first checks, which is random, for tests.
    #[must_use]
    pub fn first_offset(mut self, first_offset: CheckOffset) -> Self {
        self.first_offset = first_offset;
        self
    }

    /// Returns the time until the first check of `backend`.
    pub(crate) fn first(&self, backend: &Backend) -> Duration {
        self.interval.mul_f64(f64::from((self.first_offset)(backend)) / f64::from(u32::MAX))
    }

    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn unhealthy_threshold(&self) -> NonZeroU32 {
        self.unhealthy_threshold
    }

    /// Returns the duration above which a check counts as slow.
    pub(crate) fn slow(&self) -> Duration {
        self.timeout / 2
    }

    /// Returns `true` if both have the same settings.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let Self { interval, timeout, unhealthy_threshold, first_offset: _ } = other;
        (self.interval, self.timeout, self.unhealthy_threshold)
            == (*interval, *timeout, *unhealthy_threshold)
    }
}
