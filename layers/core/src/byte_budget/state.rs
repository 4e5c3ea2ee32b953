//! The accounts of a byte budget, without locks and time.

use std::collections::HashMap;
use std::task::Waker;

use super::BudgetOwner;

/// The most requests that wait. Each has at most one frame in memory that is not counted yet.
pub(super) const MAX_WAITERS: usize = 64;

/// The most of them that are one owner's.
pub(super) const MAX_OWN_WAITERS: usize = MAX_WAITERS / 4;

/// What is held by each owner, and who waits for how much.
///
/// Invariants: `held` is the sum over `owners` and at most `limit`; each of `owners` has more than 0 and at most `share`;
/// between calls, no waiter that is not granted would fit.
#[derive(Debug)]
pub(super) struct State {
    limit: usize,
    share: usize,
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
pub(super) enum Wait {
    Granted,
    Waiting(u64),
    Refused,
}

impl State {
    pub(super) fn new(limit: usize, share: usize) -> Self {
        let (owners, waiters) = (HashMap::new(), Vec::new());
        Self { limit, share, held: 0, owners, waiters, next_id: 0 }
    }

    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Counts `bytes` for `owner` if they fit.
    pub(super) fn take(&mut self, owner: BudgetOwner, bytes: usize) -> bool {
        let own = self.owners.get(&owner).copied().unwrap_or_default();
        let fits = bytes <= self.limit - self.held && bytes <= self.share - own;
        if fits && bytes > 0 {
            self.held += bytes;
            self.owners.insert(owner, own + bytes);
        }
        fits
    }

    /// Counts `bytes`, or puts them at the end of those that wait.
    pub(super) fn wait(&mut self, owner: BudgetOwner, bytes: usize, waker: &Waker) -> Wait {
        if self.take(owner, bytes) {
            return Wait::Granted;
        }
        let own = self.waiters.iter().filter(|waiter| waiter.owner == owner).count();
        if bytes > self.share || own >= MAX_OWN_WAITERS || self.waiters.len() >= MAX_WAITERS {
            return Wait::Refused;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.waiters.push(Waiter { id, owner, bytes, waker: Some(waker.clone()) });
        Wait::Waiting(id)
    }

    /// Looks at a waiter, which is gone once this says that it is granted.
    pub(super) fn poll(&mut self, id: u64, waker: &Waker) -> Wait {
        let Some(place) = self.place(id) else { return Wait::Refused };
        if let Some(known) = self.waiters.get_mut(place).and_then(|waiter| waiter.waker.as_mut()) {
            known.clone_from(waker);
            return Wait::Waiting(id);
        }
        self.waiters.remove(place);
        Wait::Granted
    }

    /// Takes a waiter away. Returns whether it was granted: the caller gives its bytes back.
    pub(super) fn leave(&mut self, id: u64) -> bool {
        // One that is not granted takes part in no sum, so that nobody behind it fits any better without it.
        self.place(id).is_some_and(|place| self.waiters.remove(place).waker.is_none())
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
        for place in 0..self.waiters.len() {
            let Some(&Waiter { owner, bytes, ref waker, .. }) = self.waiters.get(place) else {
                break;
            };
            if waker.is_some() && self.take(owner, bytes) {
                granted.extend(self.waiters.get_mut(place).and_then(|waiter| waiter.waker.take()));
            }
        }
        granted
    }

    fn place(&self, id: u64) -> Option<usize> {
        self.waiters.iter().position(|waiter| waiter.id == id)
    }

    /// Panics where an invariant does not hold.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert_eq!(self.held, self.owners.values().sum::<usize>());
        assert!(self.held <= self.limit);
        assert!(self.owners.values().all(|own| (1..=self.share).contains(own)));
        assert!(self.waiters.len() <= MAX_WAITERS);
        for waiter in self.waiters.iter().filter(|waiter| waiter.waker.is_some()) {
            let own = self.owners.get(&waiter.owner).copied().unwrap_or_default();
            let fits = self.held + waiter.bytes <= self.limit && own + waiter.bytes <= self.share;
            assert!(!fits, "{waiter:?} waits although it fits");
        }
    }
}
