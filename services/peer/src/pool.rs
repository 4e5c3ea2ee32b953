//! Idle connections to other replicas.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use vmcp_core::lock;

use crate::connect::Sender;
use crate::handle::ReplicaHandle;

/// Maximum number of idle connections to one replica.
const MAX_IDLE: usize = 32;

/// Time after which an idle connection is closed. Shorter than that of the listener.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Idle connections, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<HashMap<ReplicaHandle, Vec<Idle>>>);

#[derive(Debug)]
struct Idle {
    sender: Sender,
    since: Instant,
}

impl Pool {
    /// Creates a pool, and starts the task that closes idle connections.
    pub(crate) fn start() -> Arc<Self> {
        let pool = Arc::<Self>::default();
        tokio::spawn(sweep(Arc::downgrade(&pool)));
        pool
    }

    pub(crate) fn take(&self, peer: &ReplicaHandle) -> Option<Sender> {
        let mut pool = lock(&self.0);
        let idle = pool.get_mut(peer)?;
        while let Some(Idle { sender, since }) = idle.pop() {
            if !sender.is_closed() && since.elapsed() < IDLE_TIMEOUT {
                return Some(sender);
            }
        }
        None
    }

    pub(crate) fn put(&self, peer: ReplicaHandle, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let mut pool = lock(&self.0);
        let idle = pool.entry(peer).or_default();
        if idle.len() < MAX_IDLE {
            idle.push(Idle { sender, since: Instant::now() });
        }
    }

    fn sweep(&self) {
        lock(&self.0).retain(|_, idle| {
            idle.retain(|it| !it.sender.is_closed() && it.since.elapsed() < IDLE_TIMEOUT);
            !idle.is_empty()
        });
    }
}

async fn sweep(pool: Weak<Pool>) {
    loop {
        sleep(IDLE_TIMEOUT / 3).await;
        let Some(pool) = pool.upgrade() else { return };
        pool.sweep();
    }
}
