//! The accounts of a byte budget, without locks and time.

use std::collections::HashMap;
use std::task::Waker;

use super::BudgetOwner;

/// The maximum number of waiters. Each has at most one frame in memory that is not counted yet.
pub(super) const MAX_WAITERS: usize = 256;

/// Bytes held by each owner, and the waiters.
///
/// Invariants: `held` is the sum over `owners` and at most `limit`; each of `owners` has more than 0; between calls, no
/// waiter that is not granted would fit.
#[derive(Debug)]
pub(super) struct State {
    limit: usize,
    held: usize,
    owners: HashMap<BudgetOwner, usize>,
    /// In the order in which they came.
    waiters: Vec<Waiter>,
    next_id: u64,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    owner: BudgetOwner,
    bytes: usize,
    /// `None` once granted: its bytes are counted.
    waker: Option<Waker>,
}

/// Outcome of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitOutcome {
    Granted,
    Waiting(u64),
    Rejected,
}

impl State {
    pub(super) fn new(limit: usize) -> Self {
        let (owners, waiters) = (HashMap::new(), Vec::new());
        Self { limit, held: 0, owners, waiters, next_id: 0 }
    }

    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Returns the most bytes that `owner` can take now. It may hold half of what the others leave, so that no owner, nor
    /// any few of them, uses up the budget.
    pub(super) fn room(&self, owner: BudgetOwner) -> usize {
        // An owner without an entry holds nothing.
        let own = self.owners.get(&owner).copied().unwrap_or(0);
        self.limit.saturating_sub(self.held + own) / 2
    }

    /// Counts `bytes` for `owner` if they fit.
    pub(super) fn take(&mut self, owner: BudgetOwner, bytes: usize) -> bool {
        let fits = bytes <= self.room(owner);
        if fits && bytes > 0 {
            self.held += bytes;
            *self.owners.entry(owner).or_default() += bytes;
        }
        fits
    }

    /// Counts `bytes`, or puts them at the end of those that wait.
    pub(super) fn wait(&mut self, owner: BudgetOwner, bytes: usize, waker: &Waker) -> WaitOutcome {
        if self.take(owner, bytes) {
            return WaitOutcome::Granted;
        }
        let own = self.waiters.iter().filter(|waiter| waiter.owner == owner).count();
        // As with bytes: half of the places that the others leave.
        let may_wait = 2 * (own + 1) <= MAX_WAITERS + own - self.waiters.len();
        if bytes > self.limit / 2 || !may_wait {
            return WaitOutcome::Rejected;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.waiters.push(Waiter { id, owner, bytes, waker: Some(waker.clone()) });
        WaitOutcome::Waiting(id)
    }

    /// Looks at a waiter, which is gone once this says that it is granted.
    pub(super) fn poll(&mut self, id: u64, waker: &Waker) -> WaitOutcome {
        let Some(index) = self.index_of(id) else { return WaitOutcome::Rejected };
        if let Some(waiting) = self.waiters.get_mut(index).and_then(|waiter| waiter.waker.as_mut())
        {
            waiting.clone_from(waker);
            return WaitOutcome::Waiting(id);
        }
        self.waiters.remove(index);
        WaitOutcome::Granted
    }

    /// Takes a waiter away. Returns whether it was granted: the caller gives its bytes back.
    pub(super) fn leave(&mut self, id: u64) -> bool {
        // One that is not granted takes part in no sum, so that the waiters behind it fit no better without it.
        self.index_of(id).is_some_and(|index| self.waiters.remove(index).waker.is_none())
    }

    /// Counts `bytes` of `owner` no longer. Returns the wakers of those that fit now, which are granted.
    pub(super) fn give_back(&mut self, owner: BudgetOwner, bytes: usize) -> Vec<Waker> {
        self.held = self.held.saturating_sub(bytes);
        if let Some(own) = self.owners.get_mut(&owner) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                self.owners.remove(&owner);
            }
        }
        let mut granted = Vec::new();
        for index in 0..self.waiters.len() {
            let Some(&Waiter { owner, bytes, ref waker, .. }) = self.waiters.get(index) else {
                break;
            };
            if waker.is_some() && self.take(owner, bytes) {
                granted.extend(self.waiters.get_mut(index).and_then(|waiter| waiter.waker.take()));
            }
        }
        granted
    }

    fn index_of(&self, id: u64) -> Option<usize> {
        self.waiters.iter().position(|waiter| waiter.id == id)
    }

    /// Panics where an invariant does not hold.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert_eq!(self.held, self.owners.values().sum::<usize>());
        assert!(self.held <= self.limit);
        assert!(self.owners.values().all(|own| *own > 0));
        assert!(self.waiters.len() <= MAX_WAITERS);
        for waiter in self.waiters.iter().filter(|waiter| waiter.waker.is_some()) {
            let fits = waiter.bytes <= self.room(waiter.owner);
            assert!(!fits, "{waiter:?} waits although it fits");
        }
    }
}
