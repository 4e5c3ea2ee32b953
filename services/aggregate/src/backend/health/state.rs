//! Health of a backend, derived from its checks.

use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use vmcp_breaker::health::{Health, HealthMonitor, ProbeResult};
use vmcp_core::Clock;

use super::report::{CheckError, HealthReport};
use crate::backend::{BackendHandle, FetchStatus};
use vmcp_core::lock;

/// Results of a backend's health checks. Without checks, the health is unknown.
#[derive(Debug)]
pub(crate) struct HealthState(Mutex<MonitorState>);

#[derive(Debug)]
struct MonitorState {
    /// `None` if health checks are disabled.
    monitor: Option<HealthMonitor>,
    clock: Clock,
    /// Time of the last health transition.
    since: (Instant, SystemTime),
    last: Option<SystemTime>,
    next: Option<Instant>,
    error: Option<CheckError>,
    changes: u64,
}

/// Result of one health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckResult {
    pub(crate) probe: ProbeResult,
    /// Error kind and message of a failed check.
    pub(crate) wrong: Option<(&'static str, String)>,
}

/// Health transition of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HealthTransition {
    from: Health,
    to: Health,
}

impl CheckResult {
    pub(crate) fn good() -> Self {
        Self { probe: ProbeResult::Healthy, wrong: None }
    }
}

impl HealthState {
    pub(crate) fn new() -> Self {
        let clock = Clock::system();
        Self(Mutex::new(MonitorState {
            monitor: None,
            since: (Instant::now(), clock.now()),
            clock,
            last: None,
            next: None,
            error: None,
            changes: 0,
        }))
    }

    /// Sets the number of consecutive failures that make the backend unavailable; `None` disables checks.
    pub(crate) fn set_threshold(&self, threshold: Option<NonZeroU32>) {
        let mut state = lock(&self.0);
        match (&mut state.monitor, threshold) {
            (Some(monitor), Some(threshold)) => monitor.set_threshold(threshold),
            (monitor, threshold) => *monitor = threshold.map(HealthMonitor::new),
        }
    }

    /// Records the time of the next check.
    pub(crate) fn expect(&self, next: Instant) {
        lock(&self.0).next = Some(next);
    }

    /// Returns the reason if enough checks have failed for the backend to count as unavailable.
    pub(crate) fn unavailable_reason(&self) -> Option<String> {
        let state = lock(&self.0);
        (state.health() == Health::Unavailable)
            .then(|| state.error.as_ref().map_or_else(String::new, |error| error.message.clone()))
    }

    /// Returns `true` if the backend has been unavailable for this duration.
    pub(crate) fn is_unavailable_for(&self, long: Duration) -> bool {
        let state = lock(&self.0);
        state.health() == Health::Unavailable && state.since.0.elapsed() >= long
    }

    /// Returns the health report; `None` if health checks are disabled.
    pub(crate) fn report(&self) -> Option<HealthReport> {
        let state = lock(&self.0);
        let report = state.monitor.as_ref()?.report(None);
        let now = (Instant::now(), state.clock.now());
        let at = |next: Instant| now.1 + next.saturating_duration_since(now.0);
        Some(HealthReport {
            health: report.health,
            consecutive_failures: report.consecutive_failures,
            since: state.since.1,
            last_check: state.last,
            next_check: state.next.map(at),
            last_error: state.error.clone(),
            changes: state.changes,
        })
    }
}

impl MonitorState {
    fn health(&self) -> Health {
        self.monitor.as_ref().map_or(Health::Unknown, HealthMonitor::health)
    }

    fn take(&mut self, result: CheckResult) -> Option<HealthTransition> {
        let from = self.health();
        let now = self.clock.now();
        let CheckResult { probe, wrong } = result;
        let changed = self.monitor.as_mut()?.observe(probe);
        self.last = Some(now);
        if let Some((kind, message)) = wrong {
            self.error = Some(CheckError { kind, message, at: now });
        }
        if !changed {
            return None;
        }
        self.since = (Instant::now(), now);
        self.changes += 1;
        Some(HealthTransition { from, to: self.health() })
    }
}

impl BackendHandle {
    /// Records the result of a check.
    pub(crate) fn record_check(&self, result: CheckResult) {
        let change = lock(&self.health.0).take(result);
        if change.is_some_and(|change| change.from == Health::Unavailable) {
            // The backend has recovered; its observer may still wait on a stale stream.
            self.reconnect.notify_waiters();
        }
        self.changed(change);
    }

    /// Records the first contact as the result of a check.
    pub(crate) fn record_first_contact(&self, result: impl FnOnce() -> Option<CheckResult>) {
        let change = {
            let mut state = lock(&self.health.0);
            let first = state.monitor.is_some() && state.last.is_none();
            result().filter(|_| first).and_then(|result| state.take(result))
        };
        self.changed(change);
    }

    /// Records a successful response to a request. It updates an unknown or failed health without waiting for the next check.
    pub(crate) fn mark_healthy(&self, probe: ProbeResult) {
        let change = {
            let mut state = lock(&self.health.0);
            let news = match state.health() {
                Health::Unknown | Health::Unavailable => true,
                Health::Unauthenticated => probe == ProbeResult::Healthy,
                Health::Ready | Health::Degraded => false,
            };
            if news { state.take(CheckResult { probe, wrong: None }) } else { None }
        };
        self.changed(change);
    }

    /// Logs a health transition once and wakes the observer.
    fn changed(&self, change: Option<HealthTransition>) {
        let Some(HealthTransition { from, to }) = change else { return };
        let (backend, from, name) = (self.name(), from.name(), to.name());
        let event = "backend health changed";
        match to {
            Health::Ready | Health::Unknown => tracing::info!(backend, from, to = name, "{event}"),
            Health::Unauthenticated if !self.shared() => {
                tracing::info!(backend, from, to = name, "{event}");
            }
            Health::Degraded | Health::Unavailable | Health::Unauthenticated => {
                let report = self.health.report().and_then(|report| report.last_error);
                let reason = report.map(|error| error.message);
                tracing::warn!(backend, from, to = name, reason, "{event}");
            }
        }
        if to == Health::Unavailable {
            // Open streams may wait forever.
            self.reconnect.notify_waiters();
        }
        if matches!(self.status(), FetchStatus::Failed { .. }) {
            // An observer that pauses after a failure retries immediately.
            self.refresh();
        }
    }
}
