//! Locks that survive a panic of their holder.

use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks a mutex. If a holder panicked, logs an error, and continues with the value that it left.
///
/// A panic fails the request that caused it. Without this, it would fail all later ones. For use where a critical section
/// leaves the value valid at each step.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| {
        log_poisoned();
        mutex.clear_poison();
        poisoned.into_inner()
    })
}

/// Locks for reading; see [`lock`].
pub fn read_lock<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(|poisoned| {
        log_poisoned();
        lock.clear_poison();
        poisoned.into_inner()
    })
}

/// Locks for writing; see [`lock`].
pub fn write_lock<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(|poisoned| {
        log_poisoned();
        lock.clear_poison();
        poisoned.into_inner()
    })
}

fn log_poisoned() {
    tracing::error!("lock_poisoned: a task panicked while it held a lock");
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use vmcp_test_support::LogCapture;

    use super::*;

    #[test]
    fn logs_panic_of_holder_once() {
        let log = LogCapture::current_thread();
        let (mutex, rw_lock) = (Mutex::new(1), RwLock::new(1));
        for panics in [true, false] {
            let _ = catch_unwind(AssertUnwindSafe(|| {
                let _guards = (lock(&mutex), write_lock(&rw_lock));
                assert!(!panics, "holder panics");
            }));
            assert_eq!((*lock(&mutex), *read_lock(&rw_lock)), (1, 1));
        }
        assert_eq!(log.text().matches("lock_poisoned").count(), 2, "{}", log.text());
    }
}
