//! The state machine. It reads no clock and holds no lock.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::Class;

/// What a refused caller is told to wait while somebody else's trial decides.
const TRIAL_TAKES: Duration = Duration::from_secs(1);

/// When a circuit opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    failure_threshold: NonZeroU32,
    timeout: Duration,
}

/// Settings that a circuit cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// It would never be closed.
    #[error("failureThreshold is 0; it must be at least 1")]
    NoThreshold,
    /// The backend would hardly be left alone.
    #[error("timeout is {found:?}; it must be at least 1s")]
    ShortTimeout {
        /// What was found.
        found: Duration,
    },
}

/// Whether requests pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// All pass.
    Closed,
    /// None passes until the timeout is over.
    Open,
    /// One passes, and decides.
    HalfOpen,
}

/// A circuit: closed until so many failures in a row, then open for a time, then one trial.
///
/// Times are durations since any moment that stays the same for one circuit. Nothing happens by itself:
/// an open circuit whose time is over becomes half-open when somebody is admitted.
#[derive(Clone, Debug)]
pub struct Circuit {
    settings: Settings,
    phase: Phase,
    /// Moves on with each transition and each trial, so that late results of an earlier one count for
    /// nothing.
    era: u32,
    failures: u32,
    /// Whether one of these failures was that of a call.
    calls_fail: bool,
    changed: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Closed,
    Open { since: Duration },
    HalfOpen { trial: Option<Duration> },
}

/// The right to send one request, to be given back with what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub(crate) era: u32,
    background: bool,
}

// === impl Ticket ===

impl Ticket {
    pub(crate) const fn new(era: u32) -> Self {
        Self { era, background: false }
    }

    /// The ticket of a request that is no call, such as a health probe or the fetch of a list.
    ///
    /// Its failure counts, and its success closes a half-open circuit. But its success does not reset the count of
    /// failures that a call is among: a backend that answers probes while its calls fail opens its circuit.
    #[must_use]
    pub const fn background(self) -> Self {
        Self { background: true, ..self }
    }

    pub(crate) const fn is_background(self) -> bool {
        self.background
    }
}

// === impl Settings ===

impl Settings {
    /// `failure_threshold` failures in a row open the circuit for `timeout`.
    ///
    /// # Errors
    /// The threshold is below 1, or the timeout below a second.
    pub fn new(failure_threshold: u32, timeout: Duration) -> Result<Self, SettingsError> {
        let failure_threshold =
            NonZeroU32::new(failure_threshold).ok_or(SettingsError::NoThreshold)?;
        if timeout < Duration::from_secs(1) {
            return Err(SettingsError::ShortTimeout { found: timeout });
        }
        Ok(Self { failure_threshold, timeout })
    }
}

impl Default for Settings {
    /// Five failures, 60 seconds.
    fn default() -> Self {
        let failure_threshold = NonZeroU32::MIN.saturating_add(4);
        Self { failure_threshold, timeout: Duration::from_secs(60) }
    }
}

// === impl State ===

impl State {
    /// Its name in a resource's status (`circuitBreakerState`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

// === impl Circuit ===

impl Circuit {
    /// A closed circuit.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let phase = Phase::Closed;
        Self { settings, phase, era: 0, failures: 0, calls_fail: false, changed: None }
    }

    /// Lets a request pass, or tells how long to wait.
    ///
    /// # Errors
    /// The circuit is open, or half-open with its trial under way.
    pub fn admit(&mut self, now: Duration) -> Result<Ticket, Duration> {
        if let Some(wait) = self.retry_in(now) {
            return Err(wait);
        }
        match self.phase {
            Phase::Closed => {}
            Phase::Open { .. } => self.enter(Phase::HalfOpen { trial: Some(now) }, now),
            Phase::HalfOpen { .. } => {
                self.phase = Phase::HalfOpen { trial: Some(now) };
                self.era = self.era.wrapping_add(1);
            }
        }
        Ok(Ticket::new(self.era))
    }

    /// Takes a ticket back. One of an earlier time counts for nothing.
    pub fn settle(&mut self, ticket: Ticket, class: Class, now: Duration) {
        if ticket.era != self.era {
            return;
        }
        match (self.phase, class) {
            (Phase::HalfOpen { .. }, Class::Neutral) => {
                self.phase = Phase::HalfOpen { trial: None };
                self.era = self.era.wrapping_add(1);
            }
            (Phase::HalfOpen { .. }, Class::Success) => {
                (self.failures, self.calls_fail) = (0, false);
                self.enter(Phase::Closed, now);
            }
            (Phase::Closed, Class::Success) => {
                if !ticket.background || !self.calls_fail {
                    (self.failures, self.calls_fail) = (0, false);
                }
            }
            (Phase::Closed | Phase::HalfOpen { .. }, Class::Failure) => {
                self.failures = self.failures.saturating_add(1);
                self.calls_fail |= !ticket.background;
                let trial = matches!(self.phase, Phase::HalfOpen { .. });
                if trial || self.failures >= self.settings.failure_threshold.get() {
                    self.enter(Phase::Open { since: now }, now);
                }
            }
            (Phase::Closed, Class::Neutral) | (Phase::Open { .. }, _) => {}
        }
    }

    /// How long nobody is admitted; `None` if somebody is now.
    ///
    /// A trial that has not come back after the timeout is given up, and another one is admitted: one that
    /// waits for a person must not keep the circuit from closing.
    #[must_use]
    pub fn retry_in(&self, now: Duration) -> Option<Duration> {
        let timeout = self.settings.timeout;
        let left = |since: Duration| Some(timeout.saturating_sub(now.saturating_sub(since)));
        let wait = match self.phase {
            Phase::Closed | Phase::HalfOpen { trial: None } => None,
            Phase::Open { since } => left(since),
            Phase::HalfOpen { trial: Some(since) } => left(since).map(|left| left.min(TRIAL_TAKES)),
        };
        wait.filter(|wait| !wait.is_zero())
    }

    /// Whether requests pass.
    #[must_use]
    pub fn state(&self) -> State {
        match self.phase {
            Phase::Closed => State::Closed,
            Phase::Open { .. } => State::Open,
            Phase::HalfOpen { .. } => State::HalfOpen,
        }
    }

    /// Failures in a row, those of trials included.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// When the state changed last; `None` if it never did.
    #[must_use]
    pub fn changed(&self) -> Option<Duration> {
        self.changed
    }

    pub(crate) fn era(&self) -> u32 {
        self.era
    }

    fn enter(&mut self, phase: Phase, now: Duration) {
        self.phase = phase;
        self.era = self.era.wrapping_add(1);
        self.changed = Some(now);
    }
}

#[cfg(test)]
mod tests;
