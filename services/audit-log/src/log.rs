//! Log of audit events.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::oneshot;
use vmcp_audit::{AuditSink, Capacity, Event};

use crate::queue::{Queue, QueueEntry};
use crate::{LineSink, Writer, event_ids, line};

/// Settings of a log.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `component` of the events; `None` means `vmcp-server` for requests and `vmcp-composer` for
    /// operations of the gateway itself.
    pub component: Option<Box<str>>,
    /// Behavior when the queue is full.
    pub overflow: Overflow,
    /// Maximum size of queued events in bytes. An event takes about 1 KiB plus its data.
    pub queue_bytes: usize,
}

/// Behavior when the queue is full or a write fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Drops and counts events, also those of a failed write. Requests never wait.
    #[default]
    Drop,
    /// Responses wait for capacity, and failed writes are retried each second: no request completes
    /// while the disk is full. Calls without a waiting client cannot be delayed; their events are
    /// dropped and counted beyond twice the queue.
    Wait,
}

/// Accepts events and passes them to the [`Writer`]. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Log(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: Arc<Queue>,
    overflow: Overflow,
    component: Option<Box<str>>,
}

/// Handle to a log that is being replaced. It does not keep the log open: the log closes with its
/// last clone.
#[derive(Clone, Debug)]
pub struct LogHandle(Arc<Queue>);

thread_local! {
    /// Buffer for the line of the current event.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Number of events by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Written.
    pub written: u64,
    /// Never written: the queue was full, or the writer had ended.
    pub dropped: u64,
    /// Lost in a failed write.
    pub failed: u64,
}

// === impl Settings ===

impl Default for Settings {
    /// No component, a queue of 16 MiB that drops events.
    fn default() -> Self {
        Self { component: None, overflow: Overflow::Drop, queue_bytes: 16 << 20 }
    }
}

// === impl Log ===

impl Log {
    /// Creates a log with its writer, which has to [run](Writer::run) for events to reach `sink`.
    pub fn new<S: LineSink>(settings: Settings, sink: S) -> (Self, Writer<S>) {
        let Settings { component, overflow, queue_bytes } = settings;
        let queue = Arc::new(Queue::new(queue_bytes));
        let writer = Writer::new(Arc::clone(&queue), overflow, component.clone(), sink);
        (Self(Arc::new(Shared { queue, overflow, component })), writer)
    }

    /// Reopens the sink before the next line, for log rotation. A failure is logged, and the sink
    /// continues with the old file.
    pub fn reopen(&self) {
        self.handle().reopen();
    }

    /// Waits until all events so far are written or have failed.
    pub async fn flush(&self) {
        self.handle().flush().await;
    }

    /// Returns a handle for the time after the log is replaced: events of open requests still
    /// arrive.
    #[must_use]
    pub fn handle(&self) -> LogHandle {
        LogHandle(Arc::clone(&self.0.queue))
    }

    /// Closes the log. [`Writer::run`] returns when all queued events are written.
    pub fn close(&self) {
        self.0.queue.command(|commands| commands.close = true);
    }

    /// Returns the number of events by outcome, for metrics.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Queue { written, dropped, failed, .. } = &*self.0.queue;
        Counts { written: get(written), dropped: get(dropped), failed: get(failed) }
    }

    /// Returns the size of queued events in bytes, for a gauge: at most the limit of the queue, or
    /// twice that.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.0.queue.weight()
    }
}

// === impl LogHandle ===

impl LogHandle {
    /// See [`Log::reopen`].
    pub fn reopen(&self) {
        self.0.command(|commands| commands.reopen = true);
    }

    /// See [`Log::flush`].
    pub async fn flush(&self) {
        let (flushed, done) = oneshot::channel();
        self.0.command(|commands| commands.flushed.push(flushed));
        // The writer drops the sender instead of sending a value.
        _ = done.await;
    }

    /// Returns whether the writer has ended: everything is written.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.has_ended()
    }
}

impl AuditSink for Log {
    fn record(&self, event: Event) {
        let limit_factor = match self.0.overflow {
            Overflow::Drop => 1,
            Overflow::Wait => 2,
        };
        let Shared { queue, component, .. } = &*self.0;
        // Moving an event to another thread, which frees all its parts, costs more than formatting
        // it. Only
        // redaction of payloads takes longer. Without random bytes, the writer reports the error.
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

    fn reserve(&self) -> Option<Capacity> {
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
