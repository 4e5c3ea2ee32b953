//! Freshness of a key set.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use vmcp_core::freshness_lifetime;

/// Minimum freshness lifetime, overriding the headers.
const MIN_FRESHNESS: Duration = Duration::from_mins(1);

/// Maximum freshness lifetime, overriding the headers. Bounds how long a revoked key remains trusted.
const MAX_FRESHNESS: Duration = Duration::from_hours(1);

/// Freshness lifetime of responses without one.
const DEFAULT_FRESHNESS: Duration = Duration::from_mins(10);

/// Maximum use of a key set while the issuer is unavailable.
const MAX_STALENESS: Duration = Duration::from_hours(24);

/// Freshness of a key set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetime {
    /// Start of the background refresh.
    refresh_at: SystemTime,
    /// End of freshness: the set is used only if no other one is available.
    fresh_until: SystemTime,
    /// End of use.
    stale_until: SystemTime,
}

/// Phase in the lifetime of a key set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The set is used.
    Fresh,
    /// The set is used while the next one is fetched.
    RefreshDue,
    /// The set is used if the next one is unavailable.
    Stale,
    /// The set is not used.
    Expired,
}

impl Lifetime {
    /// Creates the lifetime of a response with these headers at `now` (RFC 9111 section 4.2).
    pub(crate) fn new(headers: &HeaderMap, now: SystemTime) -> Self {
        let fresh = freshness_lifetime(headers)
            .unwrap_or(DEFAULT_FRESHNESS)
            .clamp(MIN_FRESHNESS, MAX_FRESHNESS);
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
