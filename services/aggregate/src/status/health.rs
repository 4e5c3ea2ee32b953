//! How a backend is, of what was seen of it.

use std::time::SystemTime;

use vmcp_breaker::health::Health;

use super::BackendReport;
use crate::settings::Sharing;

/// What checks have seen of a backend ([`Settings::checks`](crate::settings::Settings::checks)).
#[derive(Clone, Debug)]
pub struct Checked {
    /// Its health by checks alone. [`BackendReport::health`] is what to show.
    pub health: Health,
    /// Checks in a row that failed.
    pub consecutive_failures: u32,
    /// Since when the health is what it is.
    pub since: SystemTime,
    /// When it was looked at last.
    pub last_check: Option<SystemTime>,
    /// When it is looked at next.
    pub next_check: Option<SystemTime>,
    /// What was wrong the last time that something was. It stays when the backend has recovered.
    pub last_error: Option<CheckError>,
    /// How often its health has changed.
    pub changes: u64,
}

/// What a check found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckError {
    /// In a word: `timeout`, `unreachable`, `http_error`, `unauthorized`, `rate_limited`, `protocol` or `slow`.
    pub kind: &'static str,
    /// In words that name no address and no credential, about "it".
    pub message: String,
    /// When.
    pub at: SystemTime,
}

impl BackendReport {
    /// How it is: what checks say, and where they have nothing against it, what came of fetching what it
    /// offers.
    #[must_use]
    pub fn health(&self) -> Health {
        let checked = self.checked.as_ref().map(|checked| checked.health);
        match checked {
            Some(bad @ (Health::Unavailable | Health::Unauthenticated)) => return bad,
            // Its offer may be there, but is not part of the catalog yet.
            _ if self.pending => return Health::Unknown,
            _ => {}
        }
        match (self.offered, &self.failure) {
            _ if self.unauthenticated => Health::Unauthenticated,
            (true, None) if checked == Some(Health::Degraded) => Health::Degraded,
            (true, None) => Health::Ready,
            (true, Some(_)) => Health::Degraded,
            (false, None) => Health::Unknown,
            (false, Some(_)) => match checked {
                None => Health::Unavailable,
                Some(Health::Unknown) => Health::Unknown,
                // It answers, but not what it offers.
                Some(_) => Health::Degraded,
            },
        }
    }

    /// Whether nothing is wrong: one that asks for its callers' credentials is as it should be.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        match self.health() {
            Health::Ready => true,
            Health::Unauthenticated => self.catalog == Sharing::PerCaller,
            Health::Degraded | Health::Unavailable | Health::Unknown => false,
        }
    }

    /// Why it is not ready, if something is known to be wrong.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        let seen = || {
            let checked = self.checked.as_ref()?;
            let wrong = checked.health == Health::Degraded || checked.consecutive_failures > 0;
            checked.last_error.as_ref().filter(|_| wrong).map(|error| error.message.as_str())
        };
        self.failure.as_deref().or_else(seen)
    }
}
