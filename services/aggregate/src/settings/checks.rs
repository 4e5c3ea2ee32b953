//! How often backends are asked whether they are there, and what counts as bad news.

use std::num::NonZeroU32;
use std::time::Duration;

use vmcp_core::Backend;

/// How the health of the backends is watched (seed section 2.9.5, `operational.failureHandling`).
///
/// A backend is asked over what is open to it anyway: a `ping` in the standing session of a stateful one,
/// `server/discover` of a stateless one. Requests go through its [`BackendService`](super::BackendService), so its
/// breaker counts them, and in the gateway's own name ([`vmcp_core::Caller::Gateway`]).
#[derive(Clone, Copy, Debug)]
pub struct Checks {
    interval: Duration,
    timeout: Duration,
    unhealthy_threshold: NonZeroU32,
    spread: Spread,
}

/// Where in its first interval a backend's checks begin: of all that a `u32` can be, 0 is the interval's beginning.
pub type Spread = fn(&Backend) -> u32;

impl Checks {
    /// A check of each backend every `interval`, given up after `timeout`; one that takes more than half of that is
    /// slow. A timeout that is longer than the interval is cut to it. `unhealthy_threshold` failures in a row make a
    /// backend unavailable.
    ///
    /// Checks of different backends begin at random points of the first interval.
    #[must_use]
    pub fn new(interval: Duration, timeout: Duration, unhealthy_threshold: NonZeroU32) -> Self {
        // Without randomness all begin at once: a burst, but no fault.
        let spread: Spread = |_| getrandom::u32().unwrap_or_default();
        Self { interval, timeout: timeout.min(interval), unhealthy_threshold, spread }
    }

    /// Another way to spread them, for tests.
    #[must_use]
    pub fn spread(mut self, spread: Spread) -> Self {
        self.spread = spread;
        self
    }

    /// How long after the start the first check of `backend` is.
    pub(crate) fn first(&self, backend: &Backend) -> Duration {
        self.interval.mul_f64(f64::from((self.spread)(backend)) / f64::from(u32::MAX))
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

    /// What takes longer is slow.
    pub(crate) fn slow(&self) -> Duration {
        self.timeout / 2
    }

    /// Whether `other` asks for the same.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let Self { interval, timeout, unhealthy_threshold, spread: _ } = other;
        (self.interval, self.timeout, self.unhealthy_threshold)
            == (*interval, *timeout, *unhealthy_threshold)
    }
}
