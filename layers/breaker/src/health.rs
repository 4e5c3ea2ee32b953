//! Health of a backend as a state machine over probe results. It reads no clock.

use std::num::NonZeroU32;

use crate::{CircuitHandle, CircuitStatus};

/// Reported health of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Health {
    /// Responds within the time limit.
    Ready,
    /// Responds, but slowly.
    Degraded,
    /// Does not respond.
    Unavailable,
    /// Responds, but rejects the gateway's credentials or requires those of a user.
    Unauthenticated,
    /// Not probed yet.
    #[default]
    Unknown,
}

/// Result of one health probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProbeResult {
    /// A response within the time limit.
    Healthy,
    /// A slow response.
    Slow,
    /// No response, or an error.
    Failed,
    /// 401 or 403 for the gateway's own credentials, or for none.
    Unauthorized,
    /// 401 or 403 of a backend that takes the users' own credentials. Probes carry no user's credentials, so the
    /// backend is reachable and nothing is wrong.
    RequiresUserCredentials,
}

/// Derives a backend's health from consecutive probe results.
///
/// A success takes effect immediately; failures and slow responses take effect after `unhealthy_threshold` in a row. A
/// backend that recovers is `Ready` without being `Degraded` in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthMonitor {
    threshold: NonZeroU32,
    health: Health,
    failures: u32,
    slow: u32,
}

/// Health of a backend together with its circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthReport {
    /// The health.
    pub health: Health,
    /// Consecutive failed probes.
    pub consecutive_failures: u32,
    /// Status of the circuit, if there is one.
    pub circuit: Option<CircuitStatus>,
}

impl Health {
    /// Returns the name in a resource's status.
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
    /// Creates a monitor with [`Health::Unknown`].
    #[must_use]
    pub fn new(unhealthy_threshold: NonZeroU32) -> Self {
        Self { threshold: unhealthy_threshold, health: Health::Unknown, failures: 0, slow: 0 }
    }

    /// Sets the threshold for the following probes.
    pub fn set_threshold(&mut self, unhealthy_threshold: NonZeroU32) {
        self.threshold = unhealthy_threshold;
    }

    /// Records a probe result and returns whether the health changed.
    ///
    /// A probe that an open circuit rejected has no result and must not be recorded.
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

    /// Returns the health.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health
    }

    /// Returns the health together with the status of the circuit.
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
