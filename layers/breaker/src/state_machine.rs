//! The state machine. It reads no clock and holds no lock.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::Outcome;

/// What a refused caller is told to wait while somebody else's trial decides.
const TRIAL_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// When a circuit opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitSettings {
    failure_threshold: NonZeroU32,
    timeout: Duration,
}

/// Settings that a circuit cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CircuitSettingsError {
    /// It would never be closed.
    #[error("failureThreshold is 0; it must be at least 1")]
    ZeroThreshold,
    /// The backend would hardly be left alone.
    #[error("timeout is {found:?}; it must be at least 1s")]
    ShortTimeout {
        /// What was found.
        found: Duration,
    },
}

/// Whether requests pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CircuitState {
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
pub struct StateMachine {
    settings: CircuitSettings,
    phase: Phase,
    /// Moves on with each transition and each trial, so that late results of an earlier one count for
    /// nothing.
    epoch: u32,
    failures: u32,
    /// Whether one of these failures was that of a call.
    has_failed_call: bool,
    last_changed: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Closed,
    Open { since: Duration },
    HalfOpen { trial: Option<Duration> },
}

/// The right to send one request, to be given back with what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub(crate) epoch: u32,
    background: bool,
}

// === impl Ticket ===

impl Token {
    pub(crate) const fn new(epoch: u32) -> Self {
        Self { epoch, background: false }
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

impl CircuitSettings {
    /// `failure_threshold` failures in a row open the circuit for `timeout`.
    ///
    /// # Errors
    /// The threshold is below 1, or the timeout below a second.
    pub fn new(failure_threshold: u32, timeout: Duration) -> Result<Self, CircuitSettingsError> {
        let failure_threshold =
            NonZeroU32::new(failure_threshold).ok_or(CircuitSettingsError::ZeroThreshold)?;
        if timeout < Duration::from_secs(1) {
            return Err(CircuitSettingsError::ShortTimeout { found: timeout });
        }
        Ok(Self { failure_threshold, timeout })
    }
}

impl Default for CircuitSettings {
    /// Five failures, 60 seconds.
    fn default() -> Self {
        let failure_threshold = NonZeroU32::MIN.saturating_add(4);
        Self { failure_threshold, timeout: Duration::from_secs(60) }
    }
}

// === impl State ===

impl CircuitState {
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

impl StateMachine {
    /// A closed circuit.
    #[must_use]
    pub fn new(settings: CircuitSettings) -> Self {
        let phase = Phase::Closed;
        Self { settings, phase, epoch: 0, failures: 0, has_failed_call: false, last_changed: None }
    }

    /// Lets a request pass, or tells how long to wait.
    ///
    /// # Errors
    /// The circuit is open, or half-open with its trial under way.
    pub fn try_acquire(&mut self, now: Duration) -> Result<Token, Duration> {
        if let Some(wait) = self.retry_in(now) {
            return Err(wait);
        }
        match self.phase {
            Phase::Closed => {}
            Phase::Open { .. } => self.transition(Phase::HalfOpen { trial: Some(now) }, now),
            Phase::HalfOpen { .. } => {
                self.phase = Phase::HalfOpen { trial: Some(now) };
                self.epoch = self.epoch.wrapping_add(1);
            }
        }
        Ok(Token::new(self.epoch))
    }

    /// Takes a ticket back. One of an earlier time counts for nothing.
    pub fn record(&mut self, token: Token, outcome: Outcome, now: Duration) {
        if token.epoch != self.epoch {
            return;
        }
        match (self.phase, outcome) {
            (Phase::HalfOpen { .. }, Outcome::Neutral) => {
                self.phase = Phase::HalfOpen { trial: None };
                self.epoch = self.epoch.wrapping_add(1);
            }
            (Phase::HalfOpen { .. }, Outcome::Success) => {
                (self.failures, self.has_failed_call) = (0, false);
                self.transition(Phase::Closed, now);
            }
            (Phase::Closed, Outcome::Success) => {
                if !token.background || !self.has_failed_call {
                    (self.failures, self.has_failed_call) = (0, false);
                }
            }
            (Phase::Closed | Phase::HalfOpen { .. }, Outcome::Failure) => {
                self.failures = self.failures.saturating_add(1);
                self.has_failed_call |= !token.background;
                let trial = matches!(self.phase, Phase::HalfOpen { .. });
                if trial || self.failures >= self.settings.failure_threshold.get() {
                    self.transition(Phase::Open { since: now }, now);
                }
            }
            (Phase::Closed, Outcome::Neutral) | (Phase::Open { .. }, _) => {}
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
            Phase::HalfOpen { trial: Some(since) } => {
                left(since).map(|left| left.min(TRIAL_RETRY_INTERVAL))
            }
        };
        wait.filter(|wait| !wait.is_zero())
    }

    /// Whether requests pass.
    #[must_use]
    pub fn state(&self) -> CircuitState {
        match self.phase {
            Phase::Closed => CircuitState::Closed,
            Phase::Open { .. } => CircuitState::Open,
            Phase::HalfOpen { .. } => CircuitState::HalfOpen,
        }
    }

    /// Failures in a row, those of trials included.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// When the state changed last; `None` if it never did.
    #[must_use]
    pub fn last_changed(&self) -> Option<Duration> {
        self.last_changed
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    fn transition(&mut self, phase: Phase, now: Duration) {
        self.phase = phase;
        self.epoch = self.epoch.wrapping_add(1);
        self.last_changed = Some(now);
    }
}

#[cfg(test)]
mod tests;
