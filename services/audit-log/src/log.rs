//! Where events are given to.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::oneshot;
use vmcp_audit::{Event, Record, Room};

use crate::queue::{Queue, QueueEntry};
use crate::{LineSink, Writer, event_ids, line};

/// How lines are written, and how much may wait to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `component` of the events; `None` is `vmcp-server` for requests and `vmcp-composer` for what the
    /// gateway does itself.
    pub component: Option<Box<str>>,
    /// What happens when the writer does not keep up.
    pub overflow: Overflow,
    /// The most bytes of events that may wait for the writer. An event takes about one KiB and its data.
    pub queue_bytes: usize,
}

/// What happens when events come faster than they can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Events are dropped and counted; so are those of a failed write. No request ever waits.
    #[default]
    Drop,
    /// Answers wait until there is room, and lines that could not be written are tried again each second:
    /// while the disk is full, nothing is answered. Calls that nobody waits for cannot be held up; beyond
    /// twice the queue, their events are dropped and counted.
    Wait,
}

/// Takes events and hands them to the [`Writer`]. A clone is the same log.
#[derive(Clone, Debug)]
pub struct Log(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: Arc<Queue>,
    overflow: Overflow,
    component: Option<Box<str>>,
}

/// The end of a log that is not given anything any more, or soon will not be. It does not keep the log open: that closes
/// with its last clone.
#[derive(Clone, Debug)]
pub struct LogHandle(Arc<Queue>);

thread_local! {
    /// The line that is being written.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What became of the events so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Written.
    pub written: u64,
    /// Never tried to be written: the queue was full, or the writer was gone.
    pub dropped: u64,
    /// Lost because writing failed.
    pub failed: u64,
}

// === impl Settings ===

impl Default for Settings {
    /// No component of its own, 16 MiB of queue that drops.
    fn default() -> Self {
        Self { component: None, overflow: Overflow::Drop, queue_bytes: 16 << 20 }
    }
}

// === impl Log ===

impl Log {
    /// A log, and the writer that has to [run](Writer::run) for anything to be written to `sink`.
    pub fn new<S: LineSink>(settings: Settings, sink: S) -> (Self, Writer<S>) {
        let Settings { component, overflow, queue_bytes } = settings;
        let queue = Arc::new(Queue::new(queue_bytes));
        let writer = Writer::new(Arc::clone(&queue), overflow, component.clone(), sink);
        (Self(Arc::new(Shared { queue, overflow, component })), writer)
    }

    /// Opens the sink anew before the next line: somebody has renamed the file. A failure is logged, and
    /// writing goes on to the old one.
    pub fn reopen(&self) {
        self.handle().reopen();
    }

    /// Waits until the events so far are written, or have failed to be.
    pub async fn flush(&self) {
        self.handle().flush().await;
    }

    /// What remains of the log when another one takes its place: events of what is under way still come.
    #[must_use]
    pub fn handle(&self) -> LogHandle {
        LogHandle(Arc::clone(&self.0.queue))
    }

    /// Takes no more events. [`Writer::run`] ends when what is here is written.
    pub fn close(&self) {
        self.0.queue.command(|commands| commands.close = true);
    }

    /// What became of the events so far, for metrics.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Queue { written, dropped, failed, .. } = &*self.0.queue;
        Counts { written: get(written), dropped: get(dropped), failed: get(failed) }
    }

    /// How many bytes the events have that are not written yet: a gauge, at most the queue's or twice that.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.0.queue.weight()
    }
}

// === impl LogHandle ===

impl LogHandle {
    /// As [`Log::reopen`].
    pub fn reopen(&self) {
        self.0.command(|commands| commands.reopen = true);
    }

    /// As [`Log::flush`].
    pub async fn flush(&self) {
        let (flushed, done) = oneshot::channel();
        self.0.command(|commands| commands.flushed.push(flushed));
        // The sender says nothing; it is dropped.
        _ = done.await;
    }

    /// Whether the writer has ended: everything is written.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.has_ended()
    }
}

impl Record for Log {
    fn record(&self, event: Event) {
        let limit_factor = match self.0.overflow {
            Overflow::Drop => 1,
            Overflow::Wait => 2,
        };
        let Shared { queue, component, .. } = &*self.0;
        // Handing an event to another thread, which frees all its parts, costs more than its line. Only
        // taking secrets out of what passed takes longer; and without random bytes, the writer tells.
        let plain = event.request.is_none() && event.response.is_none();
        let Some(id) = plain.then(event_ids::next).and_then(Result::ok) else {
            return queue.push(QueueEntry::Event(Box::new(event)), limit_factor);
        };
        LINE.with_borrow_mut(|line| {
            line.clear();
            line::write(&event, id, component.as_deref(), line);
            queue.push(QueueEntry::Line(line), limit_factor);
        });
    }

    fn room(&self) -> Option<Room> {
        if self.0.overflow == Overflow::Drop || self.0.queue.has_capacity() {
            return None;
        }
        let queue = Arc::clone(&self.0.queue);
        Some(Box::pin(async move { queue.capacity().await }))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queue.command(|commands| commands.close = true);
    }
}

#[cfg(test)]
mod tests;
