//! How long to wait and what to do when a backend fails (`operational`).

use std::collections::BTreeMap;

use crate::{
    context::Context,
    duration::Duration,
    shape::{Limit, Rule, choice, section_with_default},
    tree::Node,
};

const INTERVAL: Duration = Duration::from_secs(30);
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

section_with_default! {
    /// Timeouts, failure handling and logging.
    pub struct Operational {
        /// `debug` for more detail. Absent means the info level.
        pub log_level: Option<LogLevel>;
        /// How long to wait for a backend.
        pub timeouts: Timeouts = Timeouts::default();
        /// What to do when a backend fails.
        pub failure_handling: FailureHandling = FailureHandling::default();
    }
}

section_with_default! {
    /// How long to wait for a backend's next answer. The wait stands still while a question is with the client.
    pub struct Timeouts {
        /// The wait for a backend without an entry in `perWorkload`.
        pub default: Duration = Duration::from_secs(30), [Limit::Positive];
        /// The wait by backend name.
        pub per_workload: BTreeMap<String, Duration> = BTreeMap::new(), [Limit::Positive];
    }
}

section_with_default! {
    /// When a backend counts as unhealthy, and what a request does about it.
    pub struct FailureHandling {
        /// Time between two health checks of a backend.
        pub health_check_interval: Duration = INTERVAL, [Limit::Positive];
        /// The longest that one health check may take. Below `healthCheckInterval`.
        pub health_check_timeout: Duration = CHECK_TIMEOUT, [Limit::Positive];
        /// Failed checks in a row that make a backend unhealthy.
        pub unhealthy_threshold: u32 = 3, [Limit::Range(1, 0xffff_ffff)];
        /// `fail`: a list fails when a backend is unavailable. `best_effort`: it holds what is available.
        pub partial_failure_mode: PartialFailureMode = PartialFailureMode::Fail;
        /// Time between two reports of backend health to Kubernetes.
        pub status_reporting_interval: Duration = Duration::from_secs(30), [Limit::Positive];
        /// Stops asking a backend that keeps failing.
        pub circuit_breaker: CircuitBreaker = CircuitBreaker::default();
    }
    rules [Rule::Also(within_the_interval)]
}

section_with_default! {
    /// Stops asking a backend that keeps failing, for a while.
    pub struct CircuitBreaker {
        /// Whether there is one.
        pub enabled: bool = false;
        /// Failures in a row that open the circuit.
        pub failure_threshold: u32 = 5, [Limit::Range(1, 0xffff_ffff)];
        /// How long the circuit stays open before one request may try again. At least 1s.
        pub timeout: Duration = Duration::from_secs(60), [Limit::AtLeast(Duration::from_secs(1))];
    }
}

choice! {
    /// How much is logged.
    pub enum LogLevel {
        /// Every decision.
        Debug = "debug",
    }
}

choice! {
    /// What a list is worth when a backend is missing.
    pub enum PartialFailureMode {
        /// Nothing: it fails, names the backend and may be tried again.
        Fail = "fail",
        /// What it holds.
        BestEffort = "best_effort",
    }
}

// === impl Timeouts ===

impl Timeouts {
    /// The wait for `backend`.
    #[must_use]
    pub fn of(&self, backend: &str) -> Duration {
        self.per_workload.get(backend).copied().unwrap_or(self.default)
    }
}

/// A check is over before the next one begins.
fn within_the_interval(node: &Node, cx: &mut Context) {
    let duration = |key, default: Duration| match node.get(key) {
        None => Some(default),
        Some(value) => value.text()?.parse().ok(),
    };
    let Some(interval) = duration("healthCheckInterval", INTERVAL) else { return };
    let Some(timeout) = duration("healthCheckTimeout", CHECK_TIMEOUT) else { return };
    if timeout < interval || interval.is_zero() || timeout.is_zero() {
        return;
    }
    let default = if node.get("healthCheckTimeout").is_none() { " (the default)" } else { "" };
    cx.refuse_key(
        node,
        "healthCheckTimeout",
        format!("{timeout}{default}"),
        format!("less than healthCheckInterval, which is {interval}"),
    );
}
