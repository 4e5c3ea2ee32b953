//! Timeouts and failure handling (`operational`).

use std::collections::BTreeMap;

use crate::{
    config_value::{Constraint, Rule, keyword_enum, section_with_default},
    context::Context,
    duration::Duration,
    tree::Node,
};

const HEALTH_CHECK_INTERVAL: Duration = Duration::from_secs(30);
const HEALTH_CHECK_TIMEOUT: Duration = Duration::from_secs(10);

section_with_default! {
    /// Timeouts, failure handling and logging.
    pub struct Operational {
        /// `debug` for more detail. Absent means the info level.
        pub log_level: Option<LogLevel>;
        /// Timeouts for backends.
        pub timeouts: Timeouts = Timeouts::default();
        /// Handling of backend failures.
        pub failure_handling: FailureHandling = FailureHandling::default();
    }
}

section_with_default! {
    /// Timeouts for a backend's next response. A timeout is paused while a server request is with the client.
    pub struct Timeouts {
        /// Timeout for a backend without an entry in `perWorkload`.
        pub default: Duration = Duration::from_secs(30), [Constraint::Positive];
        /// Timeout by backend name.
        pub per_workload: BTreeMap<String, Duration> = BTreeMap::new(), [Constraint::Positive];
    }
}

section_with_default! {
    /// Criteria for unhealthy backends, and the handling of requests to them.
    pub struct FailureHandling {
        /// Time between two health checks of a backend.
        pub health_check_interval: Duration = HEALTH_CHECK_INTERVAL, [Constraint::Positive];
        /// Timeout of a health check. Shorter than `healthCheckInterval`.
        pub health_check_timeout: Duration = HEALTH_CHECK_TIMEOUT, [Constraint::Positive];
        /// Failed checks in a row that make a backend unhealthy.
        pub unhealthy_threshold: u32 = 3, [Constraint::Range(1, 0xffff_ffff)];
        /// `fail`: a list fails if a backend is unavailable. `best_effort`: a list contains what is available.
        pub partial_failure_mode: PartialFailureMode = PartialFailureMode::Fail;
        /// Time between two reports of backend health to Kubernetes.
        pub status_reporting_interval: Duration = Duration::from_secs(30), [Constraint::Positive];
        /// Circuit breaker of each backend.
        pub circuit_breaker: CircuitBreaker = CircuitBreaker::default();
    }
    rules [
        Rule::Custom(check_timeout_below_interval),
        Rule::Cel(
            "!has(self.healthCheckTimeout) || !has(self.healthCheckInterval) || \
             duration(self.healthCheckTimeout) < duration(self.healthCheckInterval)",
            "healthCheckTimeout must be shorter than healthCheckInterval",
        ),
    ]
}

section_with_default! {
    /// Circuit breaker, which rejects requests to a failing backend for a while.
    pub struct CircuitBreaker {
        /// Enables the circuit breaker.
        pub enabled: bool = false;
        /// Failures in a row that open the circuit.
        pub failure_threshold: u32 = 5, [Constraint::Range(1, 0xffff_ffff)];
        /// Time that the circuit stays open before one request may probe the backend. At least 1s.
        pub timeout: Duration = Duration::from_secs(60), [Constraint::AtLeast(Duration::from_secs(1))];
    }
}

keyword_enum! {
    /// Log level.
    pub enum LogLevel {
        /// Every decision.
        Debug = "debug",
    }
}

keyword_enum! {
    /// Handling of lists while a backend is unavailable.
    pub enum PartialFailureMode {
        /// The list request fails with an error that names the backend and permits a retry.
        Fail = "fail",
        /// The list holds the items of the available backends.
        BestEffort = "best_effort",
    }
}

// === impl Timeouts ===

impl Timeouts {
    /// Returns the timeout for `backend`.
    #[must_use]
    pub fn for_backend(&self, backend: &str) -> Duration {
        self.per_workload.get(backend).copied().unwrap_or(self.default)
    }
}

/// Checks that the timeout of a health check is shorter than the interval.
fn check_timeout_below_interval(node: &Node, cx: &mut Context) {
    let duration = |key, default: Duration| match node.get(key) {
        None => Some(default),
        Some(value) => value.text()?.parse().ok(),
    };
    let Some(interval) = duration("healthCheckInterval", HEALTH_CHECK_INTERVAL) else { return };
    let Some(timeout) = duration("healthCheckTimeout", HEALTH_CHECK_TIMEOUT) else { return };
    if timeout < interval || interval.is_zero() || timeout.is_zero() {
        return;
    }
    let default = if node.get("healthCheckTimeout").is_none() { " (the default)" } else { "" };
    cx.reject_key(
        node,
        "healthCheckTimeout",
        format!("{timeout}{default}"),
        format!("less than healthCheckInterval, which is {interval}"),
    );
}
