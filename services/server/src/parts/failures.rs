//! `operational.failureHandling`: health checks, circuit breakers and lists without all backends.

use std::num::NonZeroU32;

use vmcp_aggregate::settings::{Checks, PartialFailure};
use vmcp_breaker::CircuitSettings;
use vmcp_config::{CircuitBreaker, FailureHandling, PartialFailureMode};

/// Settings of `operational.failureHandling`.
pub(super) struct Failures {
    pub(super) partial_failure: PartialFailure,
    pub(super) checks: Checks,
    /// Circuit breaker of each backend; `None` disables it.
    pub(super) circuit: Option<CircuitSettings>,
}

impl Failures {
    /// Converts the section.
    pub(super) fn new(failures: &FailureHandling) -> Self {
        let FailureHandling {
            health_check_interval,
            health_check_timeout,
            unhealthy_threshold,
            partial_failure_mode,
            // Applies only under the operator; rejected as unsupported elsewhere.
            status_reporting_interval: _,
            circuit_breaker: CircuitBreaker { enabled, failure_threshold, timeout },
        } = failures;
        let partial_failure = match partial_failure_mode {
            PartialFailureMode::Fail => PartialFailure::Fail,
            PartialFailureMode::BestEffort => PartialFailure::BestEffort,
        };
        // The configuration guarantees a positive threshold, and a timeout below the interval.
        let threshold = NonZeroU32::new(*unhealthy_threshold).unwrap_or(NonZeroU32::MIN);
        let (interval, timeout_of) =
            ((*health_check_interval).into(), (*health_check_timeout).into());
        let checks = Checks::new(interval, timeout_of, threshold);
        let circuit = CircuitSettings::new(*failure_threshold, (*timeout).into()).ok();
        Self { partial_failure, checks, circuit: circuit.filter(|_| *enabled) }
    }
}
