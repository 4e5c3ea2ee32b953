//! Connections to other replicas.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use vmcp_core::{SingleFlight, lock};

use crate::connect::Sender;
use crate::error::ForwardError;
use crate::handle::ReplicaHandle;

/// Time after which a connection without requests is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Open connections, one to each replica.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    open: Mutex<HashMap<ReplicaHandle, PooledConnection>>,
    /// Connections being opened. Concurrent requests share the attempt and its error.
    opening: SingleFlight<ReplicaHandle, Result<Connection, ForwardError>>,
}

/// Connection in use. A clone is another user of it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) sender: Sender,
    /// One count a user, and one for the pool.
    users: Arc<()>,
}

#[derive(Debug)]
struct PooledConnection {
    connection: Connection,
    last_use: Instant,
}

impl Pool {
    /// Creates a pool, and starts the task that closes idle connections.
    pub(crate) fn start() -> Arc<Self> {
        let pool = Arc::<Self>::default();
        tokio::spawn(sweep(Arc::downgrade(&pool)));
        pool
    }

    /// Returns the open connection to a replica.
    pub(crate) fn get(&self, peer: &ReplicaHandle) -> Option<Connection> {
        let mut open = lock(&self.open);
        let pooled = open.get_mut(peer)?;
        if pooled.connection.sender.is_closed() {
            open.remove(peer);
            return None;
        }
        pooled.last_use = Instant::now();
        Some(pooled.connection.clone())
    }

    /// Returns the connection that `connect` opens, or the one that is being opened.
    pub(crate) async fn open<F>(
        self: &Arc<Self>,
        peer: &ReplicaHandle,
        connect: impl FnOnce() -> F,
    ) -> Result<Connection, ForwardError>
    where
        F: Future<Output = Result<Sender, ForwardError>> + Send + 'static,
    {
        let opening = || {
            let (pool, peer, connecting) = (Arc::clone(self), peer.clone(), connect());
            async move {
                let connection = Connection { sender: connecting.await?, users: Arc::default() };
                let pooled =
                    PooledConnection { connection: connection.clone(), last_use: Instant::now() };
                lock(&pool.open).insert(peer, pooled);
                Ok(connection)
            }
        };
        self.opening.join(peer.clone(), opening).await
    }

    fn sweep(&self) {
        let now = Instant::now();
        lock(&self.open).retain(|_, PooledConnection { connection, last_use }| {
            if Arc::strong_count(&connection.users) > 1 {
                *last_use = now;
            }
            !connection.sender.is_closed() && now.duration_since(*last_use) < IDLE_TIMEOUT
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
