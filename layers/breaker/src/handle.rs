//! The shared handle of one backend's circuit.

mod fast_state;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant;
use vmcp_core::{Backend, Clock};

use self::fast_state::{AtomicFastState, FastState};
use crate::{CircuitSettings, CircuitState, Outcome, StateMachine, Token};

/// Shared handle of one backend's circuit. Clones refer to the same circuit.
///
/// While the circuit is closed without failures, acquiring a permit and recording its outcome each read one atomic. The
/// lock of the state machine is taken for failures and their consequences.
#[derive(Clone)]
pub struct CircuitHandle(Arc<Inner>);

struct Inner {
    backend: Backend,
    fast_state: AtomicFastState,
    circuit: Mutex<StateMachine>,
    created_at: Instant,
    clock: Clock,
    status: watch::Sender<CircuitStatus>,
}

/// The error of a request that was not sent because the circuit of its backend is open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("backend {} unavailable: circuit open, retry in {retry_in:?}", .backend.name())]
pub struct CircuitOpen {
    /// The backend.
    pub backend: Backend,
    /// The time until the next trial.
    pub retry_in: Duration,
}

/// Permission to send one request. Dropping it without [`record`](Self::record) records [`Outcome::Neutral`].
#[derive(Debug)]
#[must_use = "it is given back when it is dropped"]
pub struct Permit {
    breaker: CircuitHandle,
    token: Token,
    trial: bool,
    recorded: bool,
}

/// Snapshot of a circuit's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitStatus {
    /// The state.
    pub state: CircuitState,
    /// Consecutive failures.
    pub failures: u32,
    /// The time of the last transition, if there was one.
    pub last_changed: Option<SystemTime>,
}

/// Receiver of a circuit's transitions.
#[derive(Clone, Debug)]
pub struct StateChanges(watch::Receiver<CircuitStatus>);

// === impl CircuitHandle ===

impl CircuitHandle {
    /// Creates a closed circuit for `backend`.
    #[must_use]
    pub fn new(backend: Backend, settings: CircuitSettings) -> Self {
        Self::with_clock(backend, settings, Clock::system())
    }

    /// Like [`new`](Self::new), with a clock for [`CircuitStatus::last_changed`].
    #[must_use]
    pub fn with_clock(backend: Backend, settings: CircuitSettings, clock: Clock) -> Self {
        let status = CircuitStatus { state: CircuitState::Closed, failures: 0, last_changed: None };
        let circuit = StateMachine::new(settings);
        Self(Arc::new(Inner {
            backend,
            fast_state: AtomicFastState::new(FastState::new(circuit.epoch(), true, false)),
            circuit: Mutex::new(circuit),
            created_at: Instant::now(),
            clock,
            status: watch::Sender::new(status),
        }))
    }

    /// Returns the backend.
    #[must_use]
    pub fn backend(&self) -> &Backend {
        &self.0.backend
    }

    /// Acquires a permit for one request.
    ///
    /// # Errors
    /// The circuit is open, or half-open with a pending trial.
    pub fn try_acquire(&self) -> Result<Permit, CircuitOpen> {
        let fast_state = self.0.fast_state.load();
        let (token, trial) = if fast_state.is_closed() {
            (Token::new(fast_state.epoch()), false)
        } else {
            self.update(|circuit, now| {
                circuit
                    .try_acquire(now)
                    .map(|token| (token, circuit.state() == CircuitState::HalfOpen))
            })
            .map_err(|retry_in| CircuitOpen { backend: self.0.backend.clone(), retry_in })?
        };
        Ok(Permit { breaker: self.clone(), token, trial, recorded: false })
    }

    /// Records the outcome of a health probe that did not pass through the layer. If the circuit's timeout has elapsed,
    /// the probe is its trial; an open circuit ignores the probe.
    pub fn record_probe(&self, outcome: Outcome) {
        if let Ok(permit) = self.try_acquire() {
            permit.background().record(outcome);
        }
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> CircuitState {
        self.status().state
    }

    /// Returns the number of consecutive failures.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.lock().failures()
    }

    /// Returns the time of the last transition, if there was one.
    #[must_use]
    pub fn last_changed(&self) -> Option<SystemTime> {
        self.status().last_changed
    }

