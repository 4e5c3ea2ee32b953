//! Budget for the bytes that a process holds for its callers.

mod state;
mod transfer_rate;

use std::collections::hash_map::RandomState;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Extensions;

use self::state::{State, WaitOutcome};
pub use self::transfer_rate::TransferRate;
use crate::{Identity, Rejection, network};

/// Maximum number of rejected bodies that are drained at a time.
const MAX_DRAINS: usize = 16;

/// The longest that a request should wait for bytes of a budget before it is rejected.
pub const MAX_BUDGET_WAIT: Duration = Duration::from_secs(2);

/// The pause after which a rejected request may be retried, in seconds.
const RETRY_AFTER: u32 = 2;

/// Budget of bytes that all requests of a process share. A clone is the same budget.
///
/// One owner can hold half of what the others leave: half of the budget if it is the only one. A [`Reservation`] holds bytes
/// until it is dropped. One that does not fit can wait; waiters are served in their order as far as they fit, and their
/// number is bounded.
#[derive(Clone)]
pub struct ByteBudget(Arc<Shared>);

struct Shared {
    limit: usize,
    hasher: RandomState,
    rejections: AtomicU64,
    /// Number of rejected bodies that are being drained.
    drains: AtomicUsize,
    state: Mutex<State>,
}

/// Owner of bytes, as shares are counted by it: an identity, a network address or a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BudgetOwner(u64);

/// Account of one owner in a budget.
#[derive(Clone, Debug)]
pub struct BudgetAccount {
    budget: ByteBudget,
    owner: BudgetOwner,
}

/// Numbers of a [`ByteBudget`], for gauges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetCounts {
    /// Bytes that are held.
    pub held: usize,
    /// The most bytes that may be held.
    pub limit: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that were rejected.
    pub rejections: u64,
}

/// Bytes of a budget, held for one owner until this is dropped.
pub struct Reservation {
    budget: ByteBudget,
    owner: BudgetOwner,
    bytes: usize,
    /// The id of the waiter and the bytes it waits for, while [`poll_grow`](Self::poll_grow) is pending.
    waiter: Option<(u64, usize)>,
}

/// Permit to drain a rejected body, until this is dropped.
#[derive(Debug)]
pub struct DrainPermit(ByteBudget);

/// Error of a reservation that neither fits nor may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the byte budget is used up")]
pub struct BudgetExceededError;

/// Future of [`Reservation::grow`].
#[derive(Debug)]
pub struct GrowFuture<'a> {
    reservation: &'a mut Reservation,
    bytes: usize,
}

/// Buffer that keeps its reservation.
struct ReservedBuffer<T> {
    buffer: T,
    _reservation: Reservation,
}

impl ByteBudget {
    /// Creates a budget of `limit` bytes: twice what the largest message takes, or more.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Shared {
            limit,
            hasher: RandomState::new(),
            rejections: AtomicU64::new(0),
            drains: AtomicUsize::new(0),
            state: Mutex::new(State::new(limit)),
        }))
    }

    /// Returns an empty reservation.
    #[must_use]
    pub fn open(&self, owner: BudgetOwner) -> Reservation {
        Reservation { budget: self.clone(), owner, bytes: 0, waiter: None }
    }

    /// Returns the account of `owner`.
    #[must_use]
    pub fn account(&self, owner: BudgetOwner) -> BudgetAccount {
        BudgetAccount { budget: self.clone(), owner }
    }

    /// Returns the most bytes that `owner` can reserve now.
    #[must_use]
    pub fn room(&self, owner: BudgetOwner) -> usize {
        self.lock().room(owner)
    }

    /// Returns the owner of what an identity receives, or of what the network of `address` receives if the identity is
    /// anonymous.
    #[must_use]
    pub fn caller(&self, identity: &Identity, address: Option<IpAddr>) -> BudgetOwner {
        if identity.is_anonymous() {
            return self.address(address);
        }
        self.hash(&(identity.issuer(), identity.subject()))
    }

    /// Returns the owner of a request: its [`Identity`], or the network of its address ([`SocketAddr`]) where it has none or
    /// an anonymous one. Requests without either are one owner.
    #[must_use]
    pub fn owner(&self, extensions: &Extensions) -> BudgetOwner {
        let address = extensions.get::<SocketAddr>().map(SocketAddr::ip);
        match extensions.get::<Identity>() {
            Some(identity) => self.caller(identity, address),
            None => self.address(address),
        }
    }

    /// Returns the owner of what comes from an address, by its [`network`].
    #[must_use]
    pub fn address(&self, address: Option<IpAddr>) -> BudgetOwner {
        self.hash(&address.map(network))
    }

    /// Returns the owner of what a backend sends.
    #[must_use]
    pub fn backend(&self, name: &str) -> BudgetOwner {
        self.hash(&("backend", name))
    }

    /// Returns the most bytes that can be held. One owner can hold half of them.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Returns the numbers of held bytes, waiting requests and rejected requests.
    #[must_use]
    pub fn counts(&self) -> BudgetCounts {
        let state = self.lock();
        BudgetCounts {
            held: state.held(),
            limit: self.0.limit,
            waiting: state.waiting(),
            // Relaxed: a number for people.
            rejections: self.0.rejections.load(Ordering::Relaxed),
        }
    }

    /// Counts a rejection and returns it: 503 with `Retry-After`.
    #[must_use]
    pub fn rejection(&self) -> Rejection {
        self.count_rejection();
        let message =
            "the server holds too many bytes of messages: try again in 2 s, or send smaller ones";
        Rejection::overloaded(message, RETRY_AFTER)
    }

    /// Counts a rejection that another error reports.
    pub fn count_rejection(&self) {
        self.0.rejections.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a permit to drain a rejected body, so that its sender can read the rejection. Each takes a buffer of its
    /// connection, so the number is limited: in a flood, other connections are closed.
    #[must_use]
    pub fn drain(&self) -> Option<DrainPermit> {
        let more = |drains: usize| (drains < MAX_DRAINS).then_some(drains + 1);
        let drains = &self.0.drains;
        // Relaxed: a count alone.
        let counted = drains.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok().then(|| DrainPermit(self.clone()))
    }

    /// Hashes an owner. The keys are secret, so that no caller can choose the owner that it counts as.
    fn hash(&self, value: &impl Hash) -> BudgetOwner {
        BudgetOwner(self.0.hasher.hash_one(value))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        crate::lock(&self.0.state)
    }

    fn give_back(&self, owner: BudgetOwner, bytes: usize) {
        let granted = self.lock().give_back(owner, bytes);
        // Without the lock: a waker may do anything.
        granted.into_iter().for_each(std::task::Waker::wake);
    }
}

