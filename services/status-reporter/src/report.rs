//! Report of a gateway about its backends.

use std::time::{Duration, SystemTime};

use vmcp_api::virtual_mcp_server::{BackendStatus, CircuitBreakerState};

/// Source of the reports of one replica.
pub trait ReportSource: Send + 'static {
    /// Returns the interval between two reports. One of less than a second counts as a second.
    fn interval(&self) -> Duration;

    /// Returns the present state, or `None` while no state is known, such as before the first checks of the backends end.
    /// Called at least every two seconds while the replica reports.
    fn report(&mut self) -> Option<Report>;
}

/// State of all backends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The backends. Of equal names, the last one counts.
    pub backends: Vec<BackendReport>,
}

/// State of one backend.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendReport {
    /// Name of the backend.
    pub name: String,
    /// URL without credentials. Empty if it is not known.
    pub url: String,
    /// Health of the backend.
    pub status: BackendStatus,
    /// Reason of a health other than `ready`, if there is one.
    pub cause: Option<Cause>,
    /// Kind of credentials for the backend. Empty if it is not known.
    pub auth_type: String,
    /// Name of the MCPExternalAuthConfig with the credentials. Empty without one.
    pub auth_config: String,
    /// Time of the last health check.
    pub last_check: Option<SystemTime>,
    /// Number of failed checks since the last success.
    pub consecutive_failures: u32,
    /// Circuit breaker, if the backend has one.
    pub circuit: Option<Circuit>,
}

/// State of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Circuit {
    /// The state.
    pub state: CircuitBreakerState,
    /// Time of the last change of the state.
    pub last_changed: Option<SystemTime>,
}

/// Reason of a backend's health. Texts of errors are not part of it: a status has more readers than a log.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// The backend rejects the credentials.
    Authentication,
    /// The backend requires the credentials of a user, which a check does not have. Nothing is wrong.
    UserCredentials,
    /// A check had no response in time.
    Timeout,
    /// No connection to the backend.
    Connection,
    /// The backend limits the rate of requests.
    RateLimit,
    /// The backend responds slowly.
    Slow,
    /// A check failed otherwise.
    Check,
    /// Checks succeed, but the backend does not list its tools.
    Lists,
    /// The backend is configured, but the server leaves it out.
    LeftOut {
        /// Reason in one word.
        reason: String,
        /// Missing or unusable setting, without its value.
        message: String,
    },
}

impl<F> ReportSource for (Duration, F)
where
    F: FnMut() -> Option<Report> + Send + 'static,
{
    fn interval(&self) -> Duration {
        self.0
    }

    fn report(&mut self) -> Option<Report> {
        (self.1)()
    }
}
