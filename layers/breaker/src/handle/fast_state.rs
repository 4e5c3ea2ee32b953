//! The part of a circuit's state that the path of a healthy backend reads.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Outcome;

/// Snapshot of a circuit in one word: the epoch, and from the lowest bit on whether it has no failures and is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FastState(u64);

/// Shared [`FastState`]. Stored with `Release` under the lock of the state machine and always equal to its state then;
/// loaded with `Acquire`. A reader of an outdated value behaves as if it had come before the last update.
pub(super) struct AtomicFastState(AtomicU64);

impl FastState {
    pub(super) fn new(epoch: u32, is_closed: bool, has_failures: bool) -> Self {
        let flags = u64::from(is_closed) * 2 + u64::from(!has_failures);
        Self(u64::from(epoch) * 4 + flags)
    }

    pub(super) fn epoch(self) -> u32 {
        u32::try_from(self.0 / 4).expect("the epoch has 32 bits")
    }

    pub(super) fn is_closed(self) -> bool {
        self.0 % 4 >= 2
    }

    fn has_failures(self) -> bool {
        self.0.is_multiple_of(2)
    }

    /// Returns `true` if `outcome` of a request of `epoch` does not change the circuit.
    pub(super) fn absorbs(self, epoch: u32, outcome: Outcome) -> bool {
        let is_unchanged = match outcome {
            Outcome::Success => !self.has_failures(),
            Outcome::Neutral => true,
            Outcome::Failure => false,
        };
        is_unchanged && self.is_closed() && self.epoch() == epoch
    }
}

impl AtomicFastState {
    pub(super) fn new(state: FastState) -> Self {
        Self(AtomicU64::new(state.0))
    }

    pub(super) fn load(&self) -> FastState {
        FastState(self.0.load(Ordering::Acquire))
    }

    pub(super) fn store(&self, state: FastState) {
        self.0.store(state.0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_what_it_was_made_of() {
        for epoch in [0, 1, 2, 3, u32::MAX] {
            for (is_closed, has_failures) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let state = FastState::new(epoch, is_closed, has_failures);
                let parts = (state.epoch(), state.is_closed(), state.has_failures());
                assert_eq!(parts, (epoch, is_closed, has_failures));
                let shared = AtomicFastState::new(FastState(0));
                shared.store(state);
                assert_eq!(shared.load(), state);
            }
        }
    }

    #[test]
    fn absorbs_outcomes_that_change_nothing() {
        let closed = FastState::new(7, true, false);
        let absorbed = |state: FastState, epoch| {
            [Outcome::Success, Outcome::Neutral, Outcome::Failure]
                .map(|outcome| state.absorbs(epoch, outcome))
        };
        assert_eq!(absorbed(closed, 7), [true, true, false]);
        assert_eq!(absorbed(closed, 8), [false; 3]);
        assert_eq!(absorbed(FastState::new(7, true, true), 7), [false, true, false]);
        assert_eq!(absorbed(FastState::new(7, false, false), 7), [false; 3]);
    }
}
