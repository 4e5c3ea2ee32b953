//! One backend's circuit, shared by all who send to it or watch it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant;
use vmcp_core::{Backend, Clock};

use crate::{Circuit, Class, Settings, State, Ticket};

/// The circuit of one backend. A clone is the same circuit.
///
/// While it is closed and nothing fails, admitting and settling read one atomic each; the lock of the state
/// machine is for failures and for what follows them.
#[derive(Clone)]
pub struct Breaker(Arc<Shared>);

struct Shared {
    backend: Backend,
    /// The era, and whether the circuit is closed, and has no failures either. Written under the lock.
    gate: AtomicU64,
    circuit: Mutex<Circuit>,
    born: Instant,
    clock: Clock,
    status: watch::Sender<Status>,
}

const CLOSED: u64 = 1;
const QUIET: u64 = 2;

/// The request was not sent, because its backend has failed too often.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("backend {} failed too often and is left alone for {retry_in:?}", .backend.name())]
pub struct Open {
    /// Which backend.
    pub backend: Backend,
    /// When it makes sense to try again.
    pub retry_in: Duration,
}

/// The right to send one request. Dropped without having been settled, it is given back as neutral.
#[derive(Debug)]
#[must_use = "it is given back when it is dropped"]
pub struct Permit {
    breaker: Breaker,
    ticket: Ticket,
    trial: bool,
    settled: bool,
}

/// A circuit's state as it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whether requests pass.
    pub state: State,
    /// Failures in a row.
    pub failures: u32,
    /// When the state changed last; `None` if it never did.
    pub last_changed: Option<SystemTime>,
}

/// Observes a circuit's transitions.
#[derive(Clone, Debug)]
pub struct Changes(watch::Receiver<Status>);

// === impl Breaker ===

impl Breaker {
    /// A closed circuit for `backend`.
    #[must_use]
    pub fn new(backend: Backend, settings: Settings) -> Self {
        Self::with_clock(backend, settings, Clock::system())
    }

    /// [`new`](Self::new) with another clock for [`Status::last_changed`].
    #[must_use]
    pub fn with_clock(backend: Backend, settings: Settings, clock: Clock) -> Self {
        let status = Status { state: State::Closed, failures: 0, last_changed: None };
        Self(Arc::new(Shared {
            backend,
            gate: AtomicU64::new(CLOSED | QUIET),
            circuit: Mutex::new(Circuit::new(settings)),
            born: Instant::now(),
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
    pub fn admit(&self) -> Result<Permit, Open> {
        let gate = self.0.gate.load(Ordering::Acquire);
        let (ticket, trial) = if gate & CLOSED != 0 {
            let era = (gate >> 32) as u32;
            (Ticket::new(era), false)
        } else {
            self.change(|circuit, now| {
                circuit.admit(now).map(|ticket| (ticket, circuit.state() == State::HalfOpen))
            })
            .map_err(|retry_in| Open { backend: self.0.backend.clone(), retry_in })?
        };
        Ok(Permit { breaker: self.clone(), ticket, trial, settled: false })
    }

    /// Takes in what a health probe saw that did not pass through the layer. An open circuit whose time is
    /// over takes it as its trial; one whose time is not over does not take it in.
    pub fn on_probe(&self, class: Class) {
        if let Ok(permit) = self.admit() {
            permit.background().settle(class);
        }
    }

    /// Whether requests pass.
    #[must_use]
    pub fn state(&self) -> State {
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
        self.lock().retry_in(self.0.born.elapsed())
    }

    /// State and failures as they are now.
    #[must_use]
    pub fn status(&self) -> Status {
        let circuit = self.lock();
        Status { failures: circuit.failures(), ..*self.0.status.borrow() }
    }

    /// Observes the transitions from now on.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes(self.0.status.subscribe())
    }

    fn settle(&self, ticket: Ticket, class: Class) {
        let gate = self.0.gate.load(Ordering::Acquire);
        let calm = match class {
            Class::Success => CLOSED | QUIET,
            Class::Neutral => CLOSED,
            Class::Failure => u64::MAX,
        };
        // Nothing would change by it.
        if gate >> 32 == u64::from(ticket.era) && gate & calm == calm {
            return;
        }
        self.change(|circuit, now| circuit.settle(ticket, class, now));
    }

    /// Does something to the circuit, and tells who looks at it.
    fn change<T>(&self, act: impl FnOnce(&mut Circuit, Duration) -> T) -> T {
        let Shared { backend, gate, circuit: _, born, clock, status } = &*self.0;
        let mut circuit = self.lock();
        let from = circuit.state();
        let before = circuit.changed().zip(Some(from));
        let result = act(&mut circuit, born.elapsed());
        let (state, failures) = (circuit.state(), circuit.failures());
        let closed = if state == State::Closed { CLOSED } else { 0 };
        let quiet = if failures == 0 { QUIET } else { 0 };
        gate.store(u64::from(circuit.era()) << 32 | closed | quiet, Ordering::Release);
        if circuit.changed().zip(Some(state)) != before {
            // Under the lock, so that observers see transitions in their order.
            status.send_replace(Status { state, failures, last_changed: Some(clock.now()) });
            let retry_in = circuit.retry_in(born.elapsed());
            drop(circuit);
            log_change(backend, (from, state), failures, retry_in);
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Circuit> {
        self.0.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs a transition. A trial that begins is part of an outage, not news.
fn log_change(
    backend: &Backend,
    (from, to): (State, State),
    failures: u32,
    retry_in: Option<Duration>,
) {
    let (backend, from) = (backend.name(), from.name());
    match to {
        State::Closed => tracing::info!(backend, from, to = to.name(), "circuit_changed"),
        State::HalfOpen => tracing::debug!(backend, from, to = to.name(), "circuit_changed"),
        State::Open => {
            let retry_ms = retry_in.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            tracing::warn!(backend, from, to = to.name(), failures, retry_ms, "circuit_changed");
        }
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { state, failures, last_changed: _ } = self.status();
        write!(f, "Breaker({:?}, {}, {failures} failures)", self.0.backend, state.name())
    }
}

// === impl Permit ===

impl Permit {
    /// Gives it back with what became of the request.
    pub fn settle(mut self, class: Class) {
        self.settled = true;
        self.breaker.settle(self.ticket, class);
    }

    /// The permit of a request that is no call: see [`Ticket::background`].
    pub fn background(mut self) -> Self {
        self.ticket = self.ticket.background();
        self
    }

    /// Settles it as a success, and gives one for the rest of the same answer, if there is one to be had.
    pub(crate) fn succeed_and_go_on(self) -> Option<Self> {
        let (breaker, ticket) = (self.breaker.clone(), self.ticket);
        self.settle(Class::Success);
        let next = breaker.admit().ok()?;
        Some(if ticket.is_background() { next.background() } else { next })
    }

    /// Whether the request decides if the circuit closes.
    #[must_use]
    pub fn is_trial(&self) -> bool {
        self.trial
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.settled {
            self.breaker.settle(self.ticket, Class::Neutral);
        }
    }
}

// === impl Changes ===

impl Changes {
    /// Waits for the next transition and gives the state that it led to; several that come while nobody
    /// waits are one. `None` when the circuit is gone.
    pub async fn next(&mut self) -> Option<Status> {
        self.0.changed().await.ok()?;
        Some(*self.0.borrow_and_update())
    }
}

#[cfg(test)]
mod tests;
