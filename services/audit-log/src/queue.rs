//! Queue between requests and the writer, limited in bytes.

use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use vmcp_audit::{Event, PayloadExcerpt};

/// Delay before a batch is written: one wake-up for many requests.
const BATCH_DELAY: Duration = Duration::from_millis(10);

/// Queue of events.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Size of events that are not yet written, including those of the current batch. Changes only
    /// while `state` is locked, so that the limit holds; reads without the lock may be stale.
    weight: AtomicUsize,
    limit: usize,
    /// Notifies the writer of the first event or a command.
    work: Notify,
    /// Ends the delay of the current batch.
    flush_now: Notify,
    /// Notifies waiting responses of free capacity.
    capacity: Notify,
    pub(crate) written: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) failed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    pending: PendingEvents,
    commands: WriterCommands,
    /// The writer has ended.
    ended: bool,
}

/// Events in order: `lines` precede the first one of `unformatted`, whose lines follow it, and so
/// on.
#[derive(Debug, Default)]
pub(crate) struct PendingEvents {
    /// Formatted events.
    pub(crate) lines: Vec<u8>,
    /// Events that are not yet formatted, each with the lines that follow it.
    pub(crate) unformatted: Vec<(Event, Vec<u8>)>,
    pub(crate) count: usize,
    pub(crate) weight: usize,
}

/// Event on its way to the writer.
pub(crate) enum QueueEntry<'a> {
    /// Formatted event.
    Line(&'a [u8]),
    /// Event that takes long to format.
    Event(Box<Event>),
}

/// Commands to the writer.
#[derive(Debug, Default)]
pub(crate) struct WriterCommands {
    pub(crate) reopen: bool,
    pub(crate) close: bool,
    /// Callers that wait for the events so far.
    pub(crate) flushed: Vec<oneshot::Sender<()>>,
}

impl Queue {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            state: Mutex::default(),
            weight: AtomicUsize::new(0),
            limit,
            work: Notify::new(),
            flush_now: Notify::new(),
            capacity: Notify::new(),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Queues an event, or counts it as dropped beyond `limit_factor` times the limit.
    pub(crate) fn push(&self, entry: QueueEntry<'_>, limit_factor: usize) {
        let weight = entry.weight();
        let mut state = self.lock();
        let sum = self.weight.load(Ordering::Relaxed) + weight;
        if sum > self.limit.saturating_mul(limit_factor) || state.commands.close || state.ended {
            drop(state);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.weight.store(sum, Ordering::Relaxed);
        let first = state.pending.count == 0;
        state.pending.add(entry, weight);
        drop(state);
        if first {
            self.work.notify_one();
        }
        if sum > self.limit / 2 && sum - weight <= self.limit / 2 {
            self.flush_now.notify_one();
        }
    }

    /// Returns the size of events that are not yet written, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.weight.load(Ordering::Relaxed)
    }

    /// Returns whether a response may proceed: there is capacity, or the writer has ended.
    pub(crate) fn has_capacity(&self) -> bool {
        self.weight() < self.limit || self.lock().ended
    }

    /// Waits for capacity.
    pub(crate) async fn capacity(&self) {
        loop {
            let mut capacity = std::pin::pin!(self.capacity.notified());
            // Registered before the check, so that no notification is missed in between.
            capacity.as_mut().enable();
            if self.has_capacity() {
                return;
            }
            capacity.await;
        }
    }

    /// Sends a command to the writer.
    pub(crate) fn command(&self, order: impl FnOnce(&mut WriterCommands)) {
        {
            let mut state = self.lock();
            if state.ended {
                return;
            }
            order(&mut state.commands);
        }
        self.work.notify_one();
        self.flush_now.notify_one();
    }

    /// Waits for events or a command, then for the delay of a batch.
    pub(crate) async fn gather(&self) {
        self.work.notified().await;
        // Both outcomes are fine: half of the queue is full, or the delay has passed.
        _ = timeout(BATCH_DELAY, self.flush_now.notified()).await;
    }

    /// Waits for `time`, or until a command arrives.
    pub(crate) async fn pause(&self, time: Duration) {
        _ = timeout(time, self.flush_now.notified()).await;
    }

    /// Returns whether the writer has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.lock().commands.close
    }

    /// Takes all queued events and commands, leaving `emptied` for reuse.
    pub(crate) fn take(&self, emptied: PendingEvents) -> (PendingEvents, WriterCommands) {
        let mut state = self.lock();
        let commands = mem::take(&mut state.commands);
        // A closed log stays closed.
        state.commands.close = commands.close;
        (mem::replace(&mut state.pending, emptied), commands)
    }

    /// Releases the capacity of written events.
    pub(crate) fn release(&self, weight: usize) {
        {
            let _state = self.lock();
            self.weight.fetch_sub(weight, Ordering::Relaxed);
        }
        self.capacity.notify_waiters();
    }

    /// Marks the writer as ended; queued events are lost.
    pub(crate) fn end(&self) {
        let lost = {
            let mut state = self.lock();
            state.ended = true;
            state.commands.flushed.clear();
            mem::take(&mut state.pending)
        };
        self.dropped.fetch_add(lost.count as u64, Ordering::Relaxed);
        self.capacity.notify_waiters();
    }

    /// Locks the state, also a poisoned one: no code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        vmcp_core::lock(&self.state)
    }
}

// === impl PendingEvents ===

impl PendingEvents {
    fn add(&mut self, entry: QueueEntry<'_>, weight: usize) {
        self.count += 1;
        self.weight += weight;
        match entry {
            QueueEntry::Event(event) => self.unformatted.push((*event, Vec::new())),
            QueueEntry::Line(line) => {
                let lines = self.unformatted.last_mut().map_or(&mut self.lines, |(_, lines)| lines);
                lines.extend_from_slice(line);
            }
        }
    }
}

// === impl QueueEntry ===

impl QueueEntry<'_> {
    /// Returns the approximate size in the queue, in bytes.
    fn weight(&self) -> usize {
        match self {
            Self::Line(line) => line.len(),
            Self::Event(event) => {
                let data = |data: &Option<PayloadExcerpt>| {
                    data.as_ref().map_or(0, |data| data.prefix.len())
                };
                size_of::<Event>() + 512 + data(&event.request) + data(&event.response)
            }
        }
    }
}
