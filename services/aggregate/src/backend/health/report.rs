//! Results of health checks, for reports.

use std::time::SystemTime;

use vmcp_breaker::health::Health;

/// Results of a backend's health checks ([`Settings::checks`](crate::settings::Settings::checks)).
#[derive(Clone, Debug)]
pub struct HealthReport {
    /// Health according to the checks alone. Display [`BackendReport::health`](crate::status::BackendReport::health) instead.
    pub health: Health,
    /// Number of consecutive failed checks.
    pub consecutive_failures: u32,
    /// Time of the last health transition.
    pub since: SystemTime,
    /// Time of the last check.
    pub last_check: Option<SystemTime>,
    /// Time of the next check.
    pub next_check: Option<SystemTime>,
    /// Last error. It is kept after the backend has recovered.
    pub last_error: Option<CheckError>,
    /// Number of health transitions.
    pub changes: u64,
}

/// Error found by a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckError {
    /// Error kind: `timeout`, `unreachable`, `http_error`, `unauthorized`, `rate_limited`, `protocol` or `slow`.
    pub kind: &'static str,
    /// Description without addresses or credentials, as a clause about the backend.
    pub message: String,
    /// Time of the error.
    pub at: SystemTime,
}