    /// Returns the time until a request can pass; `None` if one can pass now.
    #[must_use]
    pub fn retry_in(&self) -> Option<Duration> {
        self.lock().retry_in(self.0.created_at.elapsed())
    }

    /// Returns the current status.
    #[must_use]
    pub fn status(&self) -> CircuitStatus {
        let circuit = self.lock();
        CircuitStatus { failures: circuit.failures(), ..*self.0.status.borrow() }
    }

    /// Subscribes to transitions from now on.
    #[must_use]
    pub fn changes(&self) -> StateChanges {
        StateChanges(self.0.status.subscribe())
    }

    fn record(&self, token: Token, outcome: Outcome) {
        if self.0.fast_state.load().absorbs(token.epoch, outcome) {
            return;
        }
        self.update(|circuit, now| circuit.record(token, outcome, now));
    }

    /// Applies `act` to the state machine and publishes a transition, if there is one.
    fn update<T>(&self, act: impl FnOnce(&mut StateMachine, Duration) -> T) -> T {
        let Inner { backend, fast_state, circuit: _, created_at, clock, status } = &*self.0;
        let mut circuit = self.lock();
        let from = circuit.state();
        let before = circuit.last_changed().zip(Some(from));
        let result = act(&mut circuit, created_at.elapsed());
        let (state, failures) = (circuit.state(), circuit.failures());
        let is_closed = state == CircuitState::Closed;
        fast_state.store(FastState::new(circuit.epoch(), is_closed, failures > 0));
        if circuit.last_changed().zip(Some(state)) != before {
            // Sent under the lock, so that observers receive transitions in order.
            status.send_replace(CircuitStatus { state, failures, last_changed: Some(clock.now()) });
            let retry_in = circuit.retry_in(created_at.elapsed());
            drop(circuit);
            log_change(backend, (from, state), failures, retry_in);
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, StateMachine> {
        vmcp_core::lock(&self.0.circuit)
    }
}

/// Logs a transition, a trial only at debug level: it happens repeatedly during one outage.
fn log_change(
    backend: &Backend,
    (from, to): (CircuitState, CircuitState),
    failures: u32,
    retry_in: Option<Duration>,
) {
    let (backend, from) = (backend.name(), from.name());
    match to {
        CircuitState::Closed => tracing::info!(backend, from, to = to.name(), "circuit_changed"),
        CircuitState::HalfOpen => tracing::debug!(backend, from, to = to.name(), "circuit_changed"),
        CircuitState::Open => {
            let retry_ms = retry_in.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            tracing::warn!(backend, from, to = to.name(), failures, retry_ms, "circuit_changed");
        }
    }
}

impl fmt::Debug for CircuitHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CircuitStatus { state, failures, last_changed: _ } = self.status();
        write!(f, "CircuitHandle({:?}, {}, {failures} failures)", self.0.backend, state.name())
    }
}

// === impl Permit ===

impl Permit {
    /// Consumes the permit and records the outcome of the request.
    pub fn record(mut self, outcome: Outcome) {
        self.recorded = true;
        self.breaker.record(self.token, outcome);
    }

    /// Marks the request as a background request: see [`Token::background`].
    pub fn background(mut self) -> Self {
        self.token = self.token.background();
        self
    }

    /// Records a success and acquires a permit for the rest of the same response, if the circuit allows one.
    pub(crate) fn record_success_keep_body(self) -> Option<Self> {
        let (breaker, token) = (self.breaker.clone(), self.token);
        self.record(Outcome::Success);
        let next = breaker.try_acquire().ok()?;
        Some(if token.is_background() { next.background() } else { next })
    }

    /// Returns `true` if the request is the trial of a half-open circuit.
    #[must_use]
    pub fn is_trial(&self) -> bool {
        self.trial
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.recorded {
            self.breaker.record(self.token, Outcome::Neutral);
        }
    }
}

// === impl StateChanges ===

impl StateChanges {
    /// Waits for the next transition and returns the status after it. Transitions between two calls are merged.
    /// Returns `None` when the circuit is dropped.
    pub async fn next(&mut self) -> Option<CircuitStatus> {
        self.0.changed().await.ok()?;
        Some(*self.0.borrow_and_update())
    }
}

#[cfg(test)]
mod tests;
