//! How long a fetched set is used.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use vmcp_core::freshness;

/// A set is not fetched again sooner than this, whatever its headers say.
const MIN_FRESHNESS: Duration = Duration::from_secs(60);

/// A set is fetched again after this, whatever its headers say: it bounds how long a key that the
/// issuer took back is still trusted.
const MAX_FRESHNESS: Duration = Duration::from_secs(3600);

/// For answers that don't say.
const DEFAULT_FRESHNESS: Duration = Duration::from_secs(600);

/// How long keys are used while the issuer cannot be asked.
const MAX_STALENESS: Duration = Duration::from_secs(24 * 3600);

/// Until when a set is what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetime {
    /// From then on the next one is fetched while this one is still used.
    refresh_at: SystemTime,
    /// From then on it is used only if the next one cannot be had.
    fresh_until: SystemTime,
    /// From then on it is not used.
    stale_until: SystemTime,
}

/// What may be done with a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Use it.
    Fresh,
    /// Use it, and fetch the next one meanwhile.
    RefreshDue,
    /// Use it if the next one cannot be had.
    Stale,
    /// Don't.
    Expired,
}

impl Lifetime {
    /// Of an answer with these headers that came at `now` (RFC 9111 section 4.2).
    pub(crate) fn new(headers: &HeaderMap, now: SystemTime) -> Self {
        let fresh =
            freshness(headers).unwrap_or(DEFAULT_FRESHNESS).clamp(MIN_FRESHNESS, MAX_FRESHNESS);
        Self {
            refresh_at: now + fresh * 4 / 5,
            fresh_until: now + fresh,
            stale_until: now + MAX_STALENESS,
        }
    }

    pub(crate) fn phase(&self, now: SystemTime) -> Phase {
        if now < self.refresh_at {
            Phase::Fresh
        } else if now < self.fresh_until {
            Phase::RefreshDue
        } else if now < self.stale_until {
            Phase::Stale
        } else {
            Phase::Expired
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(cache_control: &str) -> u64 {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::CACHE_CONTROL, cache_control.parse().unwrap());
        let lifetime = Lifetime::new(&headers, SystemTime::UNIX_EPOCH);
        lifetime.fresh_until.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
    }

    #[test]
    fn clamps_freshness_lifetime() {
        assert_eq!(fresh("public"), 600);
        assert_eq!(fresh("public, max-age=900"), 900);
        assert_eq!(fresh("max-age=1"), 60);
        assert_eq!(fresh("max-age=31536000"), 3600);
        assert_eq!(fresh("max-age=900, no-store"), 60);
    }

    #[test]
    fn phases_follow_lifetime() {
        let start = SystemTime::UNIX_EPOCH;
        let lifetime = Lifetime::new(&HeaderMap::new(), start);
        for (second, phase) in [
            (479, Phase::Fresh),
            (480, Phase::RefreshDue),
            (600, Phase::Stale),
            (86_399, Phase::Stale),
            (86_400, Phase::Expired),
        ] {
            assert_eq!(lifetime.phase(start + Duration::from_secs(second)), phase, "{second}");
        }
    }
}
