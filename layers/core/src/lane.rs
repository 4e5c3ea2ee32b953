//! Values of each event loop of a process, so that requests on one processor share no memory with those on
//! another.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

static PLANNED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LANE: Cell<usize> = const { Cell::new(0) };
}

/// Announces event loops on threads of their own: each [`PerLane`] made from now on has a place for
/// `lanes` of them, besides the one for all other threads.
pub fn plan_lanes(lanes: usize) {
    PLANNED.store(lanes, Ordering::Relaxed);
}

/// Says that this thread runs one of the event loops, which are numbered from 1.
///
/// The loop must be this thread's alone and must live until everything made in it is gone: what is kept
/// in its place of a [`PerLane`] may belong to its runtime.
pub fn enter_lane(lane: usize) {
    LANE.set(lane);
}

/// One `T` for each event loop that was announced by [`plan_lanes`], and one for all other threads.
///
/// Without such event loops, all threads share one.
#[derive(Default)]
pub struct PerLane<T> {
    shared: Apart<T>,
    lanes: Box<[Apart<T>]>,
}

/// On cache lines of its own; processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Apart<T>(T);

impl<T: Default> PerLane<T> {
    /// A place for each.
    #[must_use]
    pub fn new() -> Self {
        let planned = PLANNED.load(Ordering::Relaxed);
        Self {
            shared: Apart::default(),
            lanes: std::iter::repeat_with(Apart::default).take(planned).collect(),
        }
    }
}

impl<T> PerLane<T> {
    /// Returns the value of this thread's event loop.
    #[must_use]
    pub fn mine(&self) -> &T {
        let lane = LANE.get().checked_sub(1).and_then(|lane| self.lanes.get(lane));
        &lane.unwrap_or(&self.shared).0
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.shared).chain(&self.lanes).map(|apart| &apart.0)
    }

    /// Returns the number of event loops that share a limit: at least one.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes.len().max(1)
    }
}

impl<T: fmt::Debug> fmt::Debug for PerLane<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    // One test: what is announced is announced for the whole process.
    #[test]
    fn each_event_loop_that_was_announced_has_its_own_and_all_others_share_one() {
        let before = PerLane::<AtomicUsize>::new();
        plan_lanes(2);
        let after = PerLane::<AtomicUsize>::new();
        assert_eq!((before.lanes(), after.lanes()), (1, 2));
        thread::scope(|scope| {
            for lane in [0, 1, 2, 3] {
                let (before, after) = (&before, &after);
                scope.spawn(move || {
                    enter_lane(lane);
                    before.mine().fetch_add(1, Ordering::Relaxed);
                    after.mine().fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        let counts = |all: &PerLane<AtomicUsize>| -> Vec<_> {
            all.iter().map(|count| count.load(Ordering::Relaxed)).collect()
        };
        assert_eq!(counts(&before), [4]);
        assert_eq!(counts(&after), [2, 1, 1], "one that was not announced shares, too");
    }
}
