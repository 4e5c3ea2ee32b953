//! Message about the health of a backend.

use vmcp_api::virtual_mcp_server::{BackendStatus, CircuitBreakerState};

use crate::report::{BackendReport, Cause};

/// Longest message, in characters.
const MAX_MESSAGE: usize = 1024;

/// Beginning of the number of failures, which ends a message.
const COUNT: &str = " (failed checks: ";

/// Returns the message about a backend.
pub(crate) fn message(backend: &BackendReport) -> String {
    let health = match &backend.cause {
        Some(Cause::LeftOut { reason, message }) => format!("{reason}: {message}"),
        Some(cause) => of_cause(cause).to_owned(),
        None => of_status(backend.status).to_owned(),
    };
    let health: String = health.chars().take(MAX_MESSAGE).collect();
    let health = match backend.circuit.map(|circuit| circuit.state) {
        Some(CircuitBreakerState::Open) => format!("Circuit breaker OPEN - {health}"),
        Some(CircuitBreakerState::HalfOpen) => {
            format!("Circuit breaker testing recovery - {health}")
        }
        Some(CircuitBreakerState::Closed) | None => health,
    };
    match backend.consecutive_failures {
        0 => health,
        failures => format!("{health}{COUNT}{failures})"),
    }
}

/// Returns a message without its number of failures.
pub(crate) fn without_count(message: &str) -> &str {
    message.rsplit_once(COUNT).map_or(message, |(health, _)| health)
}

fn of_cause(cause: &Cause) -> &'static str {
    match cause {
        Cause::Authentication => "Authentication failed",
        Cause::UserCredentials => "Requires the credentials of a user",
        Cause::Timeout => "Health check timed out",
        Cause::Connection => "Connection failed",
        Cause::RateLimit => "Rate limited",
        Cause::Slow => "Slow response",
        Cause::Lists => "Failed to list tools",
        Cause::Check | Cause::LeftOut { .. } => "Health check failed",
    }
}

fn of_status(status: BackendStatus) -> &'static str {
    match status {
        BackendStatus::Ready => "Healthy",
        BackendStatus::Degraded => "Degraded",
        BackendStatus::Unavailable => "Backend unavailable",
        BackendStatus::Unauthenticated => "Authentication failed",
        BackendStatus::Unknown => "Not checked yet",
    }
}
