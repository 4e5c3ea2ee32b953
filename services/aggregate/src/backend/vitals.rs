//! How a backend is, as far as its checks have seen.

use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use vmcp_breaker::health::{Health, HealthMonitor, ProbeResult};
use vmcp_core::Clock;

use super::{Link, Status};
use crate::session::lock;
use crate::status::{CheckError, Checked};

/// What is remembered of a backend's checks. Without any, its health is unknown.
#[derive(Debug)]
pub(crate) struct Vitals(Mutex<State>);

#[derive(Debug)]
struct State {
    /// `None` while nobody checks it.
    monitor: Option<HealthMonitor>,
    clock: Clock,
    /// Since when its health is what it is.
    since: (Instant, SystemTime),
    last: Option<SystemTime>,
    next: Option<Instant>,
    error: Option<CheckError>,
    changes: u64,
}

/// What one look at a backend has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    pub(crate) probe: ProbeResult,
    /// What was wrong: a word for it, and words for people.
    pub(crate) wrong: Option<(&'static str, String)>,
}

/// A backend's health was one thing and is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    from: Health,
    to: Health,
}

impl Sight {
    pub(crate) fn good() -> Self {
        Self { probe: ProbeResult::Healthy, wrong: None }
    }
}

impl Vitals {
    pub(crate) fn new() -> Self {
        let clock = Clock::system();
        Self(Mutex::new(State {
            monitor: None,
            since: (Instant::now(), clock.now()),
            clock,
            last: None,
            next: None,
            error: None,
            changes: 0,
        }))
    }

    /// So many failures in a row are bad news from now on; `None`: nobody checks it.
    pub(crate) fn check_by(&self, threshold: Option<NonZeroU32>) {
        let mut state = lock(&self.0);
        match (&mut state.monitor, threshold) {
            (Some(monitor), Some(threshold)) => monitor.set_threshold(threshold),
            (monitor, threshold) => *monitor = threshold.map(HealthMonitor::new),
        }
    }

    /// When it is checked next.
    pub(crate) fn expect(&self, next: Instant) {
        lock(&self.0).next = Some(next);
    }

    /// Whether so many checks have failed that it counts as unavailable, and why.
    pub(crate) fn down(&self) -> Option<String> {
        let state = lock(&self.0);
        (state.health() == Health::Unavailable)
            .then(|| state.error.as_ref().map(|error| error.message.clone()).unwrap_or_default())
    }

    /// Whether it has been unavailable for that long.
    pub(crate) fn down_for(&self, long: Duration) -> bool {
        let state = lock(&self.0);
        state.health() == Health::Unavailable && state.since.0.elapsed() >= long
    }

    /// For whoever looks; `None` while nobody checks it.
    pub(crate) fn report(&self) -> Option<Checked> {
        let state = lock(&self.0);
        let report = state.monitor.as_ref()?.report(None);
        let now = (Instant::now(), state.clock.now());
        let at = |next: Instant| now.1 + next.saturating_duration_since(now.0);
        Some(Checked {
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

impl State {
    fn health(&self) -> Health {
        self.monitor.as_ref().map(HealthMonitor::health).unwrap_or_default()
    }

    fn take(&mut self, sight: Sight) -> Option<Change> {
        let from = self.health();
        let now = self.clock.now();
        let Sight { probe, wrong } = sight;
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
        Some(Change { from, to: self.health() })
    }
}

impl Link {
    /// Takes in what a check has seen.
    pub(crate) fn see(&self, sight: Sight) {
        let change = lock(&self.vitals.0).take(sight);
        if change.is_some_and(|change| change.from == Health::Unavailable) {
            // It is back, and whoever observes it may still wait for what it will never say.
            self.renew.notify_waiters();
        }
        self.changed(change);
    }

    /// Takes in what its first meeting was like, which is a check too.
    pub(crate) fn meet(&self, sight: impl FnOnce() -> Option<Sight>) {
        let change = {
            let mut state = lock(&self.vitals.0);
            let first = state.monitor.is_some() && state.last.is_none();
            sight().filter(|_| first).and_then(|sight| state.take(sight))
        };
        self.changed(change);
    }

    /// It has just given what it was asked for, or asked for a caller: no check has to say so first.
    pub(crate) fn revive(&self, probe: ProbeResult) {
        let change = {
            let mut state = lock(&self.vitals.0);
            let news = match state.health() {
                Health::Unknown | Health::Unavailable => true,
                Health::Unauthenticated => probe == ProbeResult::Healthy,
                Health::Ready | Health::Degraded => false,
            };
            if news { state.take(Sight { probe, wrong: None }) } else { None }
        };
        self.changed(change);
    }

    /// Tells of a change, once.
    fn changed(&self, change: Option<Change>) {
        let Some(Change { from, to }) = change else { return };
        let (backend, from, name) = (self.name(), from.name(), to.name());
        let said = "the backend's health has changed";
        match to {
            Health::Ready | Health::Unknown => tracing::info!(backend, from, to = name, "{said}"),
            Health::Unauthenticated if !self.shared() => {
                tracing::info!(backend, from, to = name, "{said}");
            }
            Health::Degraded | Health::Unavailable | Health::Unauthenticated => {
                let report = self.vitals.report().and_then(|report| report.last_error);
                let reason = report.map(|error| error.message).unwrap_or_default();
                tracing::warn!(backend, from, to = name, reason, "{said}");
            }
        }
        if to == Health::Unavailable {
            // What is open to it may wait for ever.
            self.renew.notify_waiters();
        }
        if matches!(self.status(), Status::Failed { .. }) {
            // Whoever has given up for a while need not wait any longer.
            self.nudge();
        }
    }
}
