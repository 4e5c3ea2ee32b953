//! Closes connections that nobody uses.
//!
//! Nobody polls an idle connection, so nothing else would notice that it is old or that the peer
//! has left. One task per factory looks at all of them now and then. It begins with the first idle
//! connection and ends when none is left or the factory and its clients are gone.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

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

/// Ends the task's duty if nothing is left, unless something became idle at the same moment.
fn is_done(shared: &Shared) -> bool {
    let has_work = || shared.pools().iter().any(|pool| pool.needs_reaping());
    if has_work() {
        return false;
    }
    // Who makes a connection idle looks at this after it has released the pool's lock, which is
    // taken again below: one of the two sees the other.
    shared.reaping.store(false, Ordering::SeqCst);
    !has_work() || shared.reaping.swap(true, Ordering::SeqCst)
}
