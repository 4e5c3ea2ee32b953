//! `operational`.

use vmcp_config::{LogLevel, PartialFailureMode};

use crate::support::{assert_error, file};

#[test]
fn defaults_match_reference() {
    let operational = file("").operational;
    assert_eq!(operational.log_level, None);
    assert_eq!(operational.timeouts.default.to_string(), "30s");
    let failure = operational.failure_handling;
    assert_eq!(failure.health_check_interval.to_string(), "30s");
    assert_eq!(failure.health_check_timeout.to_string(), "10s");
    assert_eq!(failure.unhealthy_threshold, 3);
    assert_eq!(failure.partial_failure_mode, PartialFailureMode::Fail);
    assert_eq!(failure.status_reporting_interval.to_string(), "30s");
    assert!(!failure.circuit_breaker.enabled);
    assert_eq!(failure.circuit_breaker.failure_threshold, 5);
    assert_eq!(failure.circuit_breaker.timeout.to_string(), "1m0s");
}

#[test]
fn log_level_is_debug_or_absent() {
    assert_eq!(
        file("operational: {logLevel: debug}\n").operational.log_level,
        Some(LogLevel::Debug)
    );
    assert_error("operational: {logLevel: info}\n", "operational.logLevel", "allowed: debug");
}

#[test]
fn workload_has_own_or_default_timeout() {
    let timeouts =
        file("operational: {timeouts: {default: 5s, perWorkload: {a: 1m}}}\n").operational.timeouts;
    assert_eq!(timeouts.for_backend("a").to_string(), "1m0s");
    assert_eq!(timeouts.for_backend("b").to_string(), "5s");
}

#[test]
fn no_timeout_and_no_interval_is_zero() {
    for (text, path) in [
        ("timeouts: {default: 0s}", "timeouts.default"),
        ("timeouts: {perWorkload: {a: 0s}}", "timeouts.perWorkload.a"),
        ("failureHandling: {healthCheckInterval: 0s}", "failureHandling.healthCheckInterval"),
        ("failureHandling: {healthCheckTimeout: 0s}", "failureHandling.healthCheckTimeout"),
        (
            "failureHandling: {statusReportingInterval: 0s}",
            "failureHandling.statusReportingInterval",
        ),
    ] {
        assert_error(
            &format!("operational: {{{text}}}\n"),
            &format!("operational.{path}"),
            "more than 0s",
        );
    }
}

#[test]
fn durations_have_units() {
    for bad in ["30", "'30'", "1d", "-1s", "''", "[1s]"] {
        assert_error(
            &format!("operational: {{timeouts: {{default: {bad}}}}}\n"),
            "operational.timeouts.default",
            "a number with a unit, such as",
        );
    }
    assert_error(
        "operational: {timeouts: {default: 9999999h}}\n",
        "operational.timeouts.default",
        "longer than",
    );
}

#[test]
fn health_check_timeout_is_below_interval() {
    let path = "operational.failureHandling.healthCheckTimeout";
    assert_error(
        "operational: {failureHandling: {healthCheckTimeout: 30s}}\n",
        path,
        "less than healthCheckInterval, which is 30s",
    );
    assert_error(
        "operational: {failureHandling: {healthCheckInterval: 5s}}\n",
        path,
        "found 10s (the default)",
    );
    file("operational: {failureHandling: {healthCheckInterval: 5s, healthCheckTimeout: 4.9s}}\n");
}

#[test]
fn thresholds_are_at_least_one() {
    let path = "operational.failureHandling.unhealthyThreshold";
    for bad in ["0", "-1", "1.5", "'3'", "99999999999"] {
        assert_error(
            &format!("operational: {{failureHandling: {{unhealthyThreshold: {bad}}}}}\n"),
            path,
            "an integer",
        );
    }
    let breaker =
        |text| format!("operational: {{failureHandling: {{circuitBreaker: {{{text}}}}}}}\n");
    assert_error(
        &breaker("failureThreshold: 0"),
        "operational.failureHandling.circuitBreaker.failureThreshold",
        "an integer from 1",
    );
    assert_error(
        &breaker("timeout: 999ms"),
        "operational.failureHandling.circuitBreaker.timeout",
        "found \"999ms\"; allowed: a duration of at least 1s",
    );
    file(&breaker("timeout: 1s, failureThreshold: 1, enabled: true"));
}

#[test]
fn accepts_only_known_partial_failure_modes() {
    let text = "operational: {failureHandling: {partialFailureMode: best_effort}}\n";
    assert_eq!(
        file(text).operational.failure_handling.partial_failure_mode,
        PartialFailureMode::BestEffort
    );
    assert_error(
        "operational: {failureHandling: {partialFailureMode: bestEffort}}\n",
        "operational.failureHandling.partialFailureMode",
        "did you mean best_effort?",
    );
}
