//! The event loops that requests are answered on, one thread each.
//!
//! A connection stays on the loop that it was given to, and so do the connections to backends that it
//! uses: nothing of a request moves from one processor's cache to another's, and no thread is woken to
//! take over from another. What serves no request, such as looking after the backends, stays on the runtime
//! that the server was started in.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use vmcp_core::set_worker_index;

/// Event loops, which end when this is dropped.
#[derive(Debug)]
pub(super) struct Lanes(Vec<Lane>);

#[derive(Debug)]
struct Lane {
    runtime: Handle,
    /// Number of connections of this worker.
    connections: Arc<AtomicUsize>,
    /// Dropped, it ends the loop.
    _running: oneshot::Sender<()>,
}

impl Lanes {
    /// Starts so many threads.
    pub(super) fn start(threads: NonZeroUsize) -> io::Result<Self> {
        (1..=threads.get()).map(Lane::start).collect::<io::Result<_>>().map(Self)
    }

    /// Has `connection` served by the loop that serves the fewest.
    pub(super) fn serve(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let least = self.0.iter().min_by_key(|lane| lane.connections.load(Ordering::Relaxed));
        let Some(Lane { runtime, connections, .. }) = least else { return };
        let counted = Counted::new(connections);
        runtime.spawn(async move {
            connection.await;
            drop(counted);
        });
    }
}

impl Lane {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel();
        thread::Builder::new().name(format!("vmcp-lane-{number}")).spawn(move || {
            set_worker_index(number);
            // Its sender is never used: that it is gone is what is waited for.
            _ = runtime.block_on(ended);
        })?;
        Ok(Self { runtime: handle, connections: Arc::default(), _running: running })
    }
}

/// Counts a connection for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn connections_go_to_the_loop_with_the_fewest_and_stay_there() {
        let lanes = Lanes::start(NonZeroUsize::new(2).unwrap()).unwrap();
        let (told, mut names) = mpsc::unbounded_channel();
        let mut open = Vec::new();
        for _ in 0..4 {
            let told = told.clone();
            let (keep, kept) = oneshot::channel::<()>();
            open.push(keep);
            lanes.serve(async move {
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
        assert_eq!(seen, ["vmcp-lane-1", "vmcp-lane-1", "vmcp-lane-2", "vmcp-lane-2"]);
        // Those of one loop end: the next two are its.
        drop(open);
    }
}
