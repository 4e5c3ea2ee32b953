//! Writer task, which also formats events with payloads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::{JoinError, spawn_blocking};

use crate::queue::{PendingEvents, Queue};
use crate::{LineSink, Overflow, event_ids, line};

/// Interval between retries of a failed write.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum capacity in bytes that a buffer keeps for the next batch.
const MAX_RETAINED_BYTES: usize = 1 << 20;

/// Writes the events of one [`Log`](crate::Log), once it [`run`](Writer::run)s.
#[derive(Debug)]
#[must_use = "nothing is written unless it runs"]
pub struct Writer<S> {
    queue: EndGuard,
    overflow: Overflow,
    batch: WriteBatch<S>,
}

/// Guard that marks the queue as ended when the writer is dropped.
#[derive(Debug)]
struct EndGuard(Arc<Queue>);

/// Batch that moves to the blocking thread and back.
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

    /// Writes events until the log is [closed](crate::Log::close) or dropped and everything is
    /// written. Spawn it on a tokio runtime; writes use its blocking threads.
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

/// Returns the result of a blocking task; `None` if it panicked or the runtime shuts down.
fn join_result<T>(done: Result<T, JoinError>) -> Option<T> {
    // A shutdown of the runtime needs no log line.
    if done.as_ref().is_err_and(JoinError::is_panic) {
        tracing::error!("audit sink panicked; no more events are written");
    }
    done.ok()
}

/// Logs when writes start to fail, and when they succeed again.
fn report(outcome: &io::Result<()>, failing: &mut bool) {
    match (health_change(outcome.is_err(), failing), outcome) {
        (Some(HealthChange::Failed), Err(error)) => {
            tracing::error!(%error, "failed to write audit events");
        }
        (Some(HealthChange::Recovered), _) => tracing::info!("audit writes succeed again"),
        (Some(HealthChange::Failed) | None, _) => {}
    }
}

/// Change of the sink's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthChange {
    /// Writes have started to fail.
    Failed,
    /// Writes succeed again.
    Recovered,
}

/// Returns the change of health that an outcome causes.
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
            tracing::error!(%error, "failed to reopen the audit log; continuing with the old file");
        }
        if self.pending.count == 0 {
            return (self, Ok(()));
        }
        match self.format() {
            Ok(()) => self.write_lines(),
            Err(error) => (self, Err(error)),
        }
    }

    /// Formats pending events, and returns their buffer to the queue.
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

    /// Clears the lines, and releases most of the memory that a burst allocated.
    fn recycle_buffers(&mut self) {
        self.lines.clear();
        self.lines.shrink_to(MAX_RETAINED_BYTES);
        self.pending.lines.clear();
        self.pending.lines.shrink_to(MAX_RETAINED_BYTES);
    }

    /// Writes the formatted lines.
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
