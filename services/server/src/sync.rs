//! Locking of mutexes whose data stays valid after a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if a panic has poisoned it: each critical section of this crate replaces, inserts or counts single
/// values, so that a panic leaves no half-made change, and one failed request must not fail all later ones.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
