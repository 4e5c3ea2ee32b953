//! Wall clock that is passed to layers, so that tests control it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Wall clock for the expiry of tokens and credentials. A clone is the same clock.
///
/// Timeouts use tokio's clock, which tests pause. This clock is for points in time that other parties define, such as the
/// `exp` claim of a token (RFC 7519 section 4.1.4).
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<ManualClock>>);

/// Time of a manual clock, in milliseconds since 1970.
struct ManualClock {
    start: u64,
    now: AtomicU64,
}

impl Clock {
    /// Returns the clock of the system.
    #[must_use]
    pub fn system() -> Self {
        Self(None)
    }

    /// Creates a clock that stays at `start` until [`advance`](Self::advance) is called. Its precision is a millisecond.
    #[must_use]
    pub fn manual(start: SystemTime) -> Self {
        let since = start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let start = millis(since);
        Self(Some(Arc::new(ManualClock { start, now: AtomicU64::new(start) })))
    }

    /// Returns the time.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        match &self.0 {
            None => SystemTime::now(),
            Some(manual) => {
                SystemTime::UNIX_EPOCH + Duration::from_millis(manual.now.load(Ordering::Relaxed))
            }
        }
    }

    /// Returns the time by which a manual clock was advanced, zero for the clock of the system. A store that has a clock of its
    /// own, such as Redis, adds it, so that tests advance that clock too.
    #[must_use]
    pub fn advanced(&self) -> Duration {
        let advanced = |manual: &ManualClock| manual.now.load(Ordering::Relaxed) - manual.start;
        Duration::from_millis(self.0.as_deref().map_or(0, advanced))
    }

    /// Returns the seconds since 1970, as tokens count them.
    #[must_use]
    pub fn unix(&self) -> u64 {
        self.now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    /// Advances a manual clock. Does nothing to the clock of the system.
    pub fn advance(&self, by: Duration) {
        if let Some(manual) = &self.0 {
            manual.now.fetch_add(millis(by), Ordering::Relaxed);
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Clock(manual)" } else { "Clock(system)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_advances_for_all_clones() {
        let clock = Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(100));
        clock.clone().advance(Duration::from_secs(5));
        assert_eq!(clock.unix(), 105);
        assert_eq!(clock.advanced(), Duration::from_secs(5));
        assert_eq!(Clock::system().advanced(), Duration::ZERO);
    }
}
