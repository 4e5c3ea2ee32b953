//! Reaper of unused connections.
//!
//! No task polls an idle connection, so only the reaper detects that it has expired or that the
//! peer has closed it. One task per factory checks all of them periodically. It starts with the
//! first idle connection and ends when none is left, or when the factory and its clients are
//! dropped.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{MissedTickBehavior, interval},
};

use crate::egress::Shared;

/// Starts the reaper, unless it runs.
pub(crate) fn ensure(shared: &Arc<Shared>) {
    if shared.reaping.load(Ordering::SeqCst) || shared.reaping.swap(true, Ordering::SeqCst) {
        return;
    }
    // A response may be dropped after its runtime; its connection is closed with the client.
    let Ok(runtime) = Handle::try_current() else {
        shared.reaping.store(false, Ordering::SeqCst);
        return;
    };
    let period = shared.settings.reap_interval.max(Duration::from_millis(1));
    let shared = Arc::downgrade(shared);
    runtime.spawn(async move {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let Some(shared) = shared.upgrade() else { return };
            for pool in shared.pools() {
                pool.reap(shared.settings.idle_timeout);
            }
            if is_done(&shared) {
                return;
            }
        }
    });
}

/// Stops the reaper if no connection is left, unless one has become idle concurrently.
fn is_done(shared: &Shared) -> bool {
    let has_work = || shared.pools().iter().any(|pool| pool.needs_reaping());
    if has_work() {
        return false;
    }
    // A task that makes a connection idle reads `reaping` after it has released the pool's lock,
    // which is
    // taken again below. So either that task starts a reaper, or this one sees the connection.
    shared.reaping.store(false, Ordering::SeqCst);
    !has_work() || shared.reaping.swap(true, Ordering::SeqCst)
}