impl BudgetAccount {
    /// Returns an empty reservation.
    #[must_use]
    pub fn open(&self) -> Reservation {
        self.budget.open(self.owner)
    }

    /// Returns the budget of the account.
    #[must_use]
    pub fn budget(&self) -> &ByteBudget {
        &self.budget
    }
}

impl Reservation {
    /// Returns the number of bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the most bytes that it can hold more now.
    #[must_use]
    pub fn room(&self) -> usize {
        self.budget.room(self.owner)
    }

    /// Returns its budget.
    #[must_use]
    pub fn budget(&self) -> &ByteBudget {
        &self.budget
    }

    /// Holds `bytes` more if they fit now.
    ///
    /// # Errors
    /// They do not.
    pub fn try_grow(&mut self, bytes: usize) -> Result<(), BudgetExceededError> {
        if !self.budget.lock().take(self.owner, bytes) {
            return Err(BudgetExceededError);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Holds `bytes` more as soon as they fit. The time is for the caller to bound. Fails at once where too many wait
    /// already, or where half of the budget is less than `bytes`.
    pub fn grow(&mut self, bytes: usize) -> GrowFuture<'_> {
        GrowFuture { reservation: self, bytes }
    }

    /// Polls for `bytes` more, the same number in each poll until this is ready. As [`grow`](Self::grow), for a caller that
    /// has no future to keep; it may stop with [`stop_waiting`](Self::stop_waiting).
    ///
    /// # Errors
    /// As [`grow`](Self::grow).
    pub fn poll_grow(
        &mut self,
        cx: &mut Context<'_>,
        bytes: usize,
    ) -> Poll<Result<(), BudgetExceededError>> {
        let mut state = self.budget.lock();
        let outcome = match self.waiter {
            Some((id, _)) => state.poll(id, cx.waker()),
            None => state.wait(self.owner, bytes, cx.waker()),
        };
        drop(state);
        match outcome {
            WaitOutcome::Granted => {
                self.bytes += self.waiter.take().map_or(bytes, |(_, bytes)| bytes);
                Poll::Ready(Ok(()))
            }
            WaitOutcome::Waiting(id) => {
                self.waiter = Some((id, bytes));
                Poll::Pending
            }
            WaitOutcome::Rejected => {
                self.waiter = None;
                Poll::Ready(Err(BudgetExceededError))
            }
        }
    }

    /// Gives up what [`poll_grow`](Self::poll_grow) waits for.
    pub fn stop_waiting(&mut self) {
        let Some((id, bytes)) = self.waiter.take() else { return };
        let was_granted = self.budget.lock().leave(id);
        if was_granted {
            self.budget.give_back(self.owner, bytes);
        }
    }

    /// Gives back all but `bytes`, if it holds more.
    pub fn shrink(&mut self, bytes: usize) {
        drop(self.split(self.bytes.saturating_sub(bytes)));
    }

    /// Moves `bytes`, or all if it holds less, to a reservation of their own.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { budget: self.budget.clone(), owner: self.owner, bytes, waiter: None }
    }

    /// Returns `buffer` as bytes that hold this reservation until the last slice of them is dropped.
    #[must_use]
    pub fn attach(self, buffer: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(ReservedBuffer { buffer, _reservation: self })
    }
}

impl Future for GrowFuture<'_> {
    type Output = Result<(), BudgetExceededError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.reservation.poll_grow(cx, this.bytes)
    }
}

impl Drop for GrowFuture<'_> {
    fn drop(&mut self) {
        self.reservation.stop_waiting();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.stop_waiting();
        if self.bytes > 0 {
            self.budget.give_back(self.owner, self.bytes);
        }
    }
}

impl Drop for DrainPermit {
    fn drop(&mut self) {
        self.0.0.drains.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for ReservedBuffer<T> {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_ref()
    }
}

impl fmt::Debug for ByteBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ByteBudget").field(&self.counts()).finish()
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reservation({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests;
