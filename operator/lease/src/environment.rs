//! Time and randomness, which tests provide.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// Source of the time of day and of random bytes.
#[derive(Clone)]
pub struct Environment {
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    random: Arc<Randomness>,
}

/// Function that fills bytes with random ones.
type Randomness = dyn Fn(&mut [u8]) + Send + Sync;

// === impl Environment ===

impl Environment {
    /// Returns the clock and the randomness of the system.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub fn system() -> Result<Self, getrandom::Error> {
        getrandom::fill(&mut [0; 1])?;
        let random = |bytes: &mut [u8]| {
            // No guess replaces randomness. The call above showed that the system has some.
            while getrandom::fill(bytes).is_err() {}
        };
        Ok(Self::new(Timestamp::now, random))
    }

    /// Returns an environment of a test.
    pub fn new(
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
        random: impl Fn(&mut [u8]) + Send + Sync + 'static,
    ) -> Self {
        Self { now: Arc::new(now), random: Arc::new(random) }
    }

    /// Returns the time of day.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// Returns random bytes, suitable for keys.
    #[must_use]
    pub fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.random)(&mut bytes);
        bytes
    }

    /// Returns a duration between `base` and 1.25 times of it, so that timers of several objects do not fall together.
    #[must_use]
    pub fn jitter(&self, base: Duration) -> Duration {
        let share = f64::from(u16::from_le_bytes(self.random())) / f64::from(u16::MAX);
        base + base.mul_f64(share / 4.0)
    }

    /// Returns the delay before attempt `failures + 1`: doubled with each failure, up to `longest`, with jitter.
    #[must_use]
    pub fn backoff(&self, first: Duration, longest: Duration, failures: u32) -> Duration {
        let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
        self.jitter(first.saturating_mul(factor).min(longest))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_longest() {
        let environment = Environment::new(Timestamp::now, |bytes| bytes.fill(0));
        let delay = |failures| {
            environment.backoff(Duration::from_secs(1), Duration::from_mins(5), failures).as_secs()
        };
        assert_eq!([1, 2, 3, 9, 40, u32::MAX].map(delay), [1, 2, 4, 256, 300, 300]);
    }

    #[test]
    fn jitter_adds_quarter_at_most() {
        let environment = Environment::new(Timestamp::now, |bytes| bytes.fill(255));
        assert_eq!(environment.jitter(Duration::from_secs(4)), Duration::from_secs(5));
    }
}
