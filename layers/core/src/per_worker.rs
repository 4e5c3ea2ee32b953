//! One value for each worker of a process, so that requests on one processor share no memory with those on another.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

static WORKER_COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static WORKER_INDEX: Cell<usize> = const { Cell::new(0) };
}

/// Sets the number of workers, event loops on threads of their own. Each [`PerWorker`] that is created afterwards has a value
/// for each of `count` workers, and one for all other threads.
pub fn set_worker_count(count: usize) {
    WORKER_COUNT.store(count, Ordering::Relaxed);
}

/// Sets the index of this thread's worker, from 1.
///
/// No other thread may have the same index. The worker must outlive everything that it creates: values in a [`PerWorker`] may
/// belong to its runtime.
pub fn set_worker_index(index: usize) {
    WORKER_INDEX.set(index);
}

/// One `T` for each worker of [`set_worker_count`], and one for all other threads.
///
/// Without workers, all threads share one.
#[derive(Default)]
pub struct PerWorker<T> {
    shared: CachePadded<T>,
    workers: Box<[CachePadded<T>]>,
}

/// Value on cache lines of its own. Processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct CachePadded<T>(T);

impl<T: Default> PerWorker<T> {
    /// Creates a value for each worker.
    #[must_use]
    pub fn new() -> Self {
        let count = WORKER_COUNT.load(Ordering::Relaxed);
        Self {
            shared: CachePadded::default(),
            workers: std::iter::repeat_with(CachePadded::default).take(count).collect(),
        }
    }
}

impl<T> PerWorker<T> {
    /// Returns the value of this thread's worker.
    #[must_use]
    pub fn local(&self) -> &T {
        let worker = WORKER_INDEX.get().checked_sub(1).and_then(|index| self.workers.get(index));
        &worker.unwrap_or(&self.shared).0
    }

    /// Iterates over all values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.shared).chain(&self.workers).map(|padded| &padded.0)
    }

    /// Returns the number of workers that share a limit: at least one.
    #[must_use]
    pub fn worker_count(&self) -> usize {
        self.workers.len().max(1)
    }
}

impl<T: fmt::Debug> fmt::Debug for PerWorker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    // One test, because the number is that of the whole process.
    #[test]
    fn workers_have_own_values_other_threads_share() {
        let before = PerWorker::<AtomicUsize>::new();
        set_worker_count(2);
        let after = PerWorker::<AtomicUsize>::new();
        assert_eq!((before.worker_count(), after.worker_count()), (1, 2));
        thread::scope(|scope| {
            for index in [0, 1, 2, 3] {
                let (before, after) = (&before, &after);
                scope.spawn(move || {
                    set_worker_index(index);
                    before.local().fetch_add(1, Ordering::Relaxed);
                    after.local().fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        let counts = |all: &PerWorker<AtomicUsize>| -> Vec<_> {
            all.iter().map(|count| count.load(Ordering::Relaxed)).collect()
        };
        assert_eq!(counts(&before), [4]);
        assert_eq!(counts(&after), [2, 1, 1], "a worker beyond the number shares");
    }
}
