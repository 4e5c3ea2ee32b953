//! `operational.failureHandling`: health checks, circuit breakers and lists without all backends.

use std::num::NonZeroU32;
use std::time::Duration;

use vmcp_aggregate::settings::{Checks, PartialFailure};
use vmcp_breaker::CircuitSettings;
use vmcp_config::{CircuitBreaker, ConfigError, FailureHandling, PartialFailureMode};

const AT: &str = "operational.failureHandling";

/// Settings of `operational.failureHandling`.
pub(super) struct Failures {
    pub(super) partial_failure: PartialFailure,
    pub(super) checks: Checks,
    /// Circuit breaker of each backend; `None` disables it.
    pub(super) circuit: Option<CircuitSettings>,
    /// Interval between two reports to Kubernetes.
    pub(super) report_interval: Duration,
}

impl Failures {
    /// Converts the section. A parsed section has no errors; one that was built in code may have.
    pub(super) fn new(failures: &FailureHandling) -> Result<Self, ConfigError> {
        let FailureHandling {
            health_check_interval,
            health_check_timeout,
            unhealthy_threshold,
            partial_failure_mode,
            // Rejected as unsupported unless the server is a replica, which alone reports.
            status_reporting_interval,
            circuit_breaker: CircuitBreaker { enabled, failure_threshold, timeout },
        } = failures;
        let partial_failure = match partial_failure_mode {
            PartialFailureMode::Fail => PartialFailure::Fail,
            PartialFailureMode::BestEffort => PartialFailure::BestEffort,
        };
        let threshold = NonZeroU32::new(*unhealthy_threshold).ok_or_else(|| {
            ConfigError::new(format!("{AT}.unhealthyThreshold"), "0", "1 or more")
        })?;
        let (interval, timeout_of) =
            ((*health_check_interval).into(), (*health_check_timeout).into());
        let checks = Checks::new(interval, timeout_of, threshold);
        let circuit = enabled.then(|| CircuitSettings::new(*failure_threshold, (*timeout).into()));
        let circuit = circuit.transpose().map_err(|error| {
            let found = format!("failureThreshold: {failure_threshold}, timeout: {timeout}");
            ConfigError::new(format!("{AT}.circuitBreaker"), found, error.to_string())
        })?;
        let report_interval = (*status_reporting_interval).into();
        Ok(Self { partial_failure, checks, circuit, report_interval })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_unusable_values_built_in_code() {
        let zero = FailureHandling { unhealthy_threshold: 0, ..FailureHandling::default() };
        let error = Failures::new(&zero).err().unwrap().to_string();
        assert!(error.contains("failureHandling.unhealthyThreshold"), "{error}");
        let breaker =
            |enabled| CircuitBreaker { enabled, failure_threshold: 0, ..CircuitBreaker::default() };
        let of =
            |circuit_breaker| FailureHandling { circuit_breaker, ..FailureHandling::default() };
        let error = Failures::new(&of(breaker(true))).err().unwrap().to_string();
        assert!(error.contains("failureHandling.circuitBreaker"), "{error}");
        assert!(Failures::new(&of(breaker(false))).ok().unwrap().circuit.is_none());
    }
}
