//! Reaper of unused connections.
//!
//! No task polls an idle connection, so only the reaper detects that it has expired or that the
//! peer has closed it. One task per factory checks all of them periodically. It starts with the
//! first idle connection and ends when none is left, or when the factory and its clients are
//! dropped.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{MissedTickBehavior, interval},
};
use vmcp_core::lock;

/// Connection pool of one client, as the reaper and the gauges see it.
pub(crate) trait ReapedPool: Send + Sync {
    /// Closes connections that have been idle for longer than `age` or that the peer has closed.
    fn reap(&self, age: Duration);
    /// Returns whether the reaper has connections to check.
    fn needs_reaping(&self) -> bool;
    /// Returns the number of idle connections.
    fn idle(&self) -> usize;
    /// Returns the number of exchanges.
    fn in_flight(&self) -> usize;
}

/// Reaper of the connections of all pools of a factory.
pub(crate) struct Reaper {
    interval: Duration,
    idle_timeout: Duration,
    /// `true` while the task runs, or starts.
    is_running: AtomicBool,
    pools: Mutex<Vec<Weak<dyn ReapedPool>>>,
}

impl Reaper {
    pub(crate) fn new(interval: Duration, idle_timeout: Duration) -> Self {
        let is_running = AtomicBool::new(false);
        Self { interval, idle_timeout, is_running, pools: Mutex::default() }
    }

    /// Adds a pool, until it is dropped.
    pub(crate) fn register(&self, pool: &Arc<impl ReapedPool + 'static>) {
        let pool: Weak<dyn ReapedPool> = Arc::downgrade(&(Arc::clone(pool) as Arc<dyn ReapedPool>));
        let mut pools = self.lock_pools();
        // Reloads create new clients: remove the pools of dropped ones.
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(pool);
    }

    /// Returns the pools of all existing clients.
    pub(crate) fn pools(&self) -> Vec<Arc<dyn ReapedPool>> {
        self.lock_pools().iter().filter_map(Weak::upgrade).collect()
    }

    /// Starts the task, unless it runs.
    pub(crate) fn ensure_running(self: &Arc<Self>) {
        if self.is_running.load(Ordering::SeqCst) || self.is_running.swap(true, Ordering::SeqCst) {
            return;
        }
        // A response may be dropped after its runtime; its connection is closed with the client.
        let Ok(runtime) = Handle::try_current() else {
            self.is_running.store(false, Ordering::SeqCst);
            return;
        };
        let period = self.interval.max(Duration::from_millis(1));
        let this = Arc::downgrade(self);
        runtime.spawn(async move {
            let mut ticks = interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks.tick().await;
            loop {
                ticks.tick().await;
                let Some(this) = this.upgrade() else { return };
                for pool in this.pools() {
                    pool.reap(this.idle_timeout);
                }
                if this.is_done() {
                    return;
                }
            }
        });
    }

    /// Ends the task if no connection is left, unless one has become idle concurrently.
    fn is_done(&self) -> bool {
        let has_work = || self.pools().iter().any(|pool| pool.needs_reaping());
        if has_work() {
            return false;
        }
        // A task that makes a connection idle reads `is_running` after it has released the pool's
        // lock, which is taken again below. So either that task starts the reaper, or this one sees
        // the connection.
        self.is_running.store(false, Ordering::SeqCst);
        !has_work() || self.is_running.swap(true, Ordering::SeqCst)
    }

    fn lock_pools(&self) -> MutexGuard<'_, Vec<Weak<dyn ReapedPool>>> {
        lock(&self.pools)
    }
}
