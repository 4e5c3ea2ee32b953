//! One backend's circuit, shared by all who send to it or watch it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant;
use vmcp_core::{Backend, Clock};

use crate::{CircuitSettings, CircuitState, Outcome, StateMachine, Token};

/// The circuit of one backend. A clone is the same circuit.
///
/// While it is closed and nothing fails, admitting and settling read one atomic each; the lock of the state
/// machine is for failures and for what follows them.
#[derive(Clone)]
pub struct CircuitHandle(Arc<Inner>);

struct Inner {
    backend: Backend,
    /// The era, and whether the circuit is closed, and has no failures either. Written under the lock.
    fast_state: AtomicU64,
    circuit: Mutex<StateMachine>,
    created_at: Instant,
    clock: Clock,
    status: watch::Sender<CircuitStatus>,
}

const CLOSED: u64 = 1;
const NO_FAILURES: u64 = 2;

/// The request was not sent, because its backend has failed too often.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("backend {} failed too often and is left alone for {retry_in:?}", .backend.name())]
pub struct CircuitOpen {
    /// Which backend.
    pub backend: Backend,
    /// When it makes sense to try again.
    pub retry_in: Duration,
}

/// The right to send one request. Dropped without having been settled, it is given back as neutral.
#[derive(Debug)]
#[must_use = "it is given back when it is dropped"]
pub struct Permit {
    breaker: CircuitHandle,
    token: Token,
    trial: bool,
    recorded: bool,
}

/// A circuit's state as it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitStatus {
    /// Whether requests pass.
    pub state: CircuitState,
    /// Failures in a row.
    pub failures: u32,
    /// When the state changed last; `None` if it never did.
    pub last_changed: Option<SystemTime>,
}

/// Observes a circuit's transitions.
#[derive(Clone, Debug)]
pub struct StateChanges(watch::Receiver<CircuitStatus>);

// === impl Breaker ===

impl CircuitHandle {
    /// A closed circuit for `backend`.
    #[must_use]
    pub fn new(backend: Backend, settings: CircuitSettings) -> Self {
        Self::with_clock(backend, settings, Clock::system())
    }

    /// [`new`](Self::new) with another clock for [`CircuitStatus::last_changed`].
    #[must_use]
    pub fn with_clock(backend: Backend, settings: CircuitSettings, clock: Clock) -> Self {
        let status = CircuitStatus { state: CircuitState::Closed, failures: 0, last_changed: None };
        Self(Arc::new(Inner {
            backend,
            fast_state: AtomicU64::new(CLOSED | NO_FAILURES),
            circuit: Mutex::new(StateMachine::new(settings)),
            created_at: Instant::now(),
            clock,
            status: watch::Sender::new(status),
        }))
    }

    /// Whose circuit it is.
    #[must_use]
    pub fn backend(&self) -> &Backend {
        &self.0.backend
    }

    /// Lets a request pass, or not.
    ///
    /// # Errors
    /// The circuit is open, or half-open with its trial under way.
    pub fn try_acquire(&self) -> Result<Permit, CircuitOpen> {
        let fast_state = self.0.fast_state.load(Ordering::Acquire);
        let (token, trial) = if fast_state & CLOSED != 0 {
            let epoch = (fast_state >> 32) as u32;
            (Token::new(epoch), false)
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

    /// Takes in what a health probe saw that did not pass through the layer. An open circuit whose time is
    /// over takes it as its trial; one whose time is not over does not take it in.
    pub fn record_probe(&self, outcome: Outcome) {
        if let Ok(permit) = self.try_acquire() {
            permit.background().record(outcome);
        }
    }

    /// Whether requests pass.
    #[must_use]
    pub fn state(&self) -> CircuitState {
        self.status().state
    }

    /// Failures in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.lock().failures()
    }

    /// When the state changed last; `None` if it never did.
    #[must_use]
    pub fn last_changed(&self) -> Option<SystemTime> {
        self.status().last_changed
    }

    /// How long nobody is admitted; `None` if somebody is now.
    #[must_use]
    pub fn retry_in(&self) -> Option<Duration> {
        self.lock().retry_in(self.0.created_at.elapsed())
    }

    /// State and failures as they are now.
    #[must_use]
    pub fn status(&self) -> CircuitStatus {
        let circuit = self.lock();
        CircuitStatus { failures: circuit.failures(), ..*self.0.status.borrow() }
    }

    /// Observes the transitions from now on.
    #[must_use]
    pub fn changes(&self) -> StateChanges {
        StateChanges(self.0.status.subscribe())
    }

    fn record(&self, token: Token, outcome: Outcome) {
        let fast_state = self.0.fast_state.load(Ordering::Acquire);
        let unchanged = match outcome {
            Outcome::Success => CLOSED | NO_FAILURES,
            Outcome::Neutral => CLOSED,
            Outcome::Failure => u64::MAX,
        };
        // Nothing would change by it.
        if fast_state >> 32 == u64::from(token.epoch) && fast_state & unchanged == unchanged {
            return;
        }
        self.update(|circuit, now| circuit.record(token, outcome, now));
    }

    /// Does something to the circuit, and tells who looks at it.
    fn update<T>(&self, act: impl FnOnce(&mut StateMachine, Duration) -> T) -> T {
        let Inner { backend, fast_state, circuit: _, created_at, clock, status } = &*self.0;
        let mut circuit = self.lock();
        let from = circuit.state();
        let before = circuit.last_changed().zip(Some(from));
        let result = act(&mut circuit, created_at.elapsed());
        let (state, failures) = (circuit.state(), circuit.failures());
        let closed = if state == CircuitState::Closed { CLOSED } else { 0 };
        let no_failures = if failures == 0 { NO_FAILURES } else { 0 };
        fast_state
            .store(u64::from(circuit.epoch()) << 32 | closed | no_failures, Ordering::Release);
        if circuit.last_changed().zip(Some(state)) != before {
            // Under the lock, so that observers see transitions in their order.
            status.send_replace(CircuitStatus { state, failures, last_changed: Some(clock.now()) });
            let retry_in = circuit.retry_in(created_at.elapsed());
            drop(circuit);
            log_change(backend, (from, state), failures, retry_in);
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, StateMachine> {
        self.0.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs a transition. A trial that begins is part of an outage, not news.
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
        write!(f, "Breaker({:?}, {}, {failures} failures)", self.0.backend, state.name())
    }
}

// === impl Permit ===

impl Permit {
    /// Gives it back with what became of the request.
    pub fn record(mut self, outcome: Outcome) {
        self.recorded = true;
        self.breaker.record(self.token, outcome);
    }

    /// The permit of a request that is no call: see [`Token::background`].
    pub fn background(mut self) -> Self {
        self.token = self.token.background();
        self
    }

    /// Settles it as a success, and gives one for the rest of the same answer, if there is one to be had.
    pub(crate) fn record_success_keep_body(self) -> Option<Self> {
        let (breaker, token) = (self.breaker.clone(), self.token);
        self.record(Outcome::Success);
        let next = breaker.try_acquire().ok()?;
        Some(if token.is_background() { next.background() } else { next })
    }

    /// Whether the request decides if the circuit closes.
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

// === impl Changes ===

impl StateChanges {
    /// Waits for the next transition and gives the state that it led to; several that come while nobody
    /// waits are one. `None` when the circuit is gone.
    pub async fn next(&mut self) -> Option<CircuitStatus> {
        self.0.changed().await.ok()?;
        Some(*self.0.borrow_and_update())
    }
}

#[cfg(test)]
mod tests;
