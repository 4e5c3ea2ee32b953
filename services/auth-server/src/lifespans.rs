//! Lifespans of tokens and codes.

use std::time::Duration;

/// Lifespans of tokens and codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifespans {
    access: Duration,
    refresh: Duration,
    code: Duration,
}

/// Error of a lifespan that is too short or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LifespanError {
    /// The lifespan of access tokens is out of range.
    #[error("access token lifespan must be 1 minute to 24 hours")]
    Access,
    /// The lifespan of refresh tokens is out of range.
    #[error("refresh token lifespan must be 1 hour to 30 days")]
    Refresh,
    /// The lifespan of authorization codes is out of range.
    #[error("authorization code lifespan must be 30 seconds to 10 minutes")]
    Code,
}

/// Lifespan of a grant, regardless of refreshes: the user must then log in again.
const GRANT_LIFESPAN: Duration = Duration::from_hours(2160);

/// Maximum lifespan of an access token.
pub(crate) const MAX_ACCESS_LIFESPAN: Duration = Duration::from_hours(24);

impl Lifespans {
    /// Creates lifespans of access tokens, unused refresh tokens and codes.
    ///
    /// # Errors
    /// Returns the lifespan that is out of range.
    pub fn new(access: Duration, refresh: Duration, code: Duration) -> Result<Self, LifespanError> {
        let within = |value: Duration, least: u64, most: u64| {
            (Duration::from_secs(least)..=Duration::from_secs(most)).contains(&value)
        };
        if !within(access, 60, MAX_ACCESS_LIFESPAN.as_secs()) {
            return Err(LifespanError::Access);
        }
        if !within(refresh, 3600, 30 * 24 * 3600) {
            return Err(LifespanError::Refresh);
        }
        if !within(code, 30, 600) {
            return Err(LifespanError::Code);
        }
        Ok(Self { access, refresh, code })
    }

    /// Returns the lifespan of access tokens.
    #[must_use]
    pub fn access(&self) -> Duration {
        self.access
    }

    /// Returns the lifespan of an unused refresh token.
    #[must_use]
    pub fn refresh(&self) -> Duration {
        self.refresh
    }

    /// Returns the lifespan of codes.
    #[must_use]
    pub fn code(&self) -> Duration {
        self.code
    }

    /// Returns the lifespan of a grant, regardless of refreshes: 90 days.
    #[must_use]
    pub fn grant(&self) -> Duration {
        GRANT_LIFESPAN
    }
}

impl Default for Lifespans {
    /// Returns an hour, a week and ten minutes.
    fn default() -> Self {
        let hour = Duration::from_hours(1);
        Self { access: hour, refresh: 168 * hour, code: Duration::from_mins(10) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lifespan_that_is_out_of_range() {
        let minutes = |count: u64| Duration::from_secs(count * 60);
        let day = minutes(24 * 60);
        for (access, refresh, code, error) in [
            (minutes(1), minutes(60), minutes(10), None),
            (day, day * 30, Duration::from_secs(30), None),
            (Duration::from_secs(59), day, minutes(1), Some(LifespanError::Access)),
            (day * 2, day, minutes(1), Some(LifespanError::Access)),
            (minutes(1), minutes(59), minutes(1), Some(LifespanError::Refresh)),
            (minutes(1), day * 31, minutes(1), Some(LifespanError::Refresh)),
            (minutes(1), day, minutes(11), Some(LifespanError::Code)),
            (minutes(1), day, Duration::from_secs(29), Some(LifespanError::Code)),
        ] {
            assert_eq!(Lifespans::new(access, refresh, code).err(), error);
        }
    }
}
