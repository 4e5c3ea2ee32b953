//! Worker threads for connections, with one event loop each.
//!
//! A connection stays on its worker, and so do the connections to backends that it uses: the data of a request stays
//! in the cache of one processor, and no request wakes another thread. Background tasks, such as health checks, run on
//! the runtime that started the server.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use vmcp_core::set_worker_index;

/// Worker threads. Dropping the value stops them.
#[derive(Debug)]
pub(crate) struct WorkerPool(Vec<Worker>);

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    /// Number of connections of this worker: one for each live [`ConnectionCount`]. Relaxed: a stale number only assigns a
    /// connection to another worker.
    connections: Arc<AtomicUsize>,
    /// Dropping the sender stops the worker.
    _running: oneshot::Sender<()>,
}

impl WorkerPool {
    /// Starts `threads` workers.
    pub(crate) fn start(threads: NonZeroUsize) -> io::Result<Self> {
        (1..=threads.get()).map(Worker::start).collect::<io::Result<_>>().map(Self)
    }

    /// Assigns `connection` to the worker with the fewest connections.
    pub(crate) fn serve(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let least = self.0.iter().min_by_key(|worker| worker.connections.load(Ordering::Relaxed));
        let Worker { runtime, connections, .. } = least.expect("there is at least one worker");
        let counted = ConnectionCount::new(connections);
        runtime.spawn(async move {
            connection.await;
            drop(counted);
        });
    }
}

impl Worker {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel();
        thread::Builder::new().name(format!("vmcp-worker-{number}")).spawn(move || {
            set_worker_index(number);
            // The channel carries no values: the worker waits for the drop of the sender.
            _ = runtime.block_on(ended);
        })?;
        Ok(Self { runtime: handle, connections: Arc::default(), _running: running })
    }
}

/// Counts a connection while it is open.
struct ConnectionCount(Arc<AtomicUsize>);

impl ConnectionCount {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn assigns_connections_to_least_loaded_worker() {
        let workers = WorkerPool::start(NonZeroUsize::new(2).unwrap()).unwrap();
        let (told, mut names) = mpsc::unbounded_channel();
        let mut open = Vec::new();
        for _ in 0..4 {
            let told = told.clone();
            let (keep, kept) = oneshot::channel::<()>();
            open.push(keep);
            workers.serve(async move {
                let name = || thread::current().name().unwrap().to_owned();
                let first = name();
                tokio::task::yield_now().await;
                assert_eq!(name(), first);
                told.send(first).unwrap();
                _ = kept.await;
            });
        }
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(names.recv().await.unwrap());
        }
        seen.sort();
        assert_eq!(seen, ["vmcp-worker-1", "vmcp-worker-1", "vmcp-worker-2", "vmcp-worker-2"]);
        // After the connections of one worker end, it gets the next two.
        drop(open);
    }
}
