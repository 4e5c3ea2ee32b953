//! Closes connections that nobody uses.
//!
//! Nobody polls an idle connection, so nothing else would notice that it is old or that the peer
//! has left. One task per factory looks at all of them now and then. It begins with the first idle
//! connection and ends when none is left or the factory and its clients are gone.

use std::sync::{Arc, PoisonError, atomic::Ordering};

use tokio::{
    runtime::Handle,
    time::{MissedTickBehavior, interval},
};

use crate::egress::Shared;

/// Makes sure that somebody looks after what has just become idle.
pub(crate) fn ensure(shared: &Arc<Shared>) {
    if shared.reaping.load(Ordering::SeqCst) || shared.reaping.swap(true, Ordering::SeqCst) {
        return;
    }
    // A response may be dropped after its runtime; its connection then goes with the client.
    let Ok(runtime) = Handle::try_current() else {
        shared.reaping.store(false, Ordering::SeqCst);
        return;
    };
    let period = shared.settings.reap_interval.max(std::time::Duration::from_millis(1));
    let shared = Arc::downgrade(shared);
    runtime.spawn(async move {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let Some(shared) = shared.upgrade() else { return };
            if !sweep(&shared) && !resume(&shared) {
                return;
            }
        }
    });
}

/// Looks at every pool. Returns whether anything idle is left.
fn sweep(shared: &Shared) -> bool {
    let pools: Vec<_> = {
        let mut pools = shared.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|pool| pool.strong_count() > 0);
        pools.iter().filter_map(std::sync::Weak::upgrade).collect()
    };
    // No short-circuit: every pool is swept.
    pools.iter().fold(false, |left, pool| pool.reap(shared.settings.idle_timeout) | left)
}

/// Ends the task's duty, unless a connection became idle since the sweep.
fn resume(shared: &Shared) -> bool {
    shared.reaping.store(false, Ordering::SeqCst);
    shared.idle.load(Ordering::SeqCst) > 0 && !shared.reaping.swap(true, Ordering::SeqCst)
}
