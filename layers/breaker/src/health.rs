//! What probes say of a backend: a state machine that reads no clock.

use std::num::NonZeroU32;

use crate::{CircuitHandle, CircuitStatus};

/// What a backend's health is reported as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Health {
    /// It answers, in good time.
    Ready,
    /// It answers, but slowly.
    Degraded,
    /// It does not answer.
    Unavailable,
    /// It answers, but wants credentials that the gateway does not have: others than its own, or a
    /// caller's.
    Unauthenticated,
    /// No probe has told yet.
    #[default]
    Unknown,
}

/// What a probe saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProbeResult {
    /// An answer in good time.
    Healthy,
    /// An answer that took long.
    Slow,
    /// None, or an error.
    Failed,
    /// A 401 or 403 for what the gateway itself shows, be it a credential or nothing.
    Unauthorized,
    /// A 401 or 403 of a backend that is shown its callers' own credentials. Probes carry nobody's, so
    /// it is there, and nothing is wrong.
    RequiresUserCredentials,
}

/// Follows one backend's probes.
///
/// The first success tells at once; bad news has to come `unhealthy_threshold` times in a row. A backend that
/// recovers is what its probe says, not degraded in between, and one slow probe does not degrade it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthMonitor {
    threshold: NonZeroU32,
    health: Health,
    failures: u32,
    slow: u32,
}

/// A backend's health with its circuit beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthReport {
    /// The health.
    pub health: Health,
    /// Probes in a row that failed.
    pub consecutive_failures: u32,
    /// The circuit; `None` where there is none.
    pub circuit: Option<CircuitStatus>,
}

impl Health {
    /// Its name in a resource's status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::Unavailable => "unavailable",
            Self::Unauthenticated => "unauthenticated",
            Self::Unknown => "unknown",
        }
    }
}

impl HealthMonitor {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(unhealthy_threshold: NonZeroU32) -> Self {
        Self { threshold: unhealthy_threshold, health: Health::Unknown, failures: 0, slow: 0 }
    }

    /// Another threshold, by which probes are judged from the next one on.
    pub fn set_threshold(&mut self, unhealthy_threshold: NonZeroU32) {
        self.threshold = unhealthy_threshold;
    }

    /// Takes in a probe. Whether the health changed by it.
    ///
    /// A probe that an open circuit kept from being sent saw nothing, and is not taken in.
    pub fn observe(&mut self, probe: ProbeResult) -> bool {
        let before = self.health;
        match probe {
            ProbeResult::Healthy => {
                (self.failures, self.slow) = (0, 0);
                self.health = Health::Ready;
            }
            ProbeResult::Slow => {
                self.failures = 0;
                self.slow = self.slow.saturating_add(1);
                if before != Health::Ready || self.slow >= self.threshold.get() {
                    self.health = Health::Degraded;
                }
            }
            ProbeResult::RequiresUserCredentials => {
                (self.failures, self.slow) = (0, 0);
                self.health = Health::Unauthenticated;
            }
            ProbeResult::Failed | ProbeResult::Unauthorized => {
                self.failures = self.failures.saturating_add(1);
                self.slow = 0;
                if self.failures >= self.threshold.get() {
                    self.health = match probe {
                        ProbeResult::Unauthorized => Health::Unauthenticated,
                        _ => Health::Unavailable,
                    };
                }
            }
        }
        self.health != before
    }

    /// The health.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health
    }

    /// The health with the backend's circuit beside it.
    #[must_use]
    pub fn report(&self, breaker: Option<&CircuitHandle>) -> HealthReport {
        HealthReport {
            health: self.health,
            consecutive_failures: self.failures,
            circuit: breaker.map(CircuitHandle::status),
        }
    }
}

#[cfg(test)]
mod tests;
