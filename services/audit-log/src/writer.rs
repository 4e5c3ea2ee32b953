//! The one task that writes, and formats what takes long.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::{JoinError, spawn_blocking};

use crate::queue::{Queue, Waiting};
use crate::{Overflow, Sink, ids, line};

/// How long to wait before lines that could not be written are tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The most bytes that are kept for the next lines.
const KEEP: usize = 1 << 20;

/// Writes the events of one [`Log`](crate::Log). Nothing is written unless it [`run`](Writer::run)s.
#[derive(Debug)]
#[must_use = "nothing is written unless it runs"]
pub struct Writer<S> {
    queue: Ended,
    overflow: Overflow,
    desk: Desk<S>,
}

/// Says so when the writer is gone, however that comes.
#[derive(Debug)]
struct Ended(Arc<Queue>);

/// What goes to the blocking thread and comes back.
#[derive(Debug)]
struct Desk<S> {
    sink: S,
    component: Option<Box<str>>,
    waiting: Waiting,
    lines: Vec<u8>,
}

impl<S: Sink> Writer<S> {
    pub(crate) fn new(
        queue: Arc<Queue>,
        overflow: Overflow,
        component: Option<Box<str>>,
        sink: S,
    ) -> Self {
        let desk = Desk { sink, component, waiting: Waiting::default(), lines: Vec::new() };
        Self { queue: Ended(queue), overflow, desk }
    }

    /// Writes until the log is [closed](crate::Log::close) or gone and everything is written.
    /// To be spawned on a tokio runtime; writing itself happens on its blocking threads.
    pub async fn run(self) {
        let Self { queue: ended, overflow, mut desk } = self;
        let queue = &ended.0;
        let mut failing = false;
        loop {
            queue.gather().await;
            loop {
                let (waiting, orders) = queue.take(std::mem::take(&mut desk.waiting));
                let (count, weight) = (waiting.count as u64, waiting.weight);
                desk.waiting = waiting;
                let done = spawn_blocking(move || desk.write_down(orders.reopen)).await;
                let Some((back, mut outcome)) = returned(done) else {
                    queue.failed.fetch_add(count, Ordering::Relaxed);
                    return;
                };
                desk = back;
                report(&outcome, &mut failing);
                let mut closing = orders.close;
                while outcome.is_err() && overflow == Overflow::Wait && !closing {
                    queue.pause(RETRY).await;
                    let done = spawn_blocking(move || desk.deliver()).await;
                    let Some(again) = returned(done) else {
                        queue.failed.fetch_add(count, Ordering::Relaxed);
                        return;
                    };
                    (desk, outcome) = again;
                    report(&outcome, &mut failing);
                    closing = queue.is_closing();
                }
                let counter = if outcome.is_ok() { &queue.written } else { &queue.failed };
                counter.fetch_add(count, Ordering::Relaxed);
                desk.tidy();
                queue.release(weight);
                drop(orders.flushed);
                if !orders.close {
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
fn returned<T>(done: Result<T, JoinError>) -> Option<T> {
    // Otherwise the runtime is going down, and everybody knows.
    if done.as_ref().is_err_and(JoinError::is_panic) {
        tracing::error!("the audit sink has given up: no more events are written");
    }
    done.ok()
}

/// Once when it begins to fail, once when it is over.
fn report(outcome: &io::Result<()>, failing: &mut bool) {
    match (turn(outcome.is_err(), failing), outcome) {
        (Some(Turn::Fails), Err(error)) => {
            tracing::error!(%error, "audit events cannot be written");
        }
        (Some(Turn::Works), _) => tracing::info!("audit events are written again"),
        (Some(Turn::Fails) | None, _) => {}
    }
}

/// What is worth a line in the process's own log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Writing does not work any more.
    Fails,
    /// It works again.
    Works,
}

/// Whether writing has turned bad or good.
pub(crate) fn turn(fails: bool, failing: &mut bool) -> Option<Turn> {
    match (std::mem::replace(failing, fails), fails) {
        (false, true) => Some(Turn::Fails),
        (true, false) => Some(Turn::Works),
        (true, true) | (false, false) => None,
    }
}

impl<S: Sink> Desk<S> {
    /// Formats the events and writes them.
    fn write_down(mut self, reopen: bool) -> (Self, io::Result<()>) {
        if reopen && let Err(error) = self.sink.reopen() {
            tracing::error!(%error, "the audit log cannot be reopened; writing goes on to the old one");
        }
        if self.waiting.count == 0 {
            return (self, Ok(()));
        }
        match self.format() {
            Ok(()) => self.deliver(),
            Err(error) => (self, Err(error)),
        }
    }

    /// Makes lines of what waits, and leaves the room that they took to what comes next.
    fn format(&mut self) -> io::Result<()> {
        let Self { waiting, lines, component, .. } = self;
        std::mem::swap(&mut waiting.lines, lines);
        let rest = std::mem::take(&mut waiting.rest);
        (waiting.count, waiting.weight) = (0, 0);
        for (event, behind) in rest {
            let id = ids::next().map_err(io::Error::other)?;
            line::write(&event, id, component.as_deref(), lines);
            lines.extend_from_slice(&behind);
        }
        Ok(())
    }

    /// Forgets the lines, and most of the room that a burst of them took.
    fn tidy(&mut self) {
        self.lines.clear();
        self.lines.shrink_to(KEEP);
        self.waiting.lines.clear();
        self.waiting.lines.shrink_to(KEEP);
    }

    /// Writes the lines that are there.
    fn deliver(mut self) -> (Self, io::Result<()>) {
        let outcome = self.sink.write(&self.lines);
        (self, outcome)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.end();
    }
}
