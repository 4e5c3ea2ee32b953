//! The state machine. It reads no clock and takes no lock.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::Outcome;

/// Upper bound of the retry delay that is reported while a trial is pending.
const TRIAL_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Failure threshold and open time of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitSettings {
    failure_threshold: NonZeroU32,
    timeout: Duration,
}

/// The error of invalid [`CircuitSettings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CircuitSettingsError {
    /// The circuit would never be closed.
    #[error("failureThreshold is 0; it must be at least 1")]
    ZeroThreshold,
    /// The circuit would hardly protect the backend.
    #[error("timeout is {found:?}; it must be at least 1s")]
    ShortTimeout {
        /// The rejected value.
        found: Duration,
    },
}

/// State of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CircuitState {
    /// All requests pass.
    Closed,
    /// No request passes until the timeout elapses.
    Open,
    /// One trial request passes; its outcome decides.
    HalfOpen,
}

/// Circuit-breaker state machine: closed until a number of consecutive failures, then open for a time, then half-open
/// with one trial.
///
/// Times are durations since an arbitrary but fixed origin. Nothing happens in the background: an open circuit becomes
/// half-open at the first [`try_acquire`](Self::try_acquire) after its timeout.
#[derive(Clone, Debug)]
pub struct StateMachine {
    settings: CircuitSettings,
    phase: Phase,
    /// Incremented by each transition and each new trial, so that results of earlier requests are ignored.
    epoch: u32,
    failures: u32,
    /// Set if a call is among the failures.
    has_failed_call: bool,
    last_changed: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Closed,
    Open { since: Duration },
    HalfOpen { trial: Option<Duration> },
}

/// Permission to send one request, returned with its outcome to [`StateMachine::record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub(crate) epoch: u32,
    background: bool,
}

// === impl Token ===

impl Token {
    pub(crate) const fn new(epoch: u32) -> Self {
        Self { epoch, background: false }
    }

    /// Marks a background request, such as a health probe or a list request.
    ///
    /// Its failure counts, and its success closes a half-open circuit, but its success does not reset a failure count
    /// that includes a call: a backend that answers probes while its calls fail opens its circuit.
    #[must_use]
    pub const fn background(self) -> Self {
        Self { background: true, ..self }
    }

    pub(crate) const fn is_background(self) -> bool {
        self.background
    }
}

// === impl CircuitSettings ===

impl CircuitSettings {
    /// Creates settings: `failure_threshold` consecutive failures open the circuit for `timeout`.
    ///
    /// # Errors
    /// The threshold is 0, or the timeout is shorter than 1 s.
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
    /// 5 failures, 60 s.
    fn default() -> Self {
        let failure_threshold = NonZeroU32::MIN.saturating_add(4);
        Self { failure_threshold, timeout: Duration::from_mins(1) }
    }
}

// === impl CircuitState ===

impl CircuitState {
    /// Returns the name in a resource's status (`circuitBreakerState`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

// === impl StateMachine ===

impl StateMachine {
    /// Creates a closed circuit.
    #[must_use]
    pub fn new(settings: CircuitSettings) -> Self {
        let phase = Phase::Closed;
        Self { settings, phase, epoch: 0, failures: 0, has_failed_call: false, last_changed: None }
    }

    /// Acquires a token for one request.
    ///
    /// # Errors
    /// The circuit is open, or half-open with a pending trial. The error is the time until the next attempt.
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

    /// Records an outcome. Tokens of earlier epochs are ignored.
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

    /// Returns the time until a request can pass; `None` if one can pass now.
    ///
    /// A trial without a result after the timeout is given up for another one: a trial that waits for user input must
    /// not keep the circuit from closing.
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

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> CircuitState {
        match self.phase {
            Phase::Closed => CircuitState::Closed,
            Phase::Open { .. } => CircuitState::Open,
            Phase::HalfOpen { .. } => CircuitState::HalfOpen,
        }
    }

    /// Returns the number of consecutive failures, those of trials included.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns the time of the last transition, if there was one.
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
