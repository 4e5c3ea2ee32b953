//! Queue of objects to reconcile. An object is reconciled by one worker at a time; changes meanwhile lead to one more
//! reconcile.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::key::ObjectKey;

/// Queue of objects to reconcile.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    added: Notify,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<ObjectKey>,
    /// Invariant: the items of `ready`.
    queued: HashSet<ObjectKey>,
    running: HashSet<ObjectKey>,
    /// Objects that changed while they were reconciled.
    changed: HashSet<ObjectKey>,
    delayed: BTreeMap<(Instant, u64), ObjectKey>,
    /// Invariant: the keys of `delayed` by object.
    timers: HashMap<ObjectKey, (Instant, u64)>,
    sequence: u64,
}

// === impl Queue ===

impl Queue {
    /// Adds an object, unless it is there. A worker that reconciles it now does so once more.
    pub(crate) fn add(&self, target: ObjectKey) {
        let mut state = self.lock();
        state.cancel_timer(&target);
        if state.running.contains(&target) {
            state.changed.insert(target);
            return;
        }
        state.push(target);
        drop(state);
        self.added.notify_one();
    }

    /// Returns the next object once there is one. The caller calls [`finish`](Self::finish) for it.
    pub(crate) async fn next(&self) -> ObjectKey {
        loop {
            let added = self.added.notified();
            let timer = {
                let mut state = self.lock();
                state.move_due(Instant::now());
                if let Some(target) = state.pop() {
                    return target;
                }
                state.delayed.keys().next().map(|(time, _)| *time)
            };
            match timer {
                Some(time) => tokio::select! {
                    () = added => {}
                    () = sleep_until(time) => {}
                },
                None => added.await,
            }
        }
    }

    /// Ends the reconcile of an object, which is due again after `delay`.
    pub(crate) fn finish(&self, target: &ObjectKey, delay: Option<Duration>) {
        let mut state = self.lock();
        state.running.remove(target);
        if state.changed.remove(target) {
            state.push(target.clone());
        } else if let Some(delay) = delay {
            state.cancel_timer(target);
            state.sequence += 1;
            let timer = (Instant::now() + delay, state.sequence);
            state.delayed.insert(timer, target.clone());
            state.timers.insert(target.clone(), timer);
        }
        drop(state);
        self.added.notify_one();
    }

    /// Returns whether an object waits for a worker, or is reconciled now.
    pub(crate) fn is_busy_with(&self, target: &ObjectKey) -> bool {
        let state = self.lock();
        state.queued.contains(target) || state.running.contains(target)
    }

    /// Returns the number of objects that wait for a worker.
    pub(crate) fn len(&self) -> usize {
        self.lock().ready.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, target: ObjectKey) {
        if self.queued.insert(target.clone()) {
            self.ready.push_back(target);
        }
    }

    fn pop(&mut self) -> Option<ObjectKey> {
        let target = self.ready.pop_front()?;
        self.queued.remove(&target);
        self.running.insert(target.clone());
        Some(target)
    }

    fn move_due(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let target = entry.remove();
            self.timers.remove(&target);
            self.push(target);
        }
    }

    fn cancel_timer(&mut self, target: &ObjectKey) {
        if let Some(timer) = self.timers.remove(target) {
            self.delayed.remove(&timer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Key, Kind};

    fn target(name: &str) -> ObjectKey {
        ObjectKey::new(Kind::VirtualMCPServer, Key::new("ns", name))
    }

    #[tokio::test]
    async fn equal_objects_wait_once() {
        let queue = Queue::default();
        for name in ["a", "b", "a"] {
            queue.add(target(name));
        }
        assert_eq!(queue.len(), 2);
        assert_eq!((queue.next().await, queue.next().await), (target("a"), target("b")));
    }

    #[tokio::test]
    async fn change_during_reconcile_repeats_it() {
        let queue = Queue::default();
        queue.add(target("a"));
        let running = queue.next().await;
        queue.add(target("a"));
        assert_eq!(queue.len(), 0);
        queue.finish(&running, None);
        assert_eq!(queue.next().await, target("a"));
    }

    #[tokio::test]
    async fn object_is_busy_until_its_reconcile_ends() {
        let queue = Queue::default();
        assert!(!queue.is_busy_with(&target("a")));
        queue.add(target("a"));
        assert!(queue.is_busy_with(&target("a")));
        let running = queue.next().await;
        assert!(queue.is_busy_with(&running));
        queue.finish(&running, Some(Duration::from_mins(1)));
        assert!(!queue.is_busy_with(&running), "a later reconcile is no present one");
    }

    #[tokio::test(start_paused = true)]
    async fn change_comes_before_timer() {
        let queue = Queue::default();
        queue.add(target("a"));
        let running = queue.next().await;
        queue.finish(&running, Some(Duration::from_mins(1)));
        queue.add(target("a"));
        let start = Instant::now();
        assert_eq!(queue.next().await, target("a"));
        assert_eq!(start.elapsed(), Duration::ZERO);
        queue.finish(&running, Some(Duration::from_mins(1)));
        assert_eq!(queue.next().await, target("a"));
        assert_eq!(start.elapsed().as_secs(), 60);
    }
}
