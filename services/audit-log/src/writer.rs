//! The one task that writes, and formats what takes long.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::{JoinError, spawn_blocking};

use crate::queue::{PendingEvents, Queue};
use crate::{LineSink, Overflow, event_ids, line};

/// How long to wait before lines that could not be written are tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The most bytes that are kept for the next lines.
const MAX_RETAINED_BYTES: usize = 1 << 20;

/// Writes the events of one [`Log`](crate::Log). Nothing is written unless it [`run`](Writer::run)s.
#[derive(Debug)]
#[must_use = "nothing is written unless it runs"]
pub struct Writer<S> {
    queue: EndGuard,
    overflow: Overflow,
    batch: WriteBatch<S>,
}

/// Says so when the writer is gone, however that comes.
#[derive(Debug)]
struct EndGuard(Arc<Queue>);

/// What goes to the blocking thread and comes back.
#[derive(Debug)]
struct WriteBatch<S> {
    sink: S,
    component: Option<Box<str>>,
    pending: PendingEvents,
    lines: Vec<u8>,
}

impl<S: LineSink> Writer<S> {
    pub(crate) fn new(
        queue: Arc<Queue>,
        overflow: Overflow,
        component: Option<Box<str>>,
        sink: S,
    ) -> Self {
        let batch =
            WriteBatch { sink, component, pending: PendingEvents::default(), lines: Vec::new() };
        Self { queue: EndGuard(queue), overflow, batch }
    }

    /// Writes until the log is [closed](crate::Log::close) or gone and everything is written.
    /// To be spawned on a tokio runtime; writing itself happens on its blocking threads.
    pub async fn run(self) {
        let Self { queue: ended, overflow, mut batch } = self;
        let queue = &ended.0;
        let mut failing = false;
        loop {
            queue.gather().await;
            loop {
                let (pending, commands) = queue.take(std::mem::take(&mut batch.pending));
                let (count, weight) = (pending.count as u64, pending.weight);
                batch.pending = pending;
                let done = spawn_blocking(move || batch.format_and_write(commands.reopen)).await;
                let Some((back, mut outcome)) = join_result(done) else {
                    queue.failed.fetch_add(count, Ordering::Relaxed);
                    return;
                };
                batch = back;
                report(&outcome, &mut failing);
                let mut closing = commands.close;
                while outcome.is_err() && overflow == Overflow::Wait && !closing {
                    queue.pause(RETRY_INTERVAL).await;
                    let done = spawn_blocking(move || batch.write_lines()).await;
                    let Some(again) = join_result(done) else {
                        queue.failed.fetch_add(count, Ordering::Relaxed);
                        return;
                    };
                    (batch, outcome) = again;
                    report(&outcome, &mut failing);
                    closing = queue.is_closing();
                }
                let counter = if outcome.is_ok() { &queue.written } else { &queue.failed };
                counter.fetch_add(count, Ordering::Relaxed);
                batch.recycle_buffers();
                queue.release(weight);
                drop(commands.flushed);
                if !commands.close {
                    break;
                }
                if count == 0 {
                    return;
                }
            }
        }
    }
}

/// What a blocking thread gave back; `None` if there is nobody left to write.
fn join_result<T>(done: Result<T, JoinError>) -> Option<T> {
    // Otherwise the runtime is going down, and everybody knows.
    if done.as_ref().is_err_and(JoinError::is_panic) {
        tracing::error!("the audit sink has given up: no more events are written");
    }
    done.ok()
}

/// Once when it begins to fail, once when it is over.
fn report(outcome: &io::Result<()>, failing: &mut bool) {
    match (health_change(outcome.is_err(), failing), outcome) {
        (Some(HealthChange::Failed), Err(error)) => {
            tracing::error!(%error, "audit events cannot be written");
        }
        (Some(HealthChange::Recovered), _) => tracing::info!("audit events are written again"),
        (Some(HealthChange::Failed) | None, _) => {}
    }
}

/// What is worth a line in the process's own log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthChange {
    /// Writing does not work any more.
    Failed,
    /// It works again.
    Recovered,
}

/// Whether writing has turned bad or good.
pub(crate) fn health_change(fails: bool, failing: &mut bool) -> Option<HealthChange> {
    match (std::mem::replace(failing, fails), fails) {
        (false, true) => Some(HealthChange::Failed),
        (true, false) => Some(HealthChange::Recovered),
        (true, true) | (false, false) => None,
    }
}

impl<S: LineSink> WriteBatch<S> {
    /// Formats the events and writes them.
    fn format_and_write(mut self, reopen: bool) -> (Self, io::Result<()>) {
        if reopen && let Err(error) = self.sink.reopen() {
            tracing::error!(%error, "the audit log cannot be reopened; writing goes on to the old one");
        }
        if self.pending.count == 0 {
            return (self, Ok(()));
        }
        match self.format() {
            Ok(()) => self.write_lines(),
            Err(error) => (self, Err(error)),
        }
    }

    /// Makes lines of what waits, and leaves the room that they took to what comes next.
    fn format(&mut self) -> io::Result<()> {
        let Self { pending, lines, component, .. } = self;
        std::mem::swap(&mut pending.lines, lines);
        let unformatted = std::mem::take(&mut pending.unformatted);
        (pending.count, pending.weight) = (0, 0);
        for (event, behind) in unformatted {
            let id = event_ids::next().map_err(io::Error::other)?;
            line::write(&event, id, component.as_deref(), lines);
            lines.extend_from_slice(&behind);
        }
        Ok(())
    }

    /// Forgets the lines, and most of the room that a burst of them took.
    fn recycle_buffers(&mut self) {
        self.lines.clear();
        self.lines.shrink_to(MAX_RETAINED_BYTES);
        self.pending.lines.clear();
        self.pending.lines.shrink_to(MAX_RETAINED_BYTES);
    }

    /// Writes the lines that are there.
    fn write_lines(mut self) -> (Self, io::Result<()>) {
        let outcome = self.sink.write(&self.lines);
        (self, outcome)
    }
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}
